"""Tests that plans which share results are expanded and proven as if each were alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import Buffer, ComputeStep, CopyStep, ExplicitGraph, InputRead, Slot, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.verify import verify
from tests.cases import one_in
from tests.teg.sharding.programs import random_placements, random_program

MESH_SHAPE = MeshShape.of(node=2, gpu=2)
Damage = Callable[[ExplicitGraph, np.random.Generator], ExplicitGraph]


def never(mesh_shape: MeshShape = MESH_SHAPE) -> ResultCache:
    """Return a cache that keeps nothing: everything is computed whenever it is asked for."""
    return ResultCache(mesh_shape, most=0)


def test_a_result_is_computed_once_and_is_read_only() -> None:
    cache, calls = ResultCache(MESH_SHAPE), list[int]()

    def ones() -> np.ndarray:
        calls.append(1)
        return np.ones(3)

    assert cache.known("a", ones) is cache.known("a", ones)
    assert len(calls) == 1
    with pytest.raises(ValueError, match="read-only"):
        cache.known("a", ones)[0] = 2


def test_nothing_is_kept_on_request_and_all_is_dropped_when_it_is_too_much() -> None:
    nothing, few = never(), ResultCache(MESH_SHAPE, most=2)
    assert [nothing.known("a", lambda k=k: k) for k in range(3)] == [0, 1, 2]  # type: ignore[misc]
    assert [few.known(key, lambda k=k: k) for k, key in enumerate("abcab")] == [0, 1, 2, 3, 4]  # type: ignore[misc]
    assert few.known("b", lambda: 9) == 4


def test_an_array_stands_in_a_key_by_its_content() -> None:
    cache = ResultCache(MESH_SHAPE)
    own = cache.known("a", lambda: np.arange(4))
    assert cache.key_of(own) == cache.key_of(own)
    assert cache.key_of(np.arange(4)) == cache.key_of(np.arange(4))
    assert cache.key_of(np.arange(4)) != cache.key_of(np.arange(4).reshape(2, 2))
    before = cache.key_of(own)
    own.flags.writeable = True
    own[0] = 7
    assert cache.key_of(own) != before


def same(one: ExplicitGraph, other: ExplicitGraph) -> bool:
    """Return whether two programs are equal, arrays compared by content."""
    buffers = one.buffers.keys() == other.buffers.keys() and all(
        (a.tensor, a.spec, a.dtype, a.layout) == (b.tensor, b.spec, b.dtype, b.layout)
        and np.array_equal(a.boxes, b.boxes)
        for a, b in ((one.buffers[key], other.buffers[key]) for key in one.buffers)
    )
    return buffers and len(one.slots) == len(other.slots) and all(map(same_slots, one.slots, other.slots))


def same_slots(one: Slot, other: Slot) -> bool:
    copies = [[(c.result, c.source, c.plan, c.issue, c.wait) for c in s.issued] for s in (one, other)]
    steps = [(s.waited, s.step.site, s.step.definition, s.step.outputs) for s in (one, other)]
    reads = [[(r.buffer, r.view) for r in s.step.reads] for s in (one, other)]
    arrays = [
        [s.step.index, *(r.wanted for r in s.step.reads), *(r.part for r in s.step.reads)]
        for s in (one, other)
    ]
    alike = copies[0] == copies[1] and steps[0] == steps[1] and reads[0] == reads[1]
    return alike and all(map(np.array_equal, *arrays))


@pytest.mark.parametrize("seed", range(12))
def test_plans_that_share_a_cache_are_expanded_as_without_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graphs, cache = [random_program(rng) for _ in range(2)], ResultCache(MESH_SHAPE)
    for graph in graphs * 3:
        placements = random_placements(rng, graph, MESH_SHAPE)
        shared = expand(graph, placements, MESH_SHAPE, cache)
        assert same(shared, expand(graph, placements, MESH_SHAPE, never()))
        assert verify(graph, shared, cache) == []


def test_a_cache_of_another_mesh_is_refused() -> None:
    graph = random_program(np.random.default_rng(0))
    with pytest.raises(ValueError, match="the cache is of a mesh with axes"):
        expand(graph, Placements(), MESH_SHAPE, ResultCache(MeshShape.of(gpu=4)))


def test_a_strategy_that_does_not_fit_is_refused_however_often() -> None:
    graph, cache = random_program(np.random.default_rng(1)), ResultCache(MESH_SHAPE)
    block = next(b for b in graph.blocks if b.signature is not None and b.signature.dims)
    splits = (Split(("tpu.0",)), *(WHOLE for _ in block.signature.dims[1:]))  # type: ignore[union-attr]
    strategy = type(Placements().of(block).strategy)(splits)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the mesh has no sub-axis 'tpu\.0'"):
            expand(graph, Placements({block.site: Placement(strategy)}), MESH_SHAPE, cache)


def any_slot(explicit: ExplicitGraph, rng: np.random.Generator) -> int:
    return int(rng.integers(len(explicit.slots)))


def moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the boxes with one bound moved by one."""
    changed = array.copy()
    if changed.size:
        changed.reshape(-1)[int(rng.integers(changed.size))] += 1
    return changed


def with_step(explicit: ExplicitGraph, k: int, change: Callable[[ComputeStep], ComputeStep]) -> ExplicitGraph:
    slots = list(explicit.slots)
    slots[k] = replace(slots[k], step=change(slots[k].step))
    return replace(explicit, slots=tuple(slots))


def another_index(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    return with_step(explicit, any_slot(explicit, rng), lambda s: replace(s, index=moved(s.index, rng)))


def another_range(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    def change(read: InputRead) -> InputRead:
        return replace(read, wanted=moved(read.wanted, rng))

    return with_step(
        explicit, any_slot(explicit, rng), lambda s: replace(s, reads=tuple(map(change, s.reads)))
    )


def devices_exchanged(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    order = rng.permutation(4)
    return with_step(explicit, any_slot(explicit, rng), lambda s: replace(s, index=s.index[order]))


def with_buffer(
    explicit: ExplicitGraph, rng: np.random.Generator, change: Callable[[Buffer], Buffer]
) -> ExplicitGraph:
    key = sorted(explicit.buffers)[int(rng.integers(len(explicit.buffers)))]
    return replace(explicit, buffers={**explicit.buffers, key: change(explicit.buffers[key])})


def another_box(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    return with_buffer(explicit, rng, lambda b: replace(b, boxes=moved(b.boxes, rng)))


def another_spec(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    def change(buffer: Buffer) -> Buffer:
        dims = tuple(Split() if s.axes else Split(("gpu.0",)) for s in buffer.spec.dims)
        return replace(buffer, spec=Spec(dims))

    return with_buffer(explicit, rng, change)


def terms_forgotten(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    return with_buffer(explicit, rng, lambda b: replace(b, spec=b.spec.whole()))


def another_copy(explicit: ExplicitGraph, rng: np.random.Generator) -> ExplicitGraph:
    def change(copy: CopyStep) -> CopyStep:
        changes = (
            {"fetch": not copy.plan.fetch},
            {"reduce": ()},
            {"scatter": ()},
            {"middle": copy.plan.needed},
        )
        return replace(copy, plan=replace(copy.plan, **changes[int(rng.integers(len(changes)))]))

    slots = [replace(slot, issued=tuple(map(change, slot.issued))) for slot in explicit.slots]
    return replace(explicit, slots=tuple(slots))


DAMAGES = (
    another_index,
    another_range,
    devices_exchanged,
    another_box,
    another_spec,
    terms_forgotten,
    another_copy,
)


@pytest.mark.parametrize("damage", one_in(8, DAMAGES), ids=lambda damage: damage.__name__)
def test_planted_faults_are_found_as_without_a_cache(damage: Damage) -> None:
    """Check that all issues are the same, in the same order, after sound plans have filled the cache."""
    rng = np.random.default_rng(7)
    faulty = 0
    for _ in range(8):
        graph, cache = random_program(rng), ResultCache(MESH_SHAPE)
        sound = expand(graph, random_placements(rng, graph, MESH_SHAPE), MESH_SHAPE, cache)
        assert verify(graph, sound, cache) == []
        for _ in range(4):
            damaged = damage(sound, rng)
            alone = issues(graph, damaged, never())
            assert issues(graph, damaged, cache) == alone
            faulty += bool(alone)
        assert verify(graph, sound, cache) == []
    assert faulty > 0, "the damage does something"


def issues(graph: Graph, explicit: ExplicitGraph, cache: ResultCache) -> list[tuple[str, str, str, str]]:
    return [(i.kind, i.path, i.message, i.expected) for i in verify(graph, explicit, cache)]
