"""Tests of the convention "single split" of `docs/sharding.md`: the split of a dimension, and the resulting boxes."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.sharding.mesh_shape import MeshShape, prime_factors
from tapestry.teg.sharding.spec import (
    ChunkWindow,
    Spec,
    Split,
    boxes,
    chunk_bounds,
    chunk_size,
    contains,
)
from tapestry.teg.sharding.strategy import Strategy, consumer_spec, index_boxes, producer_spec, splittable
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.views import RootRow, identity, pull_back

EIGHT = MeshShape.of(gpu=8)
ALL = ("gpu.0", "gpu.1", "gpu.2")


def bounds(size: int, split: Split, mesh_shape: MeshShape = EIGHT) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in chunk_bounds(size, split, mesh_shape)]


def test_twelve_heads_of_64_over_eight_devices_are_chunks_of_128() -> None:
    assert chunk_size(768, 8, 1) == 96
    assert chunk_size(768, 8, 64) == 128
    chunks = bounds(768, Split(ALL, 64))
    assert chunks == [(128 * k, 128 * k + 128) for k in range(6)] + [(768, 768)] * 2


def test_trailing_chunks_are_smaller_and_then_empty() -> None:
    assert bounds(28, Split(ALL)) == [(4 * k, 4 * k + 4) for k in range(7)] + [(28, 28)]
    assert bounds(10, Split(("gpu.0", "gpu.1"))) == [(0, 3)] * 2 + [(3, 6)] * 2 + [(6, 9)] * 2 + [(9, 10)] * 2
    assert bounds(5, Split(("gpu.0",), 4)) == [(0, 4)] * 4 + [(4, 5)] * 4


def test_the_first_sub_axis_is_the_most_significant() -> None:
    mesh_shape = MeshShape.of(node=2, gpu=2)
    assert bounds(4, Split(("node.0", "gpu.0")), mesh_shape) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert bounds(4, Split(("gpu.0", "node.0")), mesh_shape) == [(0, 1), (2, 3), (1, 2), (3, 4)]


def test_axes_split_into_prime_sub_axes() -> None:
    mesh_shape = MeshShape.of(node=2, gpu=12)
    assert [(s.name, s.size) for s in mesh_shape.sub_axes] == [
        ("node.0", 2),
        ("gpu.0", 2),
        ("gpu.1", 2),
        ("gpu.2", 3),
    ]
    assert prime_factors(1) == ()
    assert mesh_shape.by_axis(("gpu.2", "node.0", "gpu.0")) == (
        ("gpu", ("gpu.0", "gpu.2")),
        ("node", ("node.0",)),
    )


@given(st.integers(1, 40), st.integers(1, 6), st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
def test_chunks_tile_the_dimension_and_respect_the_granule(size: int, granule: int, parts: int) -> None:
    mesh_shape = MeshShape.of(x=parts)
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    chunks = bounds(size, Split(axes, granule), mesh_shape)
    assert chunks[0][0] == 0
    assert chunks[-1][1] == size
    assert all(a[1] == b[0] for a, b in itertools.pairwise(chunks))
    assert all(a % granule == 0 or a == size for a, _ in chunks)


def test_a_window_gives_overlapping_clipped_boxes() -> None:
    """Check a 3x3 convolution of stride 2 over 56 rows: 28 output rows over 8 devices read rows [8i-1, 8i+8)."""
    halo = Spec((Split(ALL),), windows=(ChunkWindow(28, 2, -1, 3, 0, 56),))
    rows = [(int(a), int(b)) for a, b in boxes(halo, (56,), EIGHT)[:, 0]]
    assert rows[:7] == [(max(8 * i - 1, 0), 8 * i + 8) for i in range(7)]
    assert rows[7][0] == rows[7][1]


def test_boxes_of_rank_zero_hold_one_element() -> None:
    nothing = boxes(Spec(()), (), EIGHT)
    assert nothing.shape == (8, 0, 2)
    assert contains(nothing, nothing).all()


def signature(*dims: tuple[str, int, str], reads: list[Row], writes: list[Row]) -> Signature:
    index = tuple(IndexDim(*d) for d in dims)
    return Signature(index, (projection(reads, len(dims)),), (projection(writes, len(dims)),))


def test_a_split_reduction_makes_the_output_partial() -> None:
    s = signature(
        ("m", 8, PARALLEL),
        ("k", 6, "sum"),
        reads=[Row(0, 1, 0, 1), Row(1, 1, 0, 1)],
        writes=[Row(0, 1, 0, 1)],
    )
    strategy = Strategy((Split(("gpu.0",)), Split(("gpu.1", "gpu.2"))))
    assert producer_spec(s, 0, 1, strategy) == Spec((Split(("gpu.0",)),), ("gpu.1", "gpu.2"), "sum")
    assert splittable(s) == (True, True)
    assert index_boxes(s, strategy, EIGHT)[5].tolist() == [[4, 8], [2, 4]]


def test_extents_become_granules() -> None:
    """Check a grouped dimension: one index step reads and writes four elements."""
    s = signature(("g", 6, PARALLEL), reads=[Row(0, 4, 0, 4)], writes=[Row(0, 4, 0, 4)])
    strategy = Strategy((Split(("gpu.0", "gpu.1"), 1),))
    assert producer_spec(s, 0, 1, strategy) == Spec((Split(("gpu.0", "gpu.1"), 4),))
    rows = pull_back(identity((24,)), [Row(0, 4, 0, 4)])
    assert consumer_spec(rows, (24,), s, strategy) == Spec((Split(("gpu.0", "gpu.1"), 4),))


def test_overlapping_outputs_may_not_be_split() -> None:
    s = signature(("i", 4, PARALLEL), ("j", 4, PARALLEL), reads=[], writes=[Row(0, 1, 0, 2), Row(1, 1, 0, 1)])
    assert splittable(s) == (False, True)


def test_a_dimension_that_is_read_in_part_is_a_window() -> None:
    rows = (RootRow(0, 1, 2, 1, 2, 6),)
    s = signature(("i", 4, PARALLEL), reads=[Row(0, 1, 0, 1)], writes=[Row(0, 1, 0, 1)])
    split = consumer_spec(rows, (8,), s, Strategy((Split(("gpu.0",)),)))
    assert split == Spec((Split(("gpu.0",)),), windows=(ChunkWindow(4, 1, 2, 1, 2, 6),))
    whole = consumer_spec(rows, (8,), s, Strategy((Split(),)))
    assert np.array_equal(boxes(whole, (8,), EIGHT)[:, 0], [[2, 6]] * 8)
