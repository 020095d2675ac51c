"""Tests that tt-metal's layouts follow the definition for any shape, grid, tile and joined dimensions."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, LayoutError, parse_layout
from tapestry.hardware.layouts.tt_metal import MetalLayout, parse_metal_layout
from tests.cases import examples


@st.composite
def layouts(draw: st.DrawFn) -> MetalLayout:
    """Draw shapes up to rank 4 over any grid, any tiles, dimensions joined anywhere, batches strided apart."""
    shape = draw(st.lists(st.integers(1, 9), min_size=2, max_size=4))
    begin = draw(st.integers(0, len(shape) - 1))
    end = draw(st.integers(begin + 1, len(shape)))
    rank = max(len(shape) - (end - begin) + 1, 2)
    grid = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    tile = draw(st.sampled_from([None, (4, 2), (1, 3), (32, 32)]))
    intervals = ((begin, end),) if rank == len(shape) - (end - begin) + 1 else ((0, -1),)
    return MetalLayout.of(shape, "f32", intervals, grid, tile)


def offset_by_definition(layout: MetalLayout, coords: tuple[int, ...]) -> int:
    """Compute the element's offset step by step, as documented: map, core, tile, element of the tile."""
    index = layout.attribute.linear.evaluate(coords)
    core = slot = 0
    shards = layout.shards
    for i, g, p in zip(index, shards.grid, shards.pitch, strict=True):
        core = core * g + i // p
    local = [i % p for i, p in zip(index, shards.pitch, strict=True)]
    rows, columns = layout.element.tile or (1, 1)
    for i, n in zip(
        [*local[:-2], local[-2] // rows, local[-1] // columns], layout.attribute.memref_shape, strict=True
    ):
        slot = slot * n + i
    return (
        (core * layout.buffer_elements)
        + slot * rows * columns
        + local[-2] % rows * columns
        + local[-1] % columns
    )


@settings(max_examples=examples(60), deadline=None)
@given(layouts())
def test_given_any_layout_then_elements_lie_where_the_definition_says(layout: MetalLayout) -> None:
    array = np.arange(1, layout.element_count + 1, dtype=np.int32).reshape(layout.shape)
    packed = layout.pack(array)
    flat = packed.reshape(-1)
    for coords in np.ndindex(*layout.shape):
        assert flat[offset_by_definition(layout, coords)] == array[coords]
    assert np.count_nonzero(flat) == layout.element_count
    assert np.array_equal(Layout.pack(layout, array), packed)
    assert np.array_equal(layout.unpack(packed), array)


@settings(max_examples=examples(60), deadline=None)
@given(layouts())
def test_given_any_layout_then_cells_that_are_no_padding_are_the_elements(layout: MetalLayout) -> None:
    slots = np.arange(layout.buffer_count * layout.buffer_elements)
    coords, real = layout.coordinates(slots)
    assert real.sum() == layout.element_count == len({tuple(c) for c in coords[real].tolist()})
    assert np.array_equal(layout.offsets(coords[real]), slots[real])
    assert layout.size_bytes == 4 * len(slots) and layout.padding_bytes == 4 * (~real).sum()
    assert parse_metal_layout(str(layout)) == layout


@settings(max_examples=examples(60), deadline=None)
@given(layouts())
def test_given_any_layout_then_sizes_without_making_it_agree(layout: MetalLayout) -> None:
    remade = MetalLayout(layout.shape, "f32", layout.attribute)
    assert remade == layout and hash(remade) == hash(layout)


def test_padding_is_reported_per_core() -> None:
    layout = MetalLayout.of((53, 63), "f32", grid=(3, 2))
    assert (layout.padding(0), layout.padding(1)) == ((14, 14, 15), (0, 1))
    assert layout.valid_region((2, 1)) == (17, 31)
    with pytest.raises(LayoutError, match=r"core \[3, 0\] is not inside the grid \[3, 2\]"):
        layout.valid_region((3, 0))


@pytest.mark.parametrize(
    ("oob", "dtype", "value"),
    [("undef", "f4", 0), ("zero", "f4", 0), ("one", "f4", 1), ("inf", "f4", np.inf), ("neginf", "f4", -np.inf),
     ("neginf", "i4", -(2**31)), ("inf", "u1", 255)],
)  # fmt: skip
def test_padding_holds_the_out_of_bounds_value(oob: str, dtype: str, value: float) -> None:
    layout = MetalLayout.of((3, 5), "f32", tile=(4, 8), oob=oob)
    packed = layout.pack(np.full((3, 5), 7, dtype=dtype))
    assert packed[0, 5:8].tolist() == [value] * 3 and (packed == value).sum() == 32 - 15


def test_block_floats_count_their_exponents() -> None:
    text = (
        "tensor<40x32xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <2x1>, "
        "memref<1x1x!tt.tile<32 x 32, {}>, #tt.memory_space<l1>>>>"
    )
    sizes = {
        name: parse_layout(text.format(name)).size_bytes for name in ("bfp_bf8", "bfp_bf4", "bfp_f2", "bf16")
    }
    assert sizes == {"bfp_bf8": 2 * 1088, "bfp_bf4": 2 * 576, "bfp_f2": 2 * 320, "bf16": 2 * 2048}
    assert parse_layout(text.format("bfp_bf8")).padding_bytes == 2 * 1088 - 40 * 34


@pytest.mark.parametrize(
    ("linear", "grid", "shard", "message"),
    [
        ("(d0 mod 2, d1)", "1x1", "2x4", "puts elements [0, 0] and [2, 0] at one place"),
        ("(d0 + d1)", "1", "7", "puts elements [0, 1] and [1, 0] at one place"),
        ("((d0 * 2) mod 4 + d1 floordiv 3, d1)", "1x1", "4x4", "puts elements [0, 0] and [2, 0]"),
        ("(d0 mod 3, d1)", "1x1", "4x4", "leads to 2 in dimension 0, outside its size 1"),
    ],
)
def test_a_map_that_is_not_injective_has_no_padding(linear: str, grid: str, shard: str, message: str) -> None:
    text = f"tensor<4x4xf32, #tt.metal_layout<(d0, d1) -> {linear}, undef, <{grid}>, memref<{shard}xf32, "
    layout = parse_metal_layout(text + "#tt.memory_space<l1>>>>")
    with pytest.raises(LayoutError, match=re.escape(message)):
        _ = layout.padding_bytes
    with pytest.raises(LayoutError, match=re.escape(message)):
        layout.pack(np.zeros((4, 4), np.float32))


def test_of_large_tensors_the_places_are_counted() -> None:
    text = (
        "tensor<4096x4096xf32, #tt.metal_layout<(d0, d1) -> (d0 mod 8, d1), undef, <1x1>, memref<8x4096xf32, "
    )
    layout = parse_metal_layout(text + "#tt.memory_space<l1>>>>")
    with pytest.raises(LayoutError, match=r"has 32768 places for the 16777216 elements"):
        _ = layout.padding_bytes
