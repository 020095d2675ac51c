"""The kinds of nodes in a graph, and the law about them."""

import pytest

import tapestry
from tapestry.teg.node_kinds import NODE_KINDS, block_kind, node_issues, tensor_kind
from tests.teg.test_sequence_points import ordered


def test_blocks_and_tensors_have_the_kinds_of_the_paper() -> None:
    graph = ordered()
    kinds = {b.site: block_kind(b) for b in graph.blocks}
    assert kinds["x"] == "Source" and kinds["y"] == "Sink" and kinds["point"] == "SequencePoint"
    assert kinds["late"] == "BlockOp" and tensor_kind(graph, "late") == "Tensor"


def test_coordinates_are_index_nodes_and_stay_so_through_slices() -> None:
    with tapestry.program("indices") as p:
        index = p.coordinates(4, 5)
        p.output("part", index[1:3].transpose(1, 0, 2))
        p.output("sum", index.sum(0))
    graph = p.graph
    assert [block_kind(b) for b in graph.blocks].count("IndexSelector") == 1
    found = {s.site: tensor_kind(graph, s.inputs[0]) for s in graph.sinks}
    assert found == {"part": "Index", "sum": "Tensor"}


@pytest.mark.parametrize(
    ("kind", "specified", "issues"),
    [
        ("Selector", {"dependencies": ["Tensor", "Index"], "makes": 1}, []),
        ("Selector", {"dependencies": ["BlockOp"], "makes": 2}, ["dependency", "arity"]),
        ("Source", {"dependencies": [], "makes": 1, "consumers": ["Tensor"]}, []),
        ("Sink", {"dependencies": ["Tensor", "Signature", "SequencePoint"]}, []),
        ("SequencePoint", {"dependencies": [], "consumers": ["BlockOp", "Sink"]}, []),
        ("Index", {"dependencies": ["Selector"]}, ["dependency", "arity"]),
        ("BlockOp", {"dependencies": ["Tensor", "Signature", "Sink"]}, ["dependency"]),
    ],
)
def test_what_a_node_may_depend_on(kind: str, specified: dict, issues: list[str]) -> None:
    assert [i.kind for i in node_issues(kind, **specified)] == issues


def test_kinds_are_known_by_name() -> None:
    assert len({kind.name for kind in NODE_KINDS}) == len(NODE_KINDS) == 9
    with pytest.raises(ValueError, match="no kind of node 'Note'"):
        list(node_issues("Note"))
