"""Tests of the conventions "nearest holder", "axis by axis" and "staging" of `docs/sharding.md`.

They check the form that a copy takes, and that its transfers deliver every element once.
"""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.sharding.copies import CopyPlan, Round, fetch_round, flat_slices, group_members, plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split, boxes, contains, volumes
from tapestry.teg.sharding.transfers import Transfer, fetch_transfers, scatter_sets
from tests.cases import examples
from tests.teg.sharding.specs import cells, random_mesh, random_needed, random_shape, random_spec

SEEDS = st.integers(0, 2**32 - 1)
EIGHT = MeshShape.of(gpu=8)
TWO_BY_FOUR = MeshShape.of(node=2, gpu=4)
ALL = ("gpu.0", "gpu.1", "gpu.2")
NODE, GPU = Split(("node.0",)), Split(("gpu.0", "gpu.1"))


def planned(source: Spec, needed: Spec, shape: tuple[int, ...], mesh_shape: MeshShape) -> CopyPlan:
    plan = plan_copy(source, needed, shape, mesh_shape)
    assert plan is not None
    return plan


def elements(t: Transfer, shape: tuple[int, ...]) -> np.ndarray:
    return cells(np.array(t.box), shape)[t.start : t.end]


def received(plan: CopyPlan, shape: tuple[int, ...], mesh_shape: MeshShape) -> int:
    """Count the elements that all devices receive from others."""
    return sum(t.end - t.start for t in fetch_transfers(plan, shape, mesh_shape) if t.axis >= 0)


@given(SEEDS)
@settings(max_examples=examples(300))
def test_a_fetch_delivers_what_is_wanted_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape, shape = random_mesh(rng), random_shape(rng)
    source = random_spec(rng, len(shape), mesh_shape, order=rng.random() < 0.5)
    needed = random_needed(rng, shape, mesh_shape)
    plan = plan_copy(source, needed, shape, mesh_shape)
    held, wanted = boxes(source, shape, mesh_shape), boxes(needed, shape, mesh_shape)
    if plan is None:
        assert contains(held, wanted).all()
        return
    arrived = [Counter[int]() for _ in range(mesh_shape.device_count)]
    remote = [Counter[int]() for _ in range(mesh_shape.device_count)]
    forwarded: list[set[int]] = [set() for _ in range(mesh_shape.device_count)]
    for t in fetch_transfers(plan, shape, mesh_shape):
        moved = elements(t, shape).tolist()
        if t.gathered:
            assert forwarded[t.source] >= set(moved)
        else:
            assert set(cells(held[t.source], shape).tolist()) >= set(moved)
            forwarded[t.target].update(moved)
        assert (t.axis < 0) == (t.source == t.target)
        arrived[t.target].update(moved)
        if t.source != t.target:
            remote[t.target].update(moved)
    for d in range(mesh_shape.device_count):
        want, have = set(cells(wanted[d], shape).tolist()), set(cells(held[d], shape).tolist())
        assert arrived[d] == Counter(want)
        assert remote[d] == Counter(want - have)


@given(SEEDS)
@settings(max_examples=examples(100))
def test_elements_come_from_the_nearest_holder(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape, shape = random_mesh(rng), random_shape(rng)
    source, needed = random_spec(rng, len(shape), mesh_shape), random_needed(rng, shape, mesh_shape)
    plan = plan_copy(source, needed, shape, mesh_shape)
    held, place = boxes(source, shape, mesh_shape), mesh_shape.axis_coordinates
    for t in fetch_transfers(plan, shape, mesh_shape) if plan is not None else ():
        if t.gathered:
            continue
        holders = [d for d in range(mesh_shape.device_count) if (held[d] == held[t.source]).all()]
        rotated = [(d - t.target) % mesh_shape.device_count for d in holders]
        distance = [(*(place[d] != place[t.target]), r) for d, r in zip(holders, rotated, strict=True)]
        assert t.source == holders[distance.index(min(distance))]


@given(SEEDS)
@settings(max_examples=examples(200))
def test_scatter_steps_partition_what_a_group_carries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape, shape = random_mesh(rng), random_shape(rng)
    source = random_spec(rng, len(shape), mesh_shape, partial=True)
    plan = plan_copy(source, random_needed(rng, shape, mesh_shape), shape, mesh_shape)
    if plan is None or not plan.scatter:
        return
    flat = np.arange(int(np.prod(shape))).reshape(shape)
    stages = [
        [set(flat[np.ix_(*s)].reshape(-1).tolist()) for s in scatter_sets(plan, shape, mesh_shape, done)]
        for done in range(len(plan.scatter) + 1)
    ]
    for done, (_, names) in enumerate(plan.scatter):
        members = group_members(mesh_shape, names)
        for d in range(mesh_shape.device_count):
            pieces = [stages[done + 1][m] for m in members[d]]
            union = set[int]().union(*pieces)
            assert sum(map(len, pieces)) == len(union)
            assert union <= stages[done][d]
            assert done == 0 or union == stages[done][d]
    middle = boxes(plan.middle, shape, mesh_shape)
    assert stages[-1] == [set(cells(box, shape).tolist()) for box in middle]


@given(SEEDS)
def test_all_reduce_slices_partition_the_shard(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape = random_mesh(rng)
    names = [s.name for s in mesh_shape.sub_axes if rng.random() < 0.7]
    steps = mesh_shape.by_axis(names)
    groups = mesh_shape.linear(tuple(s.name for s in mesh_shape.sub_axes if s.name not in names))
    length = rng.integers(0, 30, int(groups.max()) + 1)[groups]
    before = [set(range(n)) for n in length]
    for (_, axes), (start, end) in zip(steps, flat_slices(length, steps, mesh_shape), strict=True):
        slices = [set(range(int(a), int(b))) for a, b in zip(start, end, strict=True)]
        for d, members in enumerate(group_members(mesh_shape, axes)):
            assert sum(len(slices[m]) for m in members) == len(before[d])
            assert set[int]().union(*(slices[m] for m in members)) == before[d]
        before = slices


def test_what_is_held_already_is_a_view() -> None:
    assert plan_copy(Spec((WHOLE, WHOLE)), Spec((Split(ALL), WHOLE)), (8, 8), EIGHT) is None
    assert plan_copy(Spec((NODE,)), Spec((Split(("node.0", "gpu.0")),)), (8,), TWO_BY_FOUR) is None
    part = Spec((WHOLE,), windows=(ChunkWindow(1, 0, 2, 3, 2, 5),))
    assert plan_copy(Spec((WHOLE,)), part, (8,), EIGHT) is None


def test_chunks_that_do_not_nest_are_fetched() -> None:
    """Check 5 rows: 3 and 2 over 2 devices; 2, 2, 1 and 0 over 4; device 1 needs rows [2, 4) and holds [0, 3)."""
    mesh_shape = MeshShape.of(gpu=4)
    source, needed = Spec((Split(("gpu.0",)),)), Spec((Split(("gpu.0", "gpu.1")),))
    assert plan_copy(source, needed, (8,), mesh_shape) is None
    plan = planned(source, needed, (5,), mesh_shape)
    assert plan.fetch
    assert received(plan, (5,), mesh_shape) == 1


def test_a_partial_tensor_goes_straight_to_its_shards() -> None:
    plan = planned(Spec((WHOLE, WHOLE), ALL, "sum"), Spec((WHOLE, Split(ALL))), (4, 16), EIGHT)
    assert plan.scatter == (("gpu", ALL),)
    assert plan.reduce == ()
    assert not plan.fetch


def test_a_partial_tensor_that_is_needed_whole_is_all_reduced_axis_by_axis() -> None:
    source = Spec((WHOLE,), ("node.0", "gpu.0", "gpu.1"), "sum")
    plan = planned(source, Spec((WHOLE,)), (16,), TWO_BY_FOUR)
    assert plan.scatter == ()
    assert plan.reduce == (("gpu", ("gpu.0", "gpu.1")), ("node", ("node.0",)))
    assert not plan.fetch
    fast, slow = flat_slices(np.full(8, 16), plan.reduce, TWO_BY_FOUR)
    assert [(int(a), int(b)) for a, b in zip(*fast, strict=True)] == [(0, 4), (4, 8), (8, 12), (12, 16)] * 2
    assert (slow[1] - slow[0]).tolist() == [2] * 8


def test_scatter_and_reduce_share_the_partial_axes() -> None:
    source = Spec((WHOLE,), ("node.0", "gpu.0", "gpu.1"), "sum")
    plan = planned(source, Spec((GPU,)), (16,), TWO_BY_FOUR)
    assert (plan.scatter, plan.reduce) == (
        (("gpu", ("gpu.0", "gpu.1")),),
        (("node", ("node.0",)),),
    )
    assert plan.middle == Spec((GPU,))


def test_replicated_axes_are_sliced_before_a_reduction() -> None:
    source = Spec((WHOLE,), ("node.0",), "sum")
    plan = planned(source, Spec((GPU,)), (16,), TWO_BY_FOUR)
    assert (plan.scatter, plan.reduce, plan.fetch) == ((), (("node", ("node.0",)),), False)
    assert volumes(boxes(plan.middle, (16,), TWO_BY_FOUR)).tolist() == [4] * 8


def test_replicas_split_a_slow_transfer_and_gather_locally() -> None:
    """Check two nodes that hold a half each; each of four devices fetches a quarter of the other half, then gathers."""
    plan = planned(Spec((NODE,)), Spec((WHOLE,)), (16,), TWO_BY_FOUR)
    transfers = fetch_transfers(plan, (16,), TWO_BY_FOUR)
    slow = [t for t in transfers if t.axis == 0]
    assert len(slow) == 8
    assert all(t.end - t.start == 2 for t in slow)
    assert [t.source for t in slow if t.target == 1] == [5]
    local = [t for t in transfers if t.gathered]
    assert len(local) == 8 * 3
    assert all(t.axis == 1 and t.end - t.start == 2 for t in local)


def test_kinds_of_rounds() -> None:
    shards, columns = Spec((Split(ALL), WHOLE)), Spec((WHOLE, Split(ALL)))
    assert fetch_round(shards, Spec((WHOLE, WHOLE)), (64, 8), "gpu", EIGHT).kind == "all_gather"
    assert fetch_round(shards, columns, (64, 8), "gpu", EIGHT).kind == "all_to_all"
    halo = Spec((Split(ALL), WHOLE), windows=(ChunkWindow(8, 1, -1, 3, 0, 8), None))
    assert fetch_round(shards, halo, (64, 8), "gpu", EIGHT).kind == "fetch"


def test_a_gather_of_a_window_is_a_gather() -> None:
    # Given rows on eight devices, a reader of rows 1 to 6, and one of halves of columns with a halo.
    rows, grid = Spec((Split(ALL), WHOLE)), Spec((Split(ALL[:1]), Split(ALL[1:])))
    sliced = Spec((WHOLE, WHOLE), windows=(ChunkWindow(8, 0, 1, 6, 0, 8), None))
    counted = Spec((Split(ALL), WHOLE), windows=(ChunkWindow(8, 0, 1, 6, 0, 8), None))
    haloed = Spec((WHOLE, Split(ALL[1:])), windows=(None, ChunkWindow(8, 1, -1, 3, 0, 8)))
    assert fetch_round(rows, sliced, (8, 8), "gpu", EIGHT) == Round("gpu", "all_gather", 8, 1)
    assert fetch_round(rows, counted, (8, 8), "gpu", EIGHT) == Round("gpu", "all_gather", 8, 1)
    # columns come from neighbors beside the group of the rows, so the group is the whole axis
    assert fetch_round(grid, haloed, (8, 8), "gpu", EIGHT) == Round("gpu", "all_gather", 8, 1)
    assert fetch_round(rows, haloed, (8, 8), "gpu", EIGHT).kind == "all_to_all"


def test_a_read_of_what_one_member_holds_is_a_broadcast() -> None:
    # Given rows on eight devices, of which all read the third one, or that and the next; halves of columns beside.
    rows, grid = Spec((Split(ALL), WHOLE)), Spec((Split(ALL[:2]), Split(ALL[2:])))
    third, two = (Spec((WHOLE, WHOLE), windows=(ChunkWindow(8, 0, 2, n, 0, 8), None)) for n in (1, 2))
    kept = Spec((WHOLE, Split(ALL[2:])), windows=third.windows)
    assert fetch_round(rows, third, (8, 8), "gpu", EIGHT) == Round("gpu", "broadcast", 8, 1)
    assert fetch_round(rows, two, (8, 8), "gpu", EIGHT) == Round("gpu", "all_gather", 8, 1)
    assert fetch_round(grid, kept, (8, 8), "gpu", EIGHT) == Round("gpu", "broadcast", 4, 2)
    # of a row, each of two devices has half
    assert fetch_round(grid, third, (8, 8), "gpu", EIGHT) == Round("gpu", "all_gather", 8, 1)


class TestWorkedCases:
    """The numbers of the design, fp32, eight devices, counted from the transfers."""

    X = (16, 128, 56, 56)
    HALO = Spec(
        (WHOLE, WHOLE, Split(ALL), WHOLE), windows=(None, None, ChunkWindow(28, 2, -1, 3, 0, 56), None)
    )

    def missing(self, granule: int) -> int:
        source = Spec((WHOLE, WHOLE, Split(ALL, granule), WHOLE))
        return 4 * received(planned(source, self.HALO, self.X, EIGHT), self.X, EIGHT)

    def test_a_strided_convolution_of_rows(self) -> None:
        wanted = boxes(self.HALO, self.X, EIGHT)[:, 2]
        assert [(int(a), int(b)) for a, b in wanted[:7]] == [(max(8 * i - 1, 0), 8 * i + 8) for i in range(7)]
        assert self.missing(1) == 12_845_056 == 28 * 4 * 16 * 128 * 56

    def test_the_granule_of_the_stride_saves_most_of_the_halo(self) -> None:
        assert self.missing(8) == 2_752_512 == 6 * 4 * 16 * 128 * 56

    def test_a_sequence_gathered_once(self) -> None:
        plan = planned(Spec((Split(ALL), WHOLE)), Spec((WHOLE, WHOLE)), (1024, 768), EIGHT)
        assert 4 * received(plan, (1024, 768), EIGHT) == 22_020_096
