"""Tests of moves on gene arrays: always legal, counted by the hash, and each doing what its name says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import SPEC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.rng import between, new_rng, unit
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.variation import CROSSOVER, FOLLOW, LEAD, LONGEST_PREFETCH, hash_plan, vary
from tapestry.optimizer.placement.variation import RULES as ALL_RULES
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, layers, random_genes

# All rules that need nothing but the plan: a crossover needs a front.
RULES = ALL_RULES[:CROSSOVER]

Plan = tuple[np.ndarray, np.ndarray, np.ndarray]


def start(space: PlanSpace, rng: np.random.Generator) -> tuple[Plan, np.ndarray]:
    """Draw a random plan in the archive's types, and its hash."""
    genes = random_genes(rng, space)
    plan = (genes.strategies.astype(np.int16), genes.prefetch.astype(np.int8), genes.regather.astype(np.int8))
    return plan, np.array([hash_plan(*plan)], np.uint64)


def assert_legal(space: PlanSpace, plan: Plan) -> None:
    genes, prefetch, regather = plan
    assert (genes >= 0).all()
    assert (genes < space.space.strategy_count).all()
    assert (prefetch >= 0).all()
    assert (prefetch <= LONGEST_PREFETCH).all()
    assert set(np.unique(regather)) <= {0, 1}


@pytest.mark.parametrize(
    ("name", "mesh", "tied"), one_in(5, product(GRAPHS, ["2x-dgx-h100", "tpu-v5e-4x4"], [True, False]))
)
def test_every_rule_keeps_plans_legal_and_hashes_current(
    name: str, mesh: str, tied: bool, rng: np.random.Generator
) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    search, random_state = search_space(space, tied=tied), new_rng(rng)
    plan, digest = start(space, rng)
    moved = [0] * len(RULES)

    for _ in range(250):
        for rule in range(len(RULES)):
            before = [a.copy() for a in plan]
            vary(rule, random_state, space.space, search, *plan, digest)

            assert_legal(space, plan)
            assert digest[0] == hash_plan(*plan)
            changed = [not (a == b).all() for a, b in zip(before, plan, strict=True)]
            moved[rule] += any(changed)
            assert not changed[1] or RULES[rule] == "prefetch"
            assert not changed[2] or RULES[rule] == "regather"
            assert not changed[0] or RULES[rule] not in ("prefetch", "regather")

    idle = set() if space.space.has_dimension_orders else {"relayout"}
    assert {rule for rule, count in zip(RULES, moved, strict=True) if not count} == idle


def test_rules_for_sources_touch_nothing_else(rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS["attention"](), load_mesh("dgx-h100"))
    search, random_state = search_space(space), new_rng(rng)
    plan, digest = start(space, rng)
    slots = len(space.slots)
    for rule in ("place-source", "follow-reader"):
        for _ in range(200):
            before = plan[0].copy()
            vary(RULES.index(rule), random_state, space.space, search, *plan, digest)
            assert (plan[0][:slots] == before[:slots]).all()


def tensor_pairs(space: PlanSpace, genes: np.ndarray) -> np.ndarray:
    """Return for each edge whether it needs a copy."""
    a = space.space
    made = a.spec_ids[a.made_offset[a.edge_tensor] + genes[a.made_gene[a.edge_tensor]], SPEC]
    need = a.spec_ids[a.edge_needed + genes[a.edge_slot], SPEC]
    pairs = a.pair_ids[a.pair_offset[a.edge_tensor] + made * a.needed_specs[a.edge_tensor] + need]
    return a.pair_rows[pairs, 0] >= 0


@pytest.mark.parametrize(("rule", "end"), [(FOLLOW, "reader"), (LEAD, "maker")])
def test_following_and_leading_remove_copies(rule: int, end: str, rng: np.random.Generator) -> None:
    """Check that a changed gene has an edge without a copy afterwards: the one it was moved along."""
    space = PlanSpace(GRAPHS["perceptron"](), load_mesh("dgx-h100"))
    search, random_state = search_space(space, tied=False), new_rng(rng)
    edges, slots = space.space, len(space.slots)
    seen = 0
    for _ in range(400):
        plan, digest = start(space, rng)
        before = plan[0].copy()
        vary(rule, random_state, space.space, search, *plan, digest)
        copied = tensor_pairs(space, plan[0].astype(np.int64))
        for gene in np.flatnonzero(plan[0] != before):
            if end == "reader" and gene >= slots:
                continue
            own = edges.edge_slot == gene if end == "reader" else edges.made_gene[edges.edge_tensor] == gene
            assert not copied[own].all()
            seen += 1
    assert seen > 50


def test_equal_blocks_move_together_most_of_the_time(rng: np.random.Generator) -> None:
    space = PlanSpace(layers(5), load_mesh("dgx-h100"))
    search, random_state = search_space(space), new_rng(rng)
    inner = [space.gene_of[f"up{k}"] for k in (2, 3)]
    together = alone = 0
    for _ in range(3000):
        plan, digest = start(space, rng)
        plan[0][:] = 0
        vary(RULES.index("reshard"), random_state, space.space, search, *plan, digest)
        moved = plan[0][inner] != 0
        together += moved.all()
        alone += moved.any() and not moved.all()
    # Three in four moves take the whole class.
    assert 2 * alone < together
    assert alone > 0


def test_the_stream_is_even_and_repeats_from_its_seed() -> None:
    one, same = (new_rng(np.random.default_rng(9)) for _ in range(2))
    numbers = [between(one, -3, 5) for _ in range(8000)]
    assert numbers == [between(same, -3, 5) for _ in range(8000)]
    counts = np.bincount(np.array(numbers) + 3)
    assert len(counts) == 8
    assert counts.min() > 880
    assert counts.max() < 1120
    assert all(0.0 <= unit(one) < 1.0 for _ in range(1000))


def test_hashes_distinguish_positions_and_kinds_of_genes() -> None:
    def digest(position: int, kind: int, value: int) -> int:
        plan = (np.zeros(9, np.int16), np.zeros(9, np.int8), np.zeros(9, np.int8))
        plan[kind][position] = value
        return int(hash_plan(*plan))

    assert len({digest(k, kind, v) for k in range(9) for kind in range(3) for v in (1, 2, 3)}) == 81
