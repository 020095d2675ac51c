"""Tests of the compiler's ttnn layout: matrices are padded to tiles before dimensions are joined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.tt_metal import MetalLayout, parse_metal_layout, ttnn_attribute
from tests.cases import examples


@pytest.mark.parametrize(
    ("shape", "linear", "memref"),
    [
        ((1, 1, 1024), "(d0, d1, d2) -> (d0 * 32 + d1, d2)", (1, 32)),
        ((1, 30, 30, 64), "(d0, d1, d2, d3) -> (d0 * 960 + d1 * 32 + d2, d3)", (30, 2)),
        ((5, 4, 3, 2), "(d0, d1, d2, d3) -> (d0 * 128 + d1 * 32 + d2, d3)", (20, 1)),
        ((7,), "(d0) -> (0, d0)", (1, 1)),
    ],
)
def test_the_last_matrix_is_padded_before_joining(shape: tuple, linear: str, memref: tuple) -> None:
    attribute = ttnn_attribute(shape, "bf16")
    assert (str(attribute.linear), attribute.memref_shape) == (linear, memref)


@pytest.mark.parametrize(
    ("shape", "tiles"), [((1, 1024), (1, 1)), ((512, 512), (1, 4)), ((32, 2049), (1, 2))]
)  # fmt: skip
def test_interleaved_l1_gives_every_core_its_part_of_all_tiles(shape: tuple, tiles: tuple) -> None:
    assert ttnn_attribute(shape, "bf16", (8, 8), buffer_type="l1").memref_shape == tiles


@pytest.mark.parametrize(("memory", "grid"), [("height_sharded", (12, 1)), ("width_sharded", (1, 12))])
def test_height_and_width_sharded_grids_list_cores_for_one_dimension(memory: str, grid: tuple) -> None:
    text = (
        "tensor<384x384xbf16, #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <2x6>, "
        "memref<{}x!ttcore.tile<32x32, bf16>, #l1>, <{}>, "
        "core_ranges = #ttnn.core_range_set<[#ttnn.core_range<(0, 0), (5, 1)>]>>>"
    )
    layout = parse_metal_layout(text.format("1x12" if grid[1] == 1 else "12x1", memory))
    assert (
        layout.shards.grid == grid and layout.padding_bytes == 0 and parse_metal_layout(str(layout)) == layout
    )
    with pytest.raises(LayoutError, match="memref 2x1 is smaller than the shard"):
        parse_metal_layout(text.format("2x1", memory))


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 3))
def test_given_any_sharded_tensor_then_each_tile_is_of_one_matrix(
    shape: list, rows: int, columns: int
) -> None:
    attribute = ttnn_attribute(shape, "f32", (rows, columns), memory_layout="block_sharded", buffer_type="l1")
    layout = MetalLayout(tuple(shape), "f32", attribute)
    array = np.arange(1, layout.element_count + 1).reshape(shape)
    packed = layout.pack(array)
    assert np.array_equal(layout.unpack(packed), array) and np.count_nonzero(packed) == array.size
    matrix = (packed.reshape(-1, 1024) - 1) // int(np.prod(shape[-2:]))
    assert all(len(set(tile[tile >= 0].tolist())) <= 1 for tile in matrix)
