"""Tests that placements that do not fit are refused, all errors at once, each with its path."""

import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.signature import IndexDim, Row, Signature, projection

MESH_SHAPE = MeshShape.of(node=2, gpu=2)
NODE, GPU = Split(("node.0",)), Split(("gpu.0",))


@pytest.fixture
def graph() -> Graph:
    b = GraphBuilder("g")
    x = b.source("x", (4, 6), "float32")
    w = b.source("w", (6, 8), "float32", "parameter")
    (y,) = b.apply("contract", [x, w], site="product", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    (z,) = b.apply("softmax", [y], site="soft", axes=(1,))
    (v,) = b.apply("view", [z], site="turned", map=((1, 1, 0), (0, 1, 0)), shape=(8, 4))
    (r,) = b.apply("reshape", [v], site="flat", shape=(32,))
    b.sink(r, site="out")
    return b.build()


def faults(graph: Graph, placements: Placements) -> list[tuple[str, str]]:
    return [(i.path, i.message) for i in check_placements(graph, placements, MESH_SHAPE)]


def placed(site: str, *splits: Split, prefetch: tuple[int, ...] = (), **genes: object) -> Placements:
    return Placements({site: Placement(Strategy(splits), prefetch, **genes)})  # type: ignore[arg-type]


def test_legal_placements_have_no_issue(graph: Graph) -> None:
    assert check_placements(graph, placed("product", NODE, WHOLE, GPU), MESH_SHAPE) == []
    assert (
        check_placements(graph, placed("product", WHOLE, Split(("gpu.0", "node.0"), 2), WHOLE), MESH_SHAPE)
        == []
    )
    assert check_placements(graph, placed("turned", WHOLE, WHOLE), MESH_SHAPE) == []


@pytest.mark.parametrize(
    ("placements", "path", "message", "expected"),
    [
        (placed("produkt", NODE), "$.blocks.produkt", "no block 'produkt'", "did you mean product"),
        (
            placed("product", Split(("gpu.1",)), WHOLE, WHOLE),
            "$.blocks.product.strategy[0]",
            "no sub-axis 'gpu.1'",
            "gpu.0",
        ),
        (placed("product", NODE), "$.blocks.product.strategy", "1 splits", "3 index dimensions m, n, k"),
        (placed("flat", NODE, GPU), "$.blocks.flat.strategy", "2 splits", "1 index dimensions d0"),
        (
            placed("product", Split(("gpu.0",), 0), WHOLE, WHOLE),
            "$.blocks.product.strategy[0]",
            "granule is 0",
            "at least 1",
        ),
        (
            placed("product", WHOLE, WHOLE, WHOLE, prefetch=(0, -1)),
            "$.blocks.product.prefetch[1]",
            "the distance is -1",
            "0 or more",
        ),
        (
            placed("soft", WHOLE, prefetch=(1, 2)),
            "$.blocks.soft.prefetch",
            "2 entries",
            "one entry per input",
        ),
        (placed("turned", NODE, WHOLE), "$.blocks.turned.strategy", "is a view", "make and read it"),
        (Placements(schedule_order="programm"), "$.order", "unknown order 'programm'", "program"),
        (Placements(inputs="whole"), "$.inputs", "unknown inputs 'whole'", "chosen, replicated"),
        (Placements(outputs="shard"), "$.outputs", "unknown outputs 'shard'", "sharded"),
    ],
)
def test_each_fault_is_reported(
    graph: Graph, placements: Placements, path: str, message: str, expected: str
) -> None:
    (issue,) = check_placements(graph, placements, MESH_SHAPE)
    assert issue.path == path
    assert message in issue.message
    assert expected in issue.expected


def test_a_sub_axis_is_used_once(graph: Graph) -> None:
    twice = faults(graph, placed("product", NODE, NODE, GPU))
    assert twice == [
        (f"$.blocks.product.strategy[{k}]", "sub-axis 'node.0' is used 2 times in one strategy")
        for k in (0, 1)
    ]


def test_a_dimension_whose_outputs_overlap_may_not_be_split() -> None:
    issues = faults(overlapping(Row(0, 1, 0, 2)), placed("r", GPU))
    assert issues == [("$.blocks.r.strategy[0]", "dimension 'a' of 'reduce' block 'r' may not be split")]
    assert faults(overlapping(Row(0, 1, 0, 1)), placed("r", GPU)) == []


def overlapping(written: Row) -> Graph:
    """Build a program with a foreign block that writes `written` for each step of its only dimension."""
    signature = Signature(
        (IndexDim("a", 4),), (projection([Row(0, 1, 0, 1)], 1),), (projection([written], 1),)
    )
    return with_signature("a", signature)


def with_signature(labels: str, signature: Signature) -> Graph:
    b = GraphBuilder("g")
    x = b.source("x", (4,) * len(labels), "float32")
    (y,) = b.apply("reduce", [x], site="r", monoid="sum", labels=tuple(labels), output=())
    b.sink(y)
    graph = b.build()
    block = Block("r", Definition("reduce", (), signature), ("x",), ("r",))
    return graph.replace(block if found.site == "r" else found for found in graph.blocks)


def test_reductions_of_two_kinds_are_not_split_together() -> None:
    """Check a rule for operators of others; no operator of ours has two kinds of reductions."""
    from tapestry.teg.signature import IndexDim, Row, Signature, projection

    mixed = Signature(
        (IndexDim("a", 4, "sum"), IndexDim("b", 4, "max")),
        (projection([Row(0, 1, 0, 1), Row(1, 1, 0, 1)], 2),),
        (projection([], 2),),
    )
    graph = with_signature("ab", mixed)
    assert [m for _, m in faults(graph, placed("r", NODE, GPU))] == [
        "reductions of several kinds are split: max, sum"
    ]
    assert faults(graph, placed("r", NODE, WHOLE)) == []


def test_expand_lists_all_issues(graph: Graph) -> None:
    wrong = Placements({"product": Placement(Strategy((NODE, NODE, WHOLE))), "sfot": Placement(Strategy())})
    with pytest.raises(ValueError, match="3 issues") as error:
        expand(graph, wrong, MESH_SHAPE)
    assert "did you mean soft?" in str(error.value)
    assert "$.blocks.product.strategy[1]" in str(error.value)
