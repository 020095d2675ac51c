"""Tests of grids of several chips, the memory map of a core, and maps without strides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware.layouts import Layout, LayoutError
from tapestry.hardware.layouts.tt_metal import MetalAttribute, MetalLayout, parse_affine_map
from tapestry.hardware.layouts.tt_metal.device import (
    l1_location,
    l1_map,
    physical_core,
    placed_grid,
    virtual_core,
    worker_grid,
)
from tapestry.hardware.layouts.tt_metal.element import scalar, tile


@pytest.mark.parametrize(
    ("mesh", "grid", "printed"),
    [
        ((1,), (8, 8), "(d0, d1) -> (0, d0, d1)"),
        ((1, 2), (8, 16), "(d0, d1) -> (d1 floordiv 8, d0, d1 mod 8)"),
        ((2, 1), (16, 8), "(d0, d1) -> (d0 floordiv 8, d0 mod 8, d1)"),
        ((2, 4), (16, 32), "(d0, d1) -> ((d0 floordiv 8) * 4 + d1 floordiv 8, d0 mod 8, d1 mod 8)"),
        ((2, 1, 1), (2, 8, 8), "(d0, d1, d2) -> (d0, d1, d2)"),
        ((2, 1, 2), (2, 8, 16), "(d0, d1, d2) -> (d0 * 2 + d2 floordiv 8, d1, d2 mod 8)"),
        ((3, 3, 1), (3, 24, 8), "(d0, d1, d2) -> (d0 * 3 + d1 floordiv 8, d1 mod 8, d2)"),
    ],
)
def test_chips_of_a_mesh_form_one_grid(mesh: tuple, grid: tuple, printed: str) -> None:
    found, core_map = worker_grid((8, 8), mesh)
    assert (found, str(core_map)) == (grid, printed)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.tuples(st.integers(1, 3), st.integers(1, 4)))
def test_given_any_mesh_then_every_core_of_every_chip_is_met_once(mesh: list, chip: tuple) -> None:
    grid, core_map = worker_grid(chip, mesh)
    places = [physical_core(core_map, core) for core in np.ndindex(*grid)]
    assert sorted(places) == list(np.ndindex(int(np.prod(mesh)), *chip))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40)), min_size=1, max_size=4))
def test_given_any_shard_then_the_map_of_memory_counts_its_elements(pairs: list) -> None:
    shard, index = [p[0] for p in pairs], [p[1] for p in pairs]
    core, offset = l1_location(shard, index)
    assert core == tuple(i // s for i, s in pairs_of(index, shard))
    assert offset == np.ravel_multi_index([i % s for i, s in pairs_of(index, shard)], shard)


def pairs_of(index: list[int], shard: list[int]) -> list[tuple[int, int]]:
    """Return the index and extent of each dimension."""
    return list(zip(index, shard, strict=True))


def test_the_map_of_memory_is_written_as_in_the_compiler() -> None:
    text = "(d0, d1)[s0, s1] -> (0, d0 floordiv s0, d1 floordiv s1, (d0 mod s0) * s1 + d1 mod s1)"
    assert str(l1_map()) == text
    assert str(l1_map().with_symbols((2, 3))) == (
        "(d0, d1) -> (0, d0 floordiv 2, d1 floordiv 3, (d0 mod 2) * 3 + d1 mod 3)"
    )


@pytest.mark.parametrize(
    ("text", "core", "message"),
    [
        ("(d0, d1) -> (0, d1 floordiv 8, d1 mod 8)", (0, 64), "core .0, 64. is not inside the grid .1, 64."),
        ("(d0, d1) -> (0, d1, d0)", (0, 9), "core .9, 0. is not inside the grid .8, 8."),
        ("(d0, d1) -> (d1, d0 - 1)", (0, 1), "core .1, -1. is not inside"),
        ("(d0, d1) -> (0, d1, d0, d0)", (0, 1), "expected a grid map to a chip, a row and a column"),
        ("(d0, d1) -> (0, d1 - 9, d0)", (0, 1), "expected a grid map to a chip, a row and a column"),
    ],
)
def test_cores_outside_are_refused(text: str, core: tuple, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        virtual_core(parse_affine_map(text), core, (1, 64), (8, 8))


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


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.sampled_from([4, 8, 32])
)
def test_given_a_sweep_of_grids_and_tiles_then_tilizing_only_pads(
    h: int, w: int, y: int, x: int, t: int
) -> None:
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


def test_a_wide_virtual_grid_fills_the_chip() -> None:
    wide = parse_affine_map("(d0, d1) -> (0, d0 * 8 + d1 floordiv 8, d1 mod 8)")
    assert placed_grid((1, 64), wide, (8, 8)) == [(0, y, x) for y in range(8) for x in range(8)]
    staircase = parse_affine_map("(d0, d1) -> (0, d0, (d0 + d1) mod 8)")
    assert placed_grid((8, 8), staircase, (8, 8))[9:11] == [(0, 1, 2), (0, 1, 3)]
    with pytest.raises(LayoutError, match=r"puts cores \[0, 0\] and \[0, 1\] at one place, \[0, 0, 0\]"):
        placed_grid((2, 2), parse_affine_map("(d0, d1) -> (0, d0, 0)"), (8, 8))
    with pytest.raises(LayoutError, match="has 65 cores, 1 chips"):
        placed_grid((1, 65), wide, (8, 8))


def test_buffers_are_no_views_of_the_array() -> None:
    layout = MetalLayout.of((4, 4), "f32", tile=None)
    array = np.ones((4, 4))
    packed = layout.pack(array)
    back = layout.unpack(packed)
    packed[:] = 2
    assert array.sum() == back.sum() == 16


def test_a_tensor_of_more_dimensions_than_arrays_have_is_refused() -> None:
    with pytest.raises(LayoutError, match="at most 64 dimensions, got 65"):
        MetalLayout.of((1,) * 65, "f32")
