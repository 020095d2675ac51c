"""Tests of contraction orders: against every tree, against another project's optimum, and through the search."""

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.run.search import search
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import apply_move, find
from tapestry.rewrites.contraction_order import MOST_EXACT, Network, Tree, best_tree, cost_of, leaves
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rules import rule_named
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tests.cases import first

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def network(text: str, **sizes: int) -> Network:
    left, right = text.split("->")
    labels = tuple(tuple(part) for part in left.split(","))
    names = dict.fromkeys(n for part in labels for n in part)
    return Network(labels, tuple(right), tuple((n, sizes.get(n, 2)) for n in names))


def random_network(count: int, rng: np.random.Generator) -> Network:
    """Draw operands of up to four names out of a few: shared by two, by many, or by none; some are in the output."""
    names = LETTERS[: count + 2]
    labels = tuple(
        tuple(rng.permutation(list(names))[: rng.integers(0, min(5, len(names)))]) for _ in range(count)
    )
    used = list(dict.fromkeys(n for part in labels for n in part))
    output = tuple(n for n in used if rng.random() < 0.3)
    return Network(labels, output, tuple((n, int(rng.integers(1, 7))) for n in used))


def every_tree(places: tuple[int, ...]) -> Iterator[Tree]:
    if len(places) == 1:
        yield places[0]
    for count in range(1, len(places)):
        for left in combinations(places, count):
            if places[0] in left:
                right = tuple(p for p in places if p not in left)
                yield from ((a, b) for a in every_tree(left) for b in every_tree(right))


@pytest.mark.parametrize("measure", ["flops", "memory"])
@pytest.mark.parametrize("seed", range(40))
def test_no_tree_is_better(seed: int, measure: str) -> None:
    net = random_network(2 + seed % 4, np.random.default_rng(seed))
    best = best_tree(net, measure)
    assert sorted(leaves(best)) == list(range(len(net.labels)))
    first = cost_of(best, net).by(measure)[0]
    assert first == min(cost_of(t, net).by(measure)[0] for t in every_tree(tuple(range(len(net.labels)))))


def test_a_chain_of_matrices_is_bracketed_as_in_the_textbook() -> None:
    # Cormen et al., Introduction to Algorithms, section 15.2: 15,125 multiplications.
    chain = network("ab,bc,cd,de,ef,fg->ag", a=30, b=35, c=15, d=5, e=10, f=20, g=25)
    best = best_tree(chain)
    assert cost_of(best, chain).products == 15_125
    assert best == ((0, (1, 2)), ((3, 4), 5))


def test_an_integral_transformation_is_done_one_index_at_a_time() -> None:
    ao2mo = network("pqrs,pi,qj,rk,sl->ijkl", **dict.fromkeys("pqrsijkl", 64))
    cost = cost_of(best_tree(ao2mo), ao2mo)
    assert cost.products == 4 * 64**5
    assert cost.largest == 64**4


@pytest.mark.parametrize("count", range(3, 9))
@pytest.mark.parametrize("seed", range(6))
def test_another_project_finds_nothing_cheaper(count: int, seed: int) -> None:
    peer = pytest.importorskip("opt_einsum")
    net = random_network(count, np.random.default_rng(100 * count + seed))
    names = dict(net.sizes)
    text = ",".join("".join(part) for part in net.labels) + "->" + "".join(net.output)
    shapes = [tuple(names[n] for n in part) for part in net.labels]
    path, _ = peer.contract_path(text, *shapes, shapes=True, optimize="optimal")
    trees: list[Tree] = list(range(count))
    for step in path:
        taken = [trees[k] for k in sorted(step)]
        trees = [t for t in trees if t not in taken]
        while len(taken) > 1:
            taken = [(taken[0], taken[1]), *taken[2:]]
        trees += taken
    assert cost_of(best_tree(net), net).products <= cost_of(trees[0], net).products


@pytest.mark.parametrize("seed", range(3))
def test_many_operands_get_an_order_no_worse_than_another_projects(seed: int) -> None:
    peer = pytest.importorskip("opt_einsum")
    rng, count = np.random.default_rng(seed), 2 * MOST_EXACT
    edges = [(k, k + 1) for k in range(count - 1)] + [tuple(rng.choice(count, 2, False)) for _ in range(6)]
    names = [chr(ord("a") + k) if k < 26 else chr(ord("A") + k - 26) for k in range(len(edges))]
    labels = tuple(tuple(n for n, edge in zip(names, edges, strict=True) if k in edge) for k in range(count))
    sizes = {n: int(rng.integers(2, 6)) for n in names}
    net = Network(labels, (), tuple(sizes.items()))
    text = ",".join("".join(part) for part in labels) + "->"
    shapes = [tuple(sizes[n] for n in part) for part in labels]
    _, found = peer.contract_path(text, *shapes, shapes=True, optimize="greedy")
    # Its count has two operations per multiplication with a sum.
    assert cost_of(best_tree(net), net).products <= float(found.opt_cost)


def transformed_integrals(n: int) -> Graph:
    """Build two-electron integrals in another basis: one einsum of five operands, four of them the same matrix."""
    b = ExampleBuilder("transformed_integrals")
    integrals, c = b.tensor("integrals", n, n, n, n), b.tensor("c", n, n)
    return b.result(b.contract("pqrs,pi,qj,rk,sl->ijkl", integrals, c, c, c, c, site="y"))


def flops(graph: Graph) -> int:
    """Count two flops per multiplication of a contraction of two; one more per further operand."""
    blocks = [b for b in graph.blocks if b.operator == "contract"]
    spaces = [b.definition.signature.index_range.shape for b in blocks if b.definition.signature]
    return sum(len(b.inputs) * math.prod(space) for b, space in zip(blocks, spaces, strict=True))


def searched(graph: Graph, evaluations: int, rules: list[str] | None = None) -> Result:
    budget = Budget(evaluations=evaluations)
    return search(
        graph, load_mesh("dgx-h100"), rules=rules, budget=budget, islands=1, executor=InlineExecutor()
    )


@pytest.mark.slow
def test_the_search_transforms_integrals_one_index_at_a_time() -> None:
    graph = transformed_integrals(64)
    assert flops(graph) > 1e15
    found = searched(graph, 30_000)
    assert min(flops(plan.graph) for plan in found.frontier) == 8 * 64**5
    fastest = min(found.frontier, key=lambda plan: plan.cost["time_s"])
    assert flops(fastest.graph) == 8 * 64**5


@pytest.mark.slow
def test_the_search_gets_there_pair_by_pair_too() -> None:
    found = searched(transformed_integrals(64), 100_000, ["order_contract"])
    assert min(flops(plan.graph) for plan in found.frontier) == 8 * 64**5


def test_transformed_integrals_have_the_same_values(rng: np.random.Generator) -> None:
    graph = transformed_integrals(6)
    integrals, c = rng.standard_normal((6, 6, 6, 6)), rng.standard_normal((6, 6))
    inputs = {"integrals": integrals.astype(np.float32), "c": c.astype(np.float32)}
    wanted = np.einsum("pqrs,pi,qj,rk,sl->ijkl", integrals, c, c, c, c, optimize=True)
    for plan in searched(graph, 2000).frontier:
        np.testing.assert_allclose(evaluate(plan.graph, inputs)["y.out"], wanted, rtol=1e-4, atol=1e-3)


EINSUMS = (
    "ab,bc,cd->ad",
    "zab,zbc,zcd,zde->zae",
    "ab,ac,ad,bcd->a",
    "a,b,c,d->dcba",
    "abx,bcx,cdx,dax->",
    "ab,bc,cd,de,ef,fg->ag",
    "ai,bi,ci,di,abcd,ij,j->i",
    "abc,cde,efg,ghi,ia,b,d,f->h",
)


@pytest.mark.parametrize("text", EINSUMS)
@pytest.mark.parametrize("choice", ["flops", "memory"])
def test_einsums_of_many_kinds_keep_their_values(text: str, choice: str, rng: np.random.Generator) -> None:
    b, sizes = ExampleBuilder("einsum"), {name: int(rng.integers(2, 5)) for name in LETTERS}
    parts = text.partition("->")[0].split(",")
    arrays = [rng.standard_normal([sizes[n] for n in part]) for part in parts]
    operands = [b.tensor(f"x{k}", *a.shape, dtype="float64") for k, a in enumerate(arrays)]
    graph = b.result(b.contract(text, *operands, site="y"))
    (move,) = (m for m in find(graph, [rule_named("best_order_of_contract")]) if m.choice == choice)
    ordered = apply_move(graph, move)
    assert all(len(block.inputs) <= 2 for block in ordered.blocks if block.operator == "contract")
    got = evaluate(ordered, dict(zip(operands, arrays, strict=True)))["y.out"]
    np.testing.assert_allclose(got, np.einsum(text, *arrays), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_chains_of_products_are_bracketed_anew_by_the_search(seed: int) -> None:
    rng, b = np.random.default_rng(seed), ExampleBuilder("chain")
    count = 5 + seed
    sizes = [int(2 ** rng.integers(5, 12)) for _ in range(count + 1)]
    matrices = [b.tensor(f"m{k}", sizes[k], sizes[k + 1]) for k in range(count)]
    product = matrices[0]
    for matrix in matrices[1:]:
        product = b.contract("ij,jk->ik", product, matrix)
    graph = b.result(product)
    names = LETTERS[: count + 1]
    labels = tuple((names[k], names[k + 1]) for k in range(count))
    net = Network(labels, (names[0], names[-1]), tuple(zip(names, sizes, strict=True)))
    best = 2 * cost_of(best_tree(net), net).products
    assert flops(graph) > best
    assert min(flops(plan.graph) for plan in searched(graph, 60_000).frontier) == best
