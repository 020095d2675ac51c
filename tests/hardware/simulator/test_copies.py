"""Tests of copies in detail: staging and rounds by hand, and three ways of counting that must agree."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.hardware.simulator.classes import count_fetch_by_class
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.simulator.fetches import count_fetch
from tapestry.hardware.simulator.movement import ArrayMovement
from tapestry.hardware.simulator.rounds import CopyCounts
from tapestry.hardware.timing import move_ticks, step_ticks
from tapestry.teg.arrays import NUMPY
from tapestry.teg.sharding.copies import CopyPlan, plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split, boxes, volumes
from tapestry.teg.sharding.transfers import fetch_transfers
from tests.cases import first
from tests.hardware.simulator.programs import MESHES, mesh_of

GRID = MeshShape.of(node=2, gpu=4)
NODE, GPU = ("node.0",), ("gpu.0", "gpu.1")
HALO = ChunkWindow(8, 1, -1, 3, 0, 8)
FOUR = MeshShape.of(gpu=4)


def plan(source: Spec, needed: Spec, shape: tuple[int, ...], mesh_shape: MeshShape = GRID) -> CopyPlan:
    made = plan_copy(source, needed, shape, mesh_shape)
    assert made is not None
    return made


def rounds(counts: CopyCounts) -> list[tuple[str, str, int, list[int]]]:
    """Return axis, kind, members, and bytes received by the first and the last device."""
    return [(r.axis, r.kind, r.members, received[[0, -1]].tolist()) for r, received in counts.exchanges]


def test_reduce_scatter_over_two_axes() -> None:
    """Check that the fastest axis comes first; staging is one incoming and one reduced slice of the first step."""
    partial = Spec((WHOLE, WHOLE), (*NODE, *GPU), "sum")
    copy = plan(partial, Spec((Split((*NODE, *GPU)), WHOLE)), (16, 4))
    counts = count_copy(copy, (16, 4), GRID, 4, by_class=False)
    assert rounds(counts) == [
        ("gpu", "reduce_scatter", 4, [3 * 64, 3 * 64]),  # a quarter of 256 B from three peers
        ("node", "reduce_scatter", 2, [32, 32]),
    ]
    assert counts.staging_bytes.tolist() == [64 + 64] * 8
    assert counts.result_bytes.tolist() == [32] * 8


def test_all_reduce_over_two_axes_with_a_ragged_slice() -> None:
    """Check that 10 elements over 4 devices are slices of 3, 3, 3, 1; over 2 nodes those of 2 and 1, or 1 and 0."""
    copy = plan(Spec((WHOLE,), (*NODE, *GPU), "sum"), Spec((WHOLE,)), (10,))
    counts = count_copy(copy, (10,), GRID, 1, by_class=False)
    assert rounds(counts) == [
        ("gpu", "all_reduce", 4, [9 + 7, 3 + 9]),
        ("node", "all_reduce", 2, [2 + 1, 0 + 1]),
    ]
    assert counts.staging_bytes.tolist() == [3, 3, 3, 1] * 2


def test_a_fetch_after_a_reduction_stages_the_middle() -> None:
    """Check that a windowed need, which cannot be scattered to, is met by reducing the whole first."""
    needed = Spec((Split(GPU),), windows=(ChunkWindow(8, 1, -1, 3, 0, 8),))
    copy = plan(Spec((WHOLE,), GPU, "max"), needed, (8,))
    counts = count_copy(copy, (8,), GRID, 4, by_class=False)
    assert copy.reduce
    assert copy.fetch
    assert counts.staging_bytes.tolist() == [2 * 4 + 8 * 4] * 8
    assert counts.result_bytes.tolist() == [12, 16, 16, 12] * 2


def test_replicas_share_a_slow_transfer() -> None:
    """Check that, if both nodes need all, a device gets a quarter of the other half, the rest from its neighbors."""
    copy = plan(Spec((Split(NODE),)), Spec((WHOLE,)), (16,))
    counts = count_copy(copy, (16,), GRID, 4, by_class=False)
    assert rounds(counts) == [("node", "all_gather", 2, [8, 8]), ("gpu", "all_gather", 4, [24, 24])]
    assert counts.link_bytes is not None
    assert counts.link_bytes[:, 0].tolist() == [0, 8, 8, 8, 8, 0, 0, 0]


def test_nothing_moves_when_everything_is_there() -> None:
    assert plan_copy(Spec((WHOLE,)), Spec((Split(GPU),)), (16,), GRID) is None


@pytest.mark.parametrize(
    ("source", "needed", "packed_bytes"),
    [
        (Spec((Split(GPU), WHOLE)), Spec((WHOLE, WHOLE)), []),  # rows lie one behind the other
        # Columns do not: all that arrived is moved again.
        (Spec((WHOLE, Split(GPU))), Spec((WHOLE, WHOLE)), [512]),
        (Spec((Split(NODE), Split(GPU))), Spec((Split(NODE), WHOLE)), [256]),
        # An all-to-all to rows sends rows and gets columns of them; one to columns sends columns of its rows.
        (Spec((WHOLE, Split(GPU))), Spec((Split(GPU), WHOLE)), [128]),
        (Spec((Split(GPU), WHOLE)), Spec((WHOLE, Split(GPU))), [96]),  # and keeps a quarter of them
        # Two columns of four rows of four come to their places, four of eight rows of two.
        (Spec((Split(GPU), Split(NODE))), Spec((Split(NODE), Split(GPU))), [64]),
        # Halos are the first and the last columns of what is held, and of what is needed.
        (Spec((WHOLE, Split(GPU))), Spec((WHOLE, Split(GPU)), windows=(None, HALO)), [128, 256]),
        (Spec((Split(GPU), WHOLE)), Spec((Split(GPU), WHOLE), windows=(HALO, None)), []),
    ],
)
def test_what_is_no_run_of_memory_is_packed(source: Spec, needed: Spec, packed_bytes: list[int]) -> None:
    counts = count_copy(plan(source, needed, (16, 8)), (16, 8), GRID, 4, by_class=False)
    assert [int(sizes[1]) for sizes in counts.packed_bytes] == packed_bytes
    assert int(counts.staging_bytes[1]) == sum(packed_bytes)


@pytest.mark.parametrize(("reach", "columns"), [(1, 2), (3, 6), (63, 64)])
def test_a_halo_packs_what_is_sent_of_it(reach: int, columns: int) -> None:
    """Check eight parts of 64 columns, of which neighbors need some on either side: these, and no more than all."""
    eight, shape = MeshShape.of(gpu=8), (16, 512)
    split = Split(("gpu.0", "gpu.1", "gpu.2"))
    halo = ChunkWindow(512, 1, -reach, 2 * reach + 1, 0, 512)
    copy = plan_copy(Spec((WHOLE, split)), Spec((WHOLE, split), windows=(None, halo)), shape, eight)
    assert copy is not None
    counts = count_copy(copy, shape, eight, 4, by_class=False)
    assert counts.packed_bytes[0].tolist() == [16 * columns * 4] * 8


@pytest.mark.parametrize("seed", range(60))
def test_nothing_that_is_cut_out_of_a_part_is_sent_for_free(seed: int) -> None:
    """Check that devices pack each element once at least that some other one fetches from a part that it is cut from.

    Transfers say which elements these are: they are written out one by one, and know nothing of packing.
    """
    rng = np.random.default_rng(seed)
    mesh_shape = MESHES[seed % len(MESHES)]
    shape = tuple(int(n) for n in rng.integers(1, 14, size=rng.integers(2, 4)))
    source, needed = (random_spec(rng, shape, mesh_shape, held=held) for held in (True, False))
    copy = plan_copy(source, needed, shape, mesh_shape)
    if copy is None or not copy.fetch:
        return
    held, fetched, is_cut = boxes(copy.middle, shape, mesh_shape), np.zeros(shape, bool), False
    for t in fetch_transfers(copy, shape, mesh_shape):
        place = tuple(slice(*row) for row in t.box)
        if t.source != t.target:
            fetched[place] = True
        if t.source != t.target and not t.gathered:
            piece = np.zeros(shape, bool)
            piece[place] = True
            part = piece[tuple(slice(*row) for row in held[t.source])]
            is_cut |= bool(np.ptp(np.flatnonzero(part)) >= part.sum())
    without = replace(copy, scatter=(), reduce=(), source=copy.middle)
    packed = count_copy(without, shape, mesh_shape, 1, by_class=False).packed_bytes
    if is_cut:
        assert packed[0].sum() >= fetched.sum()
        assert (packed[0] <= volumes(held)).all()
    else:
        assert len(packed) <= 1  # after the fetch


@pytest.mark.parametrize(
    ("needed", "sent_bytes"),
    [
        (Spec((Split(GPU), WHOLE)), 0),
        (Spec((WHOLE, Split(GPU))), 3 * 128),  # columns for three peers
        (Spec((Split((*NODE, *GPU)), WHOLE)), 0),  # two runs for each peer: one for it, one for its neighbor
        (Spec((WHOLE, Split((*NODE, *GPU)))), 3 * 128),  # packed in the first step only
    ],
)
def test_a_scatter_packs_what_it_sends(needed: Spec, sent_bytes: int) -> None:
    partial = Spec((WHOLE, WHOLE), needed.dims[0].axes or needed.dims[1].axes, "sum")
    counts = count_copy(plan(partial, needed, (16, 8)), (16, 8), GRID, 4, by_class=False)
    assert [sizes.tolist() for sizes in counts.packed_bytes] == [[sent_bytes] * 8] * (sent_bytes > 0)
    slices = 128 if len(counts.exchanges) == 1 else 2 * 128
    assert counts.staging_bytes.tolist() == [slices + sent_bytes] * 8


def test_what_an_all_reduce_cuts_out_is_packed() -> None:
    """Check that columns of a partial tensor that is replicated are a row before they are summed over the nodes."""
    partial = Spec((WHOLE, WHOLE), NODE, "sum")
    for needed, packed in ((Spec((Split(GPU), WHOLE)), 0), (Spec((WHOLE, Split(GPU))), 128)):
        counts = count_copy(plan(partial, needed, (16, 8)), (16, 8), GRID, 4, by_class=False)
        assert counts.staging_bytes.tolist() == [64 + packed] * 8


def test_what_a_device_has_is_moved_beside_the_rounds() -> None:
    """Check a halo of one row around 1,024: the copy takes as long as moving these, and no longer."""
    halo, mesh = ChunkWindow(4096, 1, -1, 3, 0, 4096), mesh_of(MeshShape.of(gpu=4))
    copy = plan(
        Spec((Split(GPU), WHOLE)), Spec((Split(GPU), WHOLE), windows=(halo, None)), (4096, 1024), FOUR
    )
    counts = count_copy(copy, (4096, 1024), FOUR, 4, by_class=False)
    assert counts.kept_bytes.tolist() == [1024 * 1024 * 4] * 4
    (exchange,) = counts.exchanges
    crossing = int(step_ticks(mesh.axes[0], *exchange.round[1:3], 2 * 1024 * 4))
    assert counts.ticks(mesh) == int(move_ticks(mesh.device, 1024 * 1024 * 4)) > crossing


def test_columns_of_one_row_lie_one_behind_the_other() -> None:
    counts = count_copy(plan(Spec((WHOLE, Split(GPU))), Spec((WHOLE, WHOLE)), (1, 8)), (1, 8), GRID, 4, False)
    assert counts.packed_bytes == ()


@pytest.mark.parametrize("tens", first(2, range(6)))
@pytest.mark.parametrize("mesh_shape", MESHES, ids=lambda m: "x".join(str(n) for _, n in m.axes))
def test_three_counts_of_a_random_copy(mesh_shape: MeshShape, tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        three_counts_agree(mesh_shape, seed)


def three_counts_agree(mesh_shape: MeshShape, seed: int) -> None:
    """Check that moving arrays, counting all devices and counting by class give the same bytes and right elements."""
    rng = np.random.default_rng([seed, mesh_shape.device_count])
    shape = tuple(int(n) for n in rng.integers(1, 14, size=rng.integers(1, 4)))
    source, needed = (
        random_spec(rng, shape, mesh_shape, held=True),
        random_spec(rng, shape, mesh_shape, held=False),
    )
    copy = plan_copy(source, needed, shape, mesh_shape)
    if copy is None:
        return
    whole = rng.standard_normal(shape)
    terms = mesh_shape.size_of(source.partial)
    held = [whole[tuple(slice(*row) for row in box)] / terms for box in boxes(source, shape, mesh_shape)]

    result, moved = ArrayMovement(NUMPY, copy, shape, mesh_shape).run(held)

    for array, box in zip(result, boxes(needed, shape, mesh_shape), strict=True):
        np.testing.assert_allclose(array, whole[tuple(slice(*row) for row in box)])
    in_full, by_class = (count_copy(copy, shape, mesh_shape, 8, by_class=flag) for flag in (False, True))
    assert_equal_counts(moved, in_full)
    assert_equal_counts(in_full, by_class)
    assert (moved.link_bytes == in_full.link_bytes).all()
    assert (in_full.link_bytes.sum(axis=0) == in_full.received_bytes).all()


def assert_equal_counts(a: CopyCounts, b: CopyCounts) -> None:
    assert (a.result_bytes == b.result_bytes).all()
    assert (a.staging_bytes == b.staging_bytes).all()
    assert (a.kept_bytes == b.kept_bytes).all()
    assert [p.tolist() for p in a.packed_bytes] == [p.tolist() for p in b.packed_bytes]
    assert [e.round for e in a.exchanges] == [e.round for e in b.exchanges]
    for left, right in zip(a.exchanges, b.exchanges, strict=True):
        assert left.received_bytes.tolist() == right.received_bytes.tolist()


def random_spec(rng: np.random.Generator, shape: tuple[int, ...], mesh_shape: MeshShape, held: bool) -> Spec:
    """Draw a spec: sub-axes go to dimensions, to partial terms (held) or to nothing; windows if it is needed."""
    places = rng.integers(0, len(shape) + 2, size=len(mesh_shape.sub_axes))
    names = [
        [s.name for s, p in zip(mesh_shape.sub_axes, places, strict=True) if p == k]
        for k in range(len(shape) + 2)
    ]
    splits, windows = [], []
    for k, size in enumerate(shape):
        granule, axes = int(rng.choice([1, 1, 2, 3])), tuple(str(a) for a in rng.permutation(names[k]))
        splits.append(Split(axes, granule if axes else 1))
        windows.append(None if held or rng.random() < 0.6 else random_window(rng, size, bool(axes)))
    partial = tuple(names[-1]) if held else ()
    has_window = any(w is not None for w in windows)
    return Spec(tuple(splits), partial, "sum" if partial else None, tuple(windows) if has_window else ())


def random_window(rng: np.random.Generator, size: int, split: bool) -> ChunkWindow:
    """Draw a halo around every index point, or a constant range where the dimension is not split."""
    if split:
        extent = int(rng.integers(1, 4))
        return ChunkWindow(size, 1, -(extent // 2), extent, 0, size)
    low = int(rng.integers(0, size))
    high = int(rng.integers(low + 1, size + 1))
    return ChunkWindow(1, 0, low, high - low, low, high)


def test_classes_on_a_mesh_of_256_devices() -> None:
    mesh_shape = MeshShape.of(row=16, column=16)
    rows, columns = (tuple(s.name for s in mesh_shape.sub_axes if s.axis == a) for a in ("row", "column"))
    halo = ChunkWindow(224, 1, -1, 3, 0, 224)
    copies = [
        plan(Spec((Split(rows), WHOLE)), Spec((WHOLE, WHOLE)), (224, 8), mesh_shape),
        plan(Spec((Split(rows), Split(columns))), Spec((Split(columns), Split(rows))), (224, 96), mesh_shape),
        plan(
            Spec((Split((*rows, *columns)), WHOLE)),
            Spec((Split(rows), WHOLE), windows=(halo, None)),
            (224, 8),
            mesh_shape,
        ),
    ]
    for copy in copies:
        shape = (224, 96) if copy.needed.dims[1].axes else (224, 8)
        direct, gathered, _ = count_fetch(copy, shape, mesh_shape)
        by_class = count_fetch_by_class(copy, shape, mesh_shape)
        assert [c.tolist() for c in by_class] == [direct.tolist(), gathered.tolist()]
