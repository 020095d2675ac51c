"""Tests that a search does without the parts that a benchmark leaves out, and is itself with all of them."""

import numpy as np

from tapestry.hardware import load_mesh
from tapestry.optimizer import Result
from tapestry.optimizer.placement.credits import SHAPE
from tapestry.optimizer.placement.variation import RULES
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph
from tests.costmodel.programs import layers

MESH = load_mesh("dgx-h100")


def found(graph: Graph, parts: SearchParts, evaluations: int = 2000, **options: bool) -> Result:
    return search(graph, MESH, evaluations=evaluations, islands=1, parts=parts, **options)


def test_all_parts_are_the_search() -> None:
    graph = layers(1)
    whole, named = search(graph, MESH, evaluations=2000, islands=1), found(graph, ALL_PARTS)
    assert [plan.id for plan in whole.frontier] == [plan.id for plan in named.frontier]


def test_without_the_first_plans_only_the_abstract_plan_is_left() -> None:
    nothing = SearchParts(
        propagation=False, exact=False, presearch=False, micro_batches=False, pipelines=False
    )
    assert len(found(layers(1), nothing, search=False, devices="all").frontier) == 1


def test_exact_plans_and_propagation_are_two_sources_of_plans() -> None:
    graph = layers(2)
    propagated = found(graph, SearchParts(exact=False, presearch=False), search=False)
    exact = found(graph, SearchParts(propagation=False, presearch=False), search=False)
    assert len(propagated.frontier) > 1 and len(exact.frontier) > 1
    assert {p.id for p in exact.frontier} != {p.id for p in propagated.frontier}


def test_without_epochs_only_graphs_change() -> None:
    result = found(layers(1), SearchParts(placement=False), evaluations=400)
    moved = {name: counts for name, counts in result.rules.items() if name in RULES}
    assert all(counts == (0, 0) for counts in moved.values())


def test_a_placement_move_is_left_out_by_its_name() -> None:
    result = found(layers(1), SearchParts(left_out=("reshard",), structure=False))
    assert result.rules["reshard"] == (0, 0)
    assert result.rules["turn-axis"][0] > 0
    shares = np.random.default_rng(0).random(SHAPE)
    assert np.array_equal(ALL_PARTS.shares(shares), shares)
