"""Tests of the newer attribute: dimensions aligned when joined; the tensor's own shape is that of grid and shards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, LayoutError
from tapestry.hardware.layouts.tt_metal import AlignedAttribute, AlignedMetalLayout, parse_metal_layout
from tapestry.hardware.layouts.tt_metal.element import scalar, tile
from tests.cases import examples


@st.composite
def layouts(draw: st.DrawFn) -> AlignedMetalLayout:
    """Draw shapes of rank 1 to 4 with any alignments, joined anywhere, on a grid that divides the physical shape."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    rank = len(shape)
    alignments = tuple(draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    begin = draw(st.integers(0, rank - 1))
    intervals = draw(st.sampled_from([(), ((begin, rank),), ((begin, draw(st.integers(begin, rank))),)]))
    attribute = AlignedAttribute(shape, alignments, intervals, "l1")
    physical = attribute.physical_shape()
    grid = [draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in physical]
    return AlignedMetalLayout(shape, attribute.device_shape(grid), scalar("f32"), attribute)


@settings(max_examples=examples(80), deadline=None)
@given(layouts())
def test_given_any_aligned_layout_then_packing_and_offsets_agree(layout: AlignedMetalLayout) -> None:
    array = np.arange(1, layout.element_count + 1, dtype=np.int32).reshape(layout.shape)
    packed = layout.pack(array)
    assert np.array_equal(packed, Layout.pack(layout, array)) and np.array_equal(layout.unpack(packed), array)
    coords, real = layout.coordinates(np.arange(packed.size))
    assert real.sum() == layout.element_count and np.array_equal(real, packed.reshape(-1) != 0)
    assert np.array_equal(layout.offsets(coords[real]), np.flatnonzero(real))
    assert layout.size_bytes == 4 * packed.size and parse_metal_layout(str(layout)) == layout


@settings(max_examples=examples(80), deadline=None)
@given(layouts())
def test_given_any_aligned_layout_then_host_strides_address_the_aligned_tensor(
    layout: AlignedMetalLayout,
) -> None:
    attribute = layout.attribute
    host = np.zeros(attribute.host_volume, dtype=np.int64)
    physical = attribute.physical_shape()
    for number, coords in enumerate(np.ndindex(*layout.shape), start=1):
        place = sum(c * s for c, s in zip(coords, attribute.host_strides, strict=True))
        assert host[place] == 0
        host[place] = number
        index = attribute.linear.evaluate(coords)
        assert host.reshape(physical)[index] == number


@pytest.mark.parametrize(
    ("shape", "alignments", "intervals", "physical"),
    [
        ((2, 33, 128), (1, 32, 32), ((0, 2), (2, 3)), (128, 128)),
        ((2, 32, 130), (1, 32, 32), ((0, 2), (2, 3)), (64, 160)),
        ((2, 3, 5, 193), (1, 1, 32, 256), ((0, 3), (3, 4)), (192, 256)),
        ((4, 43, 7), (1, 32, 32), ((0, -1),), (256, 32)),
        ((9, 43, 7), (256, 32, 32), ((0, 2), (2, 3)), (768, 32)),
        ((32,), (32,), ((0, 1),), (32, 32)),
        ((), (), (), (32, 32)),
        ((2, 4, 8), (1, 1, 1), ((1, 3),), (2, 32)),
    ],
)
def test_published_shapes_are_aligned_as_the_compiler_does(
    shape: tuple, alignments: tuple, intervals: tuple, physical: tuple
) -> None:
    assert AlignedAttribute(shape, alignments, intervals).physical_shape() == physical


def test_default_alignments_are_those_of_a_tile() -> None:
    assert AlignedAttribute.of((4, 43, 7)).dim_alignments == (1, 32, 32)
    assert AlignedAttribute.of((5,)).dim_alignments == (32,)
    assert AlignedAttribute.of((2, 3, 4, 5), intervals=((0, 2), (2, 4))).dim_alignments == (1, 32, 1, 32)
    assert AlignedAttribute.of((33, 128)).device_shape((2, 4), (32, 32)) == (2, 4, 1, 1)


def test_a_tile_plane_holds_a_vector_in_its_first_row() -> None:
    layout = AlignedMetalLayout((5,), (1, 1, 1, 1), tile("f32"), AlignedAttribute.of((5,)))
    assert layout.pack(np.arange(5.0) + 1)[0].nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    assert (layout.size_bytes, layout.padding_bytes, layout.offset_of((3,)), layout.coords_of(32)) == (
        4096, 4076, 3, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("device", "element", "message"),
    [
        ((1, 1, 32), scalar("f32"), "expected a device shape of a grid and a shard of rank 2 each"),
        (
            (2, 1, 8, 32),
            scalar("f32"),
            "a grid of .2, 1. shards of .8, 32. does not hold the aligned extents .32, 32.",
        ),
        ((1, 1, 1, 1), tile("f32", (32, 64)), "no multiple of the tile 32x64: align dimension 1 to 64"),
    ],
)
def test_device_shapes_that_hold_too_little_are_refused(device: tuple, element: object, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        AlignedMetalLayout((30, 30), device, element, AlignedAttribute.of((30, 30)))


@pytest.mark.parametrize(
    ("dense", "message"),
    [
        (
            "dense<[0, 1]> : tensor<2xi64>",
            "at character .*: collapsed_intervals must be a 2D array, got rank 1",
        ),
        ("dense<[[0, 1, 2]]> : tensor<1x3xi64>", "pairs .second dim size 2., got 3"),
        (
            "dense<[[0, 1]]> : tensor<2x2xi64>",
            "an array type of extents .1, 2. as its values have, not .2, 2.",
        ),
        ("dense<[[0, 1], [2]]> : tensor<2x2xi64>", "expected rows of one length"),
        ("dense<0> : tensor<900000000x2xi64>", "expected the 1800000000 values"),
        ("dense<" + "[" * 3000, "at most 8 dimensions"),
    ],
)
def test_bad_interval_arrays_are_refused(dense: str, message: str) -> None:
    text = "tensor<1x1x32x32xf32, #ttcore.metal_layout<logical_shape = 30x30, dim_alignments = 32x32, {}, l1, sharded>>"
    with pytest.raises(LayoutError, match=message):
        parse_metal_layout(text.format(f"collapsed_intervals = {dense}"))


def test_grids_that_do_not_divide_are_refused_in_the_compilers_words() -> None:
    with pytest.raises(LayoutError, match="evenly divisible by grid dimension, got 64 % 3 != 0"):
        AlignedAttribute.of((64, 64)).device_shape((3, 1))
    with pytest.raises(LayoutError, match="overlap at dimension 1"):
        AlignedAttribute((2, 3, 4), (1, 1, 1), ((0, 2), (1, 3))).physical_shape()
