"""Tests of the convention "shared copies" of `docs/sharding.md` and of the slots.

Views are free, copies are shared by root and consumer spec, a regather cuts them, and blocks wait for them.
"""

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.operators.selectors import permuted, sliced, view_attributes
from tapestry.teg.sharding.expand import CopyStep, ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.sharded_block import view_ranges
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.verify import verify
from tapestry.teg.signature import IndexDim, Signature
from tapestry.teg.zspace import IndexProjection, ZAffineMap

EIGHT = MeshShape.of(gpu=8)
ALL = Split(("gpu.0", "gpu.1", "gpu.2"))


def unary(b: GraphBuilder, tensor: str, site: str, function: str = "tanh") -> str:
    shape = b.tensors[tensor].shape
    names = tuple(f"d{k}" for k in range(len(shape)))
    dims = tuple(zip(names, shape, strict=True))
    expr = (function, ("input", 0))
    return b.apply("cell", [tensor], site=site, expr=expr, labels=(names,), dims=dims, dtype="float32")[0]


def fan(consumers: int, gap: int = 0) -> Graph:
    """Build `x` read by several blocks, with `gap` unrelated blocks after each."""
    b = GraphBuilder("fan")
    x = b.source("x", (16, 8), "float32")
    other = b.source("other", (4,), "float32")
    for k in range(consumers):
        b.sink(unary(b, x, f"read{k}"), site=f"out{k}")
        for _ in range(gap):
            other = unary(b, other, "idle")
    b.sink(other, site="rest")
    return b.build()


def plan(**strategies: tuple[Split, ...]) -> Placements:
    return Placements({site: Placement(Strategy(splits)) for site, splits in strategies.items()})


def copies(explicit: ExplicitGraph) -> list[CopyStep]:
    return [copy for slot in explicit.slots for copy in slot.issued]


def checked(graph: Graph, placements: Placements, mesh_shape: MeshShape = EIGHT) -> ExplicitGraph:
    explicit = expand(graph, placements, mesh_shape)
    assert verify(graph, explicit) == []
    return explicit


def test_three_consumers_share_one_copy() -> None:
    (copy,) = copies(checked(fan(3), plan(x=(ALL, WHOLE))))
    assert copy.source == "x"
    assert copy.plan.needed == Spec((WHOLE, WHOLE))
    assert (copy.issue, copy.wait) == (0, 0)


def test_a_part_of_a_live_copy_is_a_view_of_it() -> None:
    explicit = checked(fan(3), plan(x=(ALL, WHOLE), read1=(WHOLE, ALL), out1=(WHOLE, ALL)))
    (whole,) = copies(explicit)
    readers = {slot.step.site: slot.step.reads[0].buffer for slot in explicit.slots}
    assert str(whole.plan.needed) == "[-, -]"
    assert readers["read0"] == readers["read1"] == readers["read2"] == whole.result


def test_what_lies_in_no_live_copy_is_a_copy_of_its_own() -> None:
    """Check copies in another spec: one that a later reader outgrows, and one that a gene cuts off."""
    placements = plan(
        x=(ALL, WHOLE), read0=(WHOLE, ALL), out0=(WHOLE, ALL), read2=(WHOLE, ALL), out2=(WHOLE, ALL)
    )
    explicit = checked(fan(3), placements)
    assert [str(c.plan.needed) for c in copies(explicit)] == ["[-, gpu.0*gpu.1*gpu.2]", "[-, -]"]
    assert {c.source for c in copies(explicit)} == {"x"}
    cut = Placement(Strategy((WHOLE, ALL)), regather=(True,))
    explicit = checked(fan(3), Placements({**plan(x=(ALL, WHOLE)).blocks, "read1": cut}))
    assert [str(c.plan.needed) for c in copies(explicit) if c.source == "x"] == [
        "[-, -]",
        "[-, gpu.0*gpu.1*gpu.2]",
    ]


def test_a_copy_is_keyed_by_root_so_views_share_it() -> None:
    """Check that the transpose of `x`, split along its former columns, shares the copy of a reader of columns."""
    b = GraphBuilder("views")
    x = b.source("x", (16, 8), "float32")
    (turned,) = b.apply("view", [x], site="turned", **dict(view_attributes(permuted((16, 8), (1, 0)))))
    b.sink(unary(b, turned, "rows"), site="out0")
    b.sink(unary(b, x, "columns"), site="out1")
    explicit = checked(b.build(), plan(x=(ALL, WHOLE), rows=(ALL, WHOLE), columns=(WHOLE, ALL)))
    readers = {slot.step.site: slot.step.reads[0].buffer for slot in explicit.slots}
    assert readers["rows"] == readers["columns"] != "x"
    assert len([c for c in copies(explicit) if c.source == "x"]) == 1


def test_views_of_what_is_held_cost_nothing() -> None:
    b = GraphBuilder("views")
    x = b.source("x", (16, 8), "float32")
    part = view_attributes(sliced((16, 8), (0, 6), (16, 0), (1, -2)))
    (view,) = b.apply("view", [x], site="part", **dict(part))
    b.sink(unary(b, view, "read"), site="out")
    explicit = checked(b.build(), plan(x=(ALL, WHOLE), read=(ALL, WHOLE), out=(ALL, WHOLE)))
    assert copies(explicit) == []
    read = explicit.slots[0].step.reads[0]
    assert read.buffer == "x"
    assert read.wanted[3].tolist() == [[6, 8], [0, 3]]


def test_regather_cuts_a_shared_copy() -> None:
    placements = plan(x=(ALL, WHOLE))
    genes = {**placements.blocks, "read2": Placement(Strategy((WHOLE, WHOLE)), regather=(True,))}
    first, second = copies(checked(fan(4, gap=2), Placements(genes)))
    order = [slot.step.site for slot in expand(fan(4, gap=2), placements, EIGHT).slots]
    assert (first.issue, first.wait) == (0, 0)
    assert (second.issue, second.wait) == (order.index("read2"),) * 2
    assert second.result == f"{first.result}~1"
    assert second.source == "x"


def test_a_regather_cannot_cut_before_its_first_reader() -> None:
    genes = {
        "x": Placement(Strategy((ALL, WHOLE))),
        "read0": Placement(Strategy((WHOLE, WHOLE)), (), (True,)),
    }
    assert len(copies(checked(fan(3), Placements(genes)))) == 1


def test_a_regathered_copy_is_not_prefetched_before_the_cut() -> None:
    genes = {
        "x": Placement(Strategy((ALL, WHOLE))),
        "read1": Placement(Strategy((WHOLE, WHOLE)), prefetch=(9,), regather=(True,)),
    }
    first, second = copies(checked(fan(2, gap=3), Placements(genes)))
    assert first.wait == 0
    assert second.issue == 1
    assert second.wait == 5


def test_prefetch_issues_a_copy_ahead_but_never_before_its_producer() -> None:
    b = GraphBuilder("chain")
    x = b.source("x", (16, 8), "float32")
    made = unary(b, x, "made")
    idle = unary(b, unary(b, x, "idle"), "idle")
    b.sink(idle, site="rest")
    b.sink(unary(b, made, "read"), site="out")
    graph = b.build()
    order = ["made", "idle", "idle.1", "rest", "read", "out"]
    for distance, issue in ((0, 4), (2, 2), (3, 1), (9, 1)):
        placements = plan(made=(ALL, WHOLE))
        blocks = {**placements.blocks, "read": Placement(Strategy((WHOLE, WHOLE)), (distance,))}
        explicit = checked(graph, Placements(blocks))
        assert [s.step.site for s in explicit.slots] == order
        (copy,) = copies(explicit)
        assert (copy.issue, copy.wait) == (issue, 4)
        assert explicit.slots[4].waited == (copy.result,)


def test_boundary_options() -> None:
    graph = fan(1)
    strategies = plan(x=(ALL, WHOLE), read0=(ALL, WHOLE), out0=(ALL, WHOLE)).blocks
    assert copies(checked(graph, Placements(strategies))) == []
    replicated = checked(graph, Placements(strategies, inputs="replicated"))
    assert replicated.buffers["x"].spec == Spec((WHOLE, WHOLE))
    (gather,) = copies(checked(graph, Placements(strategies, outputs="gathered")))
    assert (gather.source, gather.plan.needed) == ("read0", Spec((WHOLE, WHOLE)))


def test_partial_outputs_are_never_observed() -> None:
    b = GraphBuilder("product")
    x, w = b.source("x", (4, 16), "float32"), b.source("w", (16, 8), "float32")
    (y,) = b.apply("contract", [x, w], site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    explicit = checked(b.build(), plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL)))
    (copy,) = copies(explicit)
    assert explicit.buffers["y"].spec == Spec((WHOLE, WHOLE), ALL.axes, "sum")
    assert copy.plan.reduce == (("gpu", ALL.axes),)
    straight = checked(
        b.build(), plan(x=(WHOLE, ALL), w=(ALL, WHOLE), y=(WHOLE, WHOLE, ALL), out=(WHOLE, ALL))
    )
    assert copies(straight)[0].plan.scatter == (("gpu", ALL.axes),)


def test_a_device_with_an_empty_chunk_still_receives_what_is_replicated() -> None:
    """Check that specs, not index ranges, decide: 3 rows over 8 devices, yet all hold the gathered weight."""
    b = GraphBuilder("product")
    x, w = b.source("x", (3, 16), "float32"), b.source("w", (16, 8), "float32")
    (y,) = b.apply("contract", [x, w], site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    explicit = checked(b.build(), plan(w=(ALL, WHOLE), y=(ALL, WHOLE, WHOLE), out=(ALL, WHOLE)))
    read = explicit.slots[0].step.reads[1]
    assert explicit.buffers[read.buffer].boxes[7].tolist() == [[0, 16], [0, 8]]
    assert read.wanted[7].tolist() == [[0, 0], [0, 0]]
    assert explicit.buffers["y"].boxes[7].tolist() == [[3, 3], [0, 8]]


def test_rows_that_mix_index_dimensions_read_what_they_project_to() -> None:
    """Check a merged dimension `4 i + j`: half of i reads half of the 16 elements."""
    rows = IndexProjection(ZAffineMap(((4, 1),), (0,)), (1,))
    signature = Signature((IndexDim("i", 4), IndexDim("j", 4)), (rows,), ())
    foreign = Definition("foreign", (), signature)
    index = np.array([[[0, 2], [0, 4]], [[2, 4], [0, 4]], [[4, 4], [0, 4]]])
    assert view_ranges(foreign, 0, (16,), index)[:2, 0].tolist() == [[0, 8], [8, 16]]
    assert np.ptp(view_ranges(foreign, 0, (16,), index)[2]) == 0


@pytest.mark.parametrize("devices", [1, 2, 6])
def test_without_placements_every_device_computes_everything(devices: int) -> None:
    explicit = checked(fan(2), Placements(), MeshShape.of(gpu=devices))
    assert copies(explicit) == []
    assert all((b.boxes == b.boxes[:1]).all() for b in explicit.buffers.values())
