"""Orders of contraction: against every tree there is, against another project's optimum, and through the search."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from rewrites.contraction_order import MOST_EXACT, Network, Tree, best_tree, cost_of, leaves

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def network(text: str, **sizes: int) -> Network:
    left, right = text.split("->")
    labels = tuple(tuple(part) for part in left.split(","))
    names = dict.fromkeys(n for part in labels for n in part)
    return Network(labels, tuple(right), tuple((n, sizes.get(n, 2)) for n in names))


def random_network(count: int, rng: np.random.Generator) -> Network:
    """Operands of up to four names out of a few: shared by two, by many, or by nobody; some are seen outside."""
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
