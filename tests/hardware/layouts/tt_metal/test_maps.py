"""Tests of layouts by maps without strides: what they pack, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, LayoutError
from tapestry.hardware.layouts.tt_metal import MetalAttribute, MetalLayout, parse_affine_map
from tapestry.hardware.layouts.tt_metal.element import scalar, tile
from tests.cases import examples


@pytest.mark.parametrize(
    ("shape", "linear", "grid"),
    [
        ((16, 8), "(d0, d1) -> (d0 floordiv 4, d1 + (d0 mod 4) * 8)", (2, 2)),
        ((3, 4), "(d0, d1) -> (d0 * 6 + d1 + 2, 0)", (2, 1)),
        ((4, 3), "(d0, d1) -> (d1, d0)", (2, 3)),
        ((2, 3, 4), "(d0, d1, d2) -> (d0 * 3 + d1, d1, d2)", (2, 1, 2)),
        ((2, 3), "(d0, d1) -> (d0 * 2 + d1, d0 + d1)", (1, 2)),
        ((2, 0, 4), "(d0, d1, d2) -> (d0 * 3 + d1, d2)", (1, 2)),
        ((1, 12, 1, 5), "(d0, d1, d2, d3) -> (d0 * 12 + d1 + d2, d3)", (2, 1)),
        ((), "() -> (0, 0)", (1, 1)),
    ],
)
def test_any_map_packs_as_element_by_element(shape: tuple, linear: str, grid: tuple) -> None:
    attribute = MetalAttribute.derive(shape, parse_affine_map(linear), grid, scalar("f32"))
    layout = MetalLayout(shape, "f32", attribute)
    array = np.arange(1, layout.element_count + 1, dtype=np.int64).reshape(shape)
    packed = layout.pack(array)
    assert np.array_equal(packed, Layout.pack(layout, array)) and np.array_equal(layout.unpack(packed), array)
    coords, real = layout.coordinates(np.arange(packed.size))
    assert np.array_equal(real, packed.reshape(-1) != 0)
    assert [array[tuple(c)] for c in coords[real].tolist()] == packed.reshape(-1)[real].tolist()


def test_maps_that_lose_elements_are_refused() -> None:
    meet = MetalAttribute.derive((2, 2), parse_affine_map("(d0, d1) -> (d0 + d1, 0)"), (1, 1), scalar("f32"))
    with pytest.raises(LayoutError, match=r"puts elements \[0, 1\] and \[1, 0\] at one place"):
        MetalLayout((2, 2), "f32", meet).pack(np.ones((2, 2)))
    wrap = MetalAttribute.derive(
        (10, 2), parse_affine_map("(d0, d1) -> (d0 mod 8, d1)"), (1, 1), scalar("f32")
    )
    with pytest.raises(LayoutError, match="leads to 7 in dimension 0, outside its size 2"):
        MetalLayout((10, 2), "f32", wrap).pack(np.ones((10, 2)))
    with pytest.raises(LayoutError, match=r"takes the last index of \[9, 1\] below 0"):
        MetalAttribute.derive((9, 1), parse_affine_map("(d0, d1) -> (5 - d0, d1)"), (1, 1), scalar("f32"))


def test_steps_that_pass_64_bits_are_refused() -> None:
    linear = parse_affine_map("(d0, d1) -> ((d0 * 9000000000000000000 + d1) mod 7, 0)")
    layout = MetalLayout((3, 1), "f32", MetalAttribute.derive((3, 1), linear, (1, 1), scalar("f32")))
    with pytest.raises(LayoutError, match="can be 18000000000000000000, which passes 64 bits"):
        layout.offset_of((1, 0))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.sampled_from([4, 8, 32])
)
def test_given_all_grids_and_tiles_then_tilizing_only_pads(h: int, w: int, y: int, x: int, t: int) -> None:
    plain = MetalLayout.of((h, w), "f32", grid=(y, x), tile=None)
    tiled = plain.attribute.with_element(tile("f32", (t, t)))
    layout = MetalLayout((h, w), "f32", tiled)
    assert tiled.memref_shape == tuple(-(-n // t) for n in plain.attribute.memref_shape)
    assert [layout.shards.valid(i) for i in (0, 1)] == [plain.shards.valid(i) for i in (0, 1)]
    assert layout.size_bytes >= plain.size_bytes >= 4 * h * w
    back = MetalLayout((h, w), "f32", tiled.with_element(scalar("f32")))
    array = np.arange(1, h * w + 1).reshape(h, w)
    tiles = layout.pack(array).reshape(y, x, *tiled.memref_shape, t, t)
    assert np.array_equal(tiles.swapaxes(3, 4).reshape(y * x, -1), back.pack(array))


def test_buffers_are_no_views_of_the_array() -> None:
    layout = MetalLayout.of((4, 4), "f32", tile=None)
    array = np.ones((4, 4))
    packed = layout.pack(array)
    back = layout.unpack(packed)
    packed[:] = 2
    assert array.sum() == back.sum() == 16


def test_a_tensor_of_more_dimensions_than_arrays_have_is_refused() -> None:
    with pytest.raises(LayoutError, match="at most 64 dimensions, not 65"):
        MetalLayout.of((1,) * 65, "f32")
