"""Tests that legal expansions have no issue, and each kind of damage has one."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph, Slot, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.verify import verify
from tests.cases import examples
from tests.teg.sharding.programs import MESHES, random_placements, random_program

MESH_SHAPE = MeshShape.of(node=2, gpu=2)
ALL, NODE, GPU = Split(("node.0", "gpu.0")), Split(("node.0",)), Split(("gpu.0",))


@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=examples(150))
def test_random_legal_plans_have_no_issue(seed: int, mesh_shape: MeshShape) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    assert verify(graph, expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)) == []


@pytest.fixture
def graph() -> Graph:
    """Build x -> soft (gathered) -> hidden (partial over node) -> out."""
    b = GraphBuilder("g")
    x = b.source("x", (8, 6), "float32")
    (s,) = b.apply("softmax", [x], site="soft", axes=(1,))
    w = b.source("w", (6, 4), "float32", "parameter")
    (y,) = b.apply("contract", [s, w], site="hidden", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    return b.build()


@pytest.fixture
def explicit(graph: Graph) -> ExplicitGraph:
    strategies = {"x": (ALL, WHOLE), "soft": (ALL,), "hidden": (GPU, WHOLE, NODE), "out": (GPU, WHOLE)}
    placements = {site: Placement(Strategy(splits)) for site, splits in strategies.items()}
    made = expand(graph, Placements(placements), MESH_SHAPE)
    assert verify(graph, made) == []
    return made


def with_step(
    explicit: ExplicitGraph, site: str, change: Callable[[ComputeStep], ComputeStep]
) -> ExplicitGraph:
    slots = tuple(
        replace(slot, step=change(slot.step)) if slot.step.site == site else slot for slot in explicit.slots
    )
    return replace(explicit, slots=slots)


def with_copy(explicit: ExplicitGraph, source: str, change: Callable[[CopyStep], CopyStep]) -> ExplicitGraph:
    def edit(slot: Slot) -> Slot:
        return replace(slot, issued=tuple(change(c) if c.source == source else c for c in slot.issued))

    return replace(explicit, slots=tuple(map(edit, explicit.slots)))


def with_buffer(explicit: ExplicitGraph, key: str, change: Callable[[Buffer], Buffer]) -> ExplicitGraph:
    return replace(explicit, buffers={**explicit.buffers, key: change(explicit.buffers[key])})


def with_plan(explicit: ExplicitGraph, source: str, change: Callable[[CopyPlan], CopyPlan]) -> ExplicitGraph:
    return with_copy(explicit, source, lambda c: replace(c, plan=change(c.plan)))


def set_entries(array: np.ndarray, *entries: tuple[tuple[int, ...], int]) -> np.ndarray:
    changed = array.copy()
    for place, value in entries:
        changed[place] = value
    return changed


def kinds(graph: Graph, explicit: ExplicitGraph) -> set[str]:
    return {issue.kind for issue in verify(graph, explicit)}


def index_of(*entries: tuple[tuple[int, ...], int]) -> Callable[[ComputeStep], ComputeStep]:
    return lambda step: replace(step, index=set_entries(step.index, *entries))


def test_an_index_box_that_is_too_small(graph: Graph, explicit: ExplicitGraph) -> None:
    issues = verify(graph, with_step(explicit, "soft", index_of(((1, 0, 1), 3))))
    assert {i.kind for i in issues} == {"partition", "projection"}
    assert issues[0].path == "$.slots[0].step"
    assert "[2, 3) and [4, 6) leave a gap" in issues[0].message


def test_two_shards_that_overlap(graph: Graph, explicit: ExplicitGraph) -> None:
    issues = verify(graph, with_step(explicit, "soft", index_of(((1, 0, 0), 1))))
    assert "[0, 2) and [1, 4) overlap" in issues[0].message


def test_a_gap_and_an_overlap_of_one_size_do_not_cancel(graph: Graph, explicit: ExplicitGraph) -> None:
    """Check that device 1 sliding from [2, 4) to [1, 3) is found: the sizes still add up to 8."""
    moved = with_step(explicit, "soft", index_of(((1, 0, 0), 1), ((1, 0, 1), 3)))
    step = moved.slots[0].step
    assert (step.index[:, 0, 1] - step.index[:, 0, 0]).sum() == 8
    assert "partition" in kinds(graph, moved)


def test_a_consistent_lie_is_still_no_partition(graph: Graph, explicit: ExplicitGraph) -> None:
    """Check index, ranges read, spec and boxes that all say that device 3 repeats device 2's part."""
    wrong = with_step(explicit, "soft", lambda s: replace(s, index=s.index[[0, 1, 2, 2]]))
    assert kinds(graph, wrong) >= {"partition"}


def test_a_copy_that_is_dropped(graph: Graph, explicit: ExplicitGraph) -> None:
    slots = tuple(replace(slot, issued=()) if slot.issued else slot for slot in explicit.slots)
    issues = verify(graph, replace(explicit, slots=slots))
    assert {i.kind for i in issues} == {"order", "structure"}
    assert any("reads" in i.message and "before it is made" in i.message for i in issues)


def test_reading_a_buffer_that_lacks_the_range(graph: Graph, explicit: ExplicitGraph) -> None:
    def straight(step: ComputeStep) -> ComputeStep:
        return replace(step, reads=(replace(step.reads[0], buffer="soft"), step.reads[1]))

    issues = verify(graph, with_step(explicit, "hidden", straight))
    assert "coverage" in {i.kind for i in issues}


def test_reading_a_partial_buffer(graph: Graph, explicit: ExplicitGraph) -> None:
    def straight(step: ComputeStep) -> ComputeStep:
        return replace(step, reads=(replace(step.reads[0], buffer="hidden"),))

    issues = verify(graph, with_step(explicit, "out", straight))
    assert [i.kind for i in issues] == ["partial"]
    assert "a copy that reduces comes between" in issues[0].expected


def test_a_range_that_is_not_the_projection(graph: Graph, explicit: ExplicitGraph) -> None:
    def shrunk(step: ComputeStep) -> ComputeStep:
        read = step.reads[0]
        return replace(step, reads=(replace(read, wanted=set_entries(read.wanted, ((0, 0, 1), 1))),))

    assert kinds(graph, with_step(explicit, "soft", shrunk)) == {"projection"}


def test_blocks_in_the_wrong_order(graph: Graph, explicit: ExplicitGraph) -> None:
    steps = [slot.step for slot in explicit.slots]
    slots = tuple(
        replace(slot, step=step)
        for slot, step in zip(explicit.slots, [steps[1], steps[0], steps[2]], strict=True)
    )
    assert "order" in kinds(graph, replace(explicit, slots=slots))


def test_a_block_that_is_missing_and_one_that_runs_twice(graph: Graph, explicit: ExplicitGraph) -> None:
    missing = replace(explicit, slots=explicit.slots[:-1])
    assert "block 'out' never runs" in [i.message for i in verify(graph, missing)]
    last = replace(explicit.slots[-1], issued=(), waited=())
    twice = replace(explicit, slots=(*explicit.slots, last))
    assert any("runs again" in i.message for i in verify(graph, twice))


def test_a_sequence_edge_that_is_broken(graph: Graph) -> None:
    b = GraphBuilder("two")
    x = b.source("x", (4,), "float32")
    (p,) = b.apply("softmax", [x], site="p", axes=(0,))
    (q,) = b.apply("softmax", [x], site="q", axes=(0,))
    b.sink(p)
    b.sink(q)
    free = b.build()
    explicit = expand(free, Placements(), MESH_SHAPE)
    tied = free.replace(replace(k, after=("q",)) if k.site == "p" else k for k in free.blocks)
    assert [i.message for i in verify(tied, explicit)] == ["block 'p' runs before ['q']"]


def test_a_copy_that_is_issued_before_its_source(graph: Graph, explicit: ExplicitGraph) -> None:
    first, second, third = explicit.slots
    early = (
        replace(first, issued=tuple(replace(c, issue=0) for c in second.issued)),
        replace(second, issued=()),
        third,
    )
    assert "order" in kinds(graph, replace(explicit, slots=early))


def test_a_copy_nobody_waits_for(graph: Graph, explicit: ExplicitGraph) -> None:
    slots = tuple(replace(slot, waited=()) for slot in explicit.slots)
    assert {i.kind for i in verify(graph, replace(explicit, slots=slots))} == {"order"}


def test_a_copy_of_a_copy(graph: Graph, explicit: ExplicitGraph) -> None:
    (gathered,) = [k for k, b in explicit.buffers.items() if b.tensor == "soft" and k != "soft"]
    rewired = with_copy(explicit, "soft", lambda c: replace(c, source=gathered))
    assert {"order", "spec"} <= kinds(graph, rewired)


def test_a_spec_that_is_not_that_of_the_boxes(graph: Graph, explicit: ExplicitGraph) -> None:
    wrong = with_buffer(explicit, "soft", lambda b: replace(b, spec=Spec((NODE, GPU))))
    assert kinds(graph, wrong) == {"spec"}


def test_a_partial_tensor_that_says_it_is_whole(graph: Graph, explicit: ExplicitGraph) -> None:
    def whole(buffer: Buffer) -> Buffer:
        return replace(buffer, spec=buffer.spec.whole())

    assert "partial" in kinds(graph, with_buffer(explicit, "hidden", whole))


def test_a_whole_tensor_that_says_it_is_partial(graph: Graph, explicit: ExplicitGraph) -> None:
    wrong = with_buffer(explicit, "soft", lambda b: replace(b, spec=Spec((ALL, WHOLE), ("gpu.0",), "sum")))
    assert "partial" in kinds(graph, wrong)
    source = with_buffer(explicit, "w", lambda b: replace(b, spec=Spec((WHOLE, WHOLE), ("gpu.0",), "sum")))
    assert "partial" in kinds(graph, source)


def test_terms_that_are_combined_by_another_monoid(graph: Graph, explicit: ExplicitGraph) -> None:
    wrong = with_buffer(explicit, "hidden", lambda b: replace(b, spec=replace(b.spec, monoid="max")))
    assert "partial" in kinds(graph, wrong)


def test_a_group_that_has_one_term_twice(graph: Graph, explicit: ExplicitGraph) -> None:
    """Check that a term twice in a group fails: node 1 repeats node 0's terms, node 0 gpu 1 has the others."""
    hidden = explicit.slots[1].step
    assert hidden.index[:, 2].tolist() == [[0, 3], [0, 3], [3, 6], [3, 6]]
    terms = with_step(
        explicit, "hidden", index_of(((2, 2, 0), 0), ((2, 2, 1), 3), ((1, 2, 0), 3), ((1, 2, 1), 6))
    )
    assert "partial" in kinds(graph, terms)


def test_a_reduction_that_skips_or_repeats_an_axis(graph: Graph, explicit: ExplicitGraph) -> None:
    plan = next(c.plan for slot in explicit.slots for c in slot.issued if c.source == "hidden")
    assert plan.reduce == (("node", ("node.0",)),)
    for steps in ((), (("node", ("node.0",)),) * 2, (("gpu", ("gpu.0",)),), (("gpu", ("node.0",)),)):
        wrong = with_plan(explicit, "hidden", lambda p, steps=steps: replace(p, reduce=steps))  # type: ignore[misc]
        assert "partial" in kinds(graph, wrong)


def test_a_copy_between_other_specs(graph: Graph, explicit: ExplicitGraph) -> None:
    wrong = with_plan(explicit, "soft", lambda p: replace(p, needed=Spec((NODE, WHOLE))))
    assert kinds(graph, wrong) == {"spec"}


def test_pieces_that_do_not_cover(graph: Graph, explicit: ExplicitGraph) -> None:
    lost = with_plan(explicit, "soft", lambda p: replace(p, fetch=False))
    assert "coverage" in kinds(graph, lost)
    uncut = with_plan(explicit, "soft", lambda p: replace(p, middle=Spec((WHOLE, WHOLE))))
    assert "coverage" in kinds(graph, uncut)
    diagonal = with_plan(explicit, "soft", lambda p: replace(p, middle=Spec((ALL, ALL))))
    assert "partition" in kinds(graph, diagonal)


def test_a_source_without_buffer_or_with_a_hole(graph: Graph, explicit: ExplicitGraph) -> None:
    assert "structure" in kinds(graph, replace(explicit, sources={"w": "w"}))
    shrunk = with_buffer(explicit, "x", lambda b: replace(b, boxes=set_entries(b.boxes, ((3, 0, 1), 7))))
    assert {"partition", "spec"} <= kinds(graph, shrunk)


def test_damage_to_the_structure_is_reported_and_not_raised(graph: Graph, explicit: ExplicitGraph) -> None:
    damaged = [
        with_step(explicit, "soft", lambda s: replace(s, site="sotf")),
        with_step(explicit, "soft", lambda s: replace(s, index=s.index[:2])),
        with_step(explicit, "soft", lambda s: replace(s, reads=())),
        with_step(explicit, "out", lambda s: replace(s, definition=explicit.slots[0].step.definition)),
        with_step(explicit, "soft", lambda s: replace(s, reads=(replace(s.reads[0], wanted=s.index),))),
        with_buffer(explicit, "soft", lambda b: replace(b, boxes=b.boxes[:, :1])),
        with_buffer(explicit, "soft", lambda b: replace(b, dtype="float64")),
        with_buffer(explicit, "soft", lambda b: replace(b, tensor="nobody")),
        with_buffer(explicit, "soft", lambda b: replace(b, spec=Spec((Split(("tpu.0",)), WHOLE)))),
        replace(explicit, buffers={**explicit.buffers, "stray": replace(explicit.buffers["x"], key="stray")}),
        replace(explicit, sources={**explicit.sources, "soft": "soft"}),
    ]
    for wrong in damaged:
        assert "structure" in kinds(graph, wrong)


def layers(count: int) -> tuple[Graph, set[str]]:
    """Build a residual stack, and the sites of its first products."""
    b = GraphBuilder("layers")
    x = b.source("x", (8, 1024, 512), "float32")
    names, firsts = ("b", "s", "h"), set()
    dims = (("b", 8), ("s", 1024), ("h", 512))
    for _ in range(count):
        w = b.source("w", (512, 512), "float32", "parameter")
        labels = (names, ("h", "o"))
        (y,) = b.apply("contract", [x, w], site="first", labels=labels, output=("b", "s", "o"))
        firsts.add(y)
        v = b.source("w", (512, 512), "float32", "parameter")
        (z,) = b.apply("contract", [y, v], site="second", labels=labels, output=("b", "s", "o"))
        (n,) = b.apply("layer_norm", [z], site="norm", axes=(2,), eps=1e-5)
        expr = ("add", ("input", 0), ("input", 1))
        (x,) = b.apply("cell", [n, x], site="add", expr=expr, labels=(names,) * 2, dims=dims, dtype="float32")
    b.sink(x, site="out")
    return b.build(), firsts


def tensor_parallel(mesh_shape: MeshShape, graph: Graph, firsts: set[str]) -> Placements:
    every = Split(tuple(s.name for s in mesh_shape.sub_axes))
    placements = {}
    for block in graph.blocks:
        if block.operator == "contract":
            column = block.site in firsts
            splits = (WHOLE, WHOLE, every, WHOLE) if column else (WHOLE, WHOLE, WHOLE, every)
            placements[block.site] = Placement(Strategy(splits))
        elif block.operator in ("cell", "layer_norm"):
            rank = 3 if block.operator == "cell" else 2
            placements[block.site] = Placement(Strategy((WHOLE, every, WHOLE)[:rank]))
    return Placements(placements)


@pytest.mark.parametrize(
    ("mesh_shape", "limit_s"),
    [(MeshShape.of(gpu=8), 4), pytest.param(MeshShape.of(node=128, gpu=8), 20, marks=pytest.mark.slow)],
)
def test_a_thousand_blocks_are_proven_in_about_a_second(mesh_shape: MeshShape, limit_s: float) -> None:
    """Check limits that leave room for slow and busy machines; measured: 0.4 s on 8 devices, 2 s on 1,024."""
    graph, firsts = layers(250)
    explicit = expand(graph, tensor_parallel(mesh_shape, graph, firsts), mesh_shape)
    assert len(explicit.slots) == 1001
    start = time.perf_counter()
    assert verify(graph, explicit) == []
    assert time.perf_counter() - start < limit_s


@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
@settings(max_examples=examples(150))
def test_one_wrong_number_anywhere_is_found(seed: int, mesh_shape: MeshShape) -> None:
    """Check that some end of some box (index range, range read, buffer) moved by one is found."""
    rng = np.random.default_rng(seed)
    graph = random_program(rng, steps=6)
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    changes = [lambda array, key=key: with_buffer(explicit, key, boxes_of(array)) for key in explicit.buffers]
    arrays = [buffer.boxes for buffer in explicit.buffers.values()]
    for slot in explicit.slots:
        site = slot.step.site
        changes.append(lambda array, site=site: with_step(explicit, site, lambda s: replace(s, index=array)))
        arrays.append(slot.step.index)
        for k, read in enumerate(slot.step.reads):
            changes.append(lambda array, site=site, k=k: with_step(explicit, site, wanted_of(k, array)))
            arrays.append(read.wanted)
    ends = [n for n, array in enumerate(arrays) if array.shape[1] > 0]
    if not ends:
        return
    number = ends[int(rng.integers(len(ends)))]
    array = arrays[number].copy()
    place = tuple(int(rng.integers(n)) for n in array.shape)
    before = array[place[0]].copy()
    array[place] += int(rng.choice([-1, 1]))
    after = array[place[0]]
    if (before[:, 1] > before[:, 0]).all() or (after[:, 1] > after[:, 0]).all():
        assert verify(graph, changes[number](array)) != []


def boxes_of(array: np.ndarray) -> Callable[[Buffer], Buffer]:
    return lambda buffer: replace(buffer, boxes=array)


def wanted_of(position: int, array: np.ndarray) -> Callable[[ComputeStep], ComputeStep]:
    def change(step: ComputeStep) -> ComputeStep:
        reads = list(step.reads)
        reads[position] = replace(reads[position], wanted=array)
        return replace(step, reads=tuple(reads))

    return change
