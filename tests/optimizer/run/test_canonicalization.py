"""Tests of canonicalization: unobserved blocks are removed, shards become their program, sequence points stay."""

from tapestry.costmodel.resources import declared_resources
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, verify_plan
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.validate import validate
from tests.costmodel.programs import priced
from tests.teg.sharding.test_external_graphs import paper
from tests.teg.test_sequence_points import ordered

MESH = load_mesh("dgx-h100")


def searched(graph: Graph) -> Graph:
    result = search(graph, MESH, budget=Budget(evaluations=2000), islands=1, seed=0)
    assert result.frontier
    assert all(validate(plan.graph) == [] for plan in result.frontier)
    return result.frontier[0].graph


def test_the_program_of_shards_is_searched() -> None:
    assert {b.operator for b in searched(paper(concat=False)).blocks} >= {"source", "cell", "sink"}


def test_what_nobody_observes_is_left_out_and_points_stay() -> None:
    found = searched(ordered())
    assert "lost" not in found.by_site
    assert found.by_site["point"].after == ("early", "unseen")
    assert found.by_site["late"].after == ("point",)


def test_blocks_with_costs_of_their_own_keep_them() -> None:
    found = searched(priced())
    assert found.by_site["y"].definition.costs is priced().by_site["y"].definition.costs


def test_the_named_costs_of_a_plan_are_those_of_all_its_parts() -> None:
    graph = priced()
    result = search(graph, MESH, budget=Budget(evaluations=2000), islands=1, seed=0)
    abstract = declared_resources(graph, Placements(), MeshShape(MESH.axis_sizes))
    # Fixed 1 and 2 per step along k = 10; everything on each of eight devices.
    assert abstract["gpu"] == 8 * (1 + 2 * 10)
    for plan in result.frontier:
        named = verify_plan(plan, MESH).to_json()["named_costs"]
        assert named == declared_resources(plan.graph, plan.placements, MeshShape(MESH.axis_sizes))
        assert 21 <= named["gpu"] <= 8 * 21
