"""Tests of the checks of one block: its index, and the parts of tensors that it reads and writes."""

import pytest

from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.graph import Block, Definition, Graph, Tensor
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange
from tests.teg.graphs import issues_of


def test_given_a_stride_that_leaves_a_margin_then_a_crop_is_required() -> None:
    # A window of 1 with stride 3 over 8 elements reads 0, 3, 6: element 7 stays unread.
    b = GraphBuilder("strided")
    x = b.source("x", (1, 1, 8), "float32")
    w = b.source("w", (1, 1, 1), "float32", "parameter")
    (y,) = b.apply("conv", (x, w), site="y", strides=(3,), pads=(0, 0), dilations=(1,), groups=1)
    b.sink(y)
    (issue,) = validate(b.build())
    assert (issue.kind, issue.path) == ("margin", "$.blocks[2].inputs[0]")
    assert "projects to zr[0:1, 0:1, 0:7]; the tensor's range is zr[0:1, 0:1, 0:8]; put a view" in str(issue)


def windows(size: int) -> Definition:
    """Build a convolution over `size` elements with windows of 3, stride 2, padded by 1 on both sides."""
    b = GraphBuilder("windows")
    x = b.source("x", (1, 1, size), "float32")
    w = b.source("w", (1, 1, 3), "float32", "parameter")
    b.apply("conv", (x, w), site="y", strides=(2,), pads=(1, 1), dilations=(1,), groups=1)
    return b.blocks[2].definition


@pytest.mark.parametrize(
    ("part", "size", "valid"),
    [
        ((0, 2), 4, True),  # rows [-1, 4) clipped below
        ((0, 2), 5, False),
        ((2, 3), 3, True),  # rows [3, 6): an inner part is exact
        ((2, 3), 2, False),
        ((3, 5), 4, True),  # rows [5, 10) clipped at 9, the end of the tensor
        ((3, 5), 5, True),  # the definition alone does not tell an end of 9 from one of 10
        ((3, 5), 6, False),
        ((3, 5), 2, False),
    ],
)
def test_a_part_of_a_windowed_block_reads_its_clipped_box(
    part: tuple[int, int], size: int, valid: bool
) -> None:
    # Given one block of an explicit graph, whose tensors are the parts it needs
    definition = windows(9)
    assert definition.signature is not None
    bounds = [part if d.name == "y0" else (0, d.size) for d in definition.signature.dims]
    index = ZRange(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))
    b = GraphBuilder("part")
    x = b.source("x", (1, 1, size), "float32")
    w = b.source("w", (1, 1, 3), "float32", "parameter")
    block = Block("y", definition, (x, w), ("y",), index, 0)
    y = Tensor("y", (1, 1, part[1] - part[0]), "float32")
    sink = Block("out", define("sink", (), [y.type])[0], ("y",), ())
    graph = b.build().replace([*b.blocks, block, sink], [y])
    assert issues_of(graph) == ([] if valid else [("range", "$.blocks[2].inputs[0]")])


def test_a_block_that_does_not_split_is_always_whole() -> None:
    b = GraphBuilder("whole")
    x = b.source("x", (4, 6), "float32")
    (y,) = b.apply("reshape", (x,), site="y", shape=(3, 8))
    b.sink(y)
    graph = b.build()

    def indexed(index: ZRange) -> Graph:
        y = Block("y", graph.blocks[1].definition, ("x",), ("y",), index, 0)
        return graph.replace([graph.blocks[0], y, graph.blocks[2]])

    assert issues_of(graph) == issues_of(indexed(ZRange((), ()))) == []
    assert issues_of(indexed(ZRange((0,), (2,)))) == [("index", "$.blocks[1].index")]


def test_an_index_space_that_cannot_be_counted_is_an_issue() -> None:
    b = GraphBuilder("astronomical")
    x, w = b.source("x", (2**21, 2**21), "int8"), b.source("w", (2**21, 2**21), "int8")
    (y,) = b.apply("contract", (x, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    ((kind, path),) = issues_of(b.build())
    assert (kind, path) == ("index", "$.blocks[2].definition")
