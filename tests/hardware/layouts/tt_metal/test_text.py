"""Tests of the texts of tt-metal's attributes: every spelling is read, errors are refused with their position."""

import pytest

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.tt_metal import (
    MetalAttribute,
    MetalLayout,
    collapsed_map,
    parse_metal_attribute,
    parse_metal_layout,
)
from tapestry.hardware.layouts.tt_metal.element import scalar, tile
from tapestry.hardware.layouts.tt_metal.printing import printed_aligned_attribute, printed_attribute

PLAIN = (
    "tensor<3x64x128xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 64 + d1, d2), undef, <3x2>, "
    "memref<64x64xf32, #tt.memory_space<l1>>>>"
)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("#tt.", "#ttcore."),
        PLAIN.replace("metal_layout", "layout"),
        PLAIN.replace("#tt.memory_space<l1>", "#l1_"),
        PLAIN.replace(", <3x2>", ", #tt.grid<3x2>"),
        PLAIN.replace("3x64x128xf32, ", "3 x 64 x 128 x f32,\n  // the layout\n  ").replace(" -> ", "->"),
        "#l1 = #tt.memory_space<l1>\n#layout = #tt.metal_layout<(d0, d1, d2) -> (d0 * 64 + d1, d2), undef, <3x2>, "
        "memref<64x64xf32, #l1>>\ntensor<3x64x128xf32, #layout>",
    ],
)
def test_every_spelling_is_the_same_layout(text: str) -> None:
    assert parse_metal_layout(text) == parse_metal_layout(PLAIN) == MetalLayout.of(
        (3, 64, 128), "f32", grid=(3, 2), tile=None
    )  # fmt: skip
    assert str(parse_metal_layout(text)) in (PLAIN, PLAIN.replace("#tt.", "#ttcore."))


@pytest.mark.parametrize(
    "text",
    [
        "#tt.metal_layout<(d0) -> (0, d0), neginf, <1x4>, memref<1x1x!tt.tile<32x32, bfp_bf8>, "
        "#tt.memory_space<dram>>>",
        "#tt.metal_layout<(d0, d1) -> (d0, d1), undef, <1x1>, memref<64x128xf32, #tt.memory_space<l1>>, interleaved>",
        "#tt.metal_layout<(d0, d1) -> (d0, d1), undef, <1x8, (d0, d1) -> (0, d0, d1)>, memref<4x2xi8, "
        "#tt.memory_space<mmio>>>",
        "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, "
        "<interleaved>>",
        "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x1>, memref<1x4xbf16, #ttnn.buffer_type<l1>>, <height_sharded>, "
        "core_ranges = <[#ttnn.core_range<(0, 0), (0, 7)>]>>",
        "#ttcore.metal_layout<logical_shape = 32, dim_alignments = 32, collapsed_intervals = dense<[[0, 1]]> : "
        "tensor<1x2xi64>, l1, sharded>",
        "#ttcore.metal_layout<logical_shape = 8x8, dim_alignments = 1x1, collapsed_intervals = dense<> : "
        "tensor<0x2xi64>, zero, dram, interleaved, index_map = map(4)>",
        "#ttcore.metal_layout<logical_shape = 8x8, dim_alignments = 1x1, collapsed_intervals = dense<1> : "
        "tensor<1x2xi64>, l1, sharded, index_map = (d0, d1) -> (d1, d0)>",
    ],
)  # fmt: skip
def test_attributes_print_what_was_read(text: str) -> None:
    attribute = parse_metal_attribute(text)
    printed = printed_attribute if isinstance(attribute, MetalAttribute) else printed_aligned_attribute
    assert printed(attribute) == text and parse_metal_attribute(printed(attribute)) == attribute


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "undef",
            "nan",
            "at character 74: expected an out-of-bounds value of undef, zero, one, inf, neginf, not 'nan",
        ),
        (
            "#tt.memory_space<l1>",
            "#tt.memory_space<l2>",
            "expected a memory space of system, mmio, dram, l1, dst",
        ),
        ("<3x2>", "<3x>", "expected '>', not 'x>"),
        (
            "<3x2>",
            "<3x2x1>",
            "number of results of the affine map must match exactly the rank of the grid shape",
        ),
        ("<3x2>", "<0x2>", "expected positive grid dimensions, not 0x2"),
        ("64x64xf32", "64xf32", "the memref must have a shape with rank equal to grid"),
        ("64x64xf32", "63x64xf32", "memref 63x64 is smaller than the shard.*expected a memref of 64x64"),
        ("64x64xf32", "64x64xf31", "expected an element type of f64, .*not 'f31'"),
        ("64x64xf32", "64x64x!ttx.tile<32x32, f32>", "expected '!tt.tile' or '!ttcore.tile', not '!ttx"),
        ("64x64xf32", "2x2x!tt.tile<32x32x1, f32>", "expected 2D shape of a tile"),
        ("64x64xf32", "2x2x!tt.tile<16x32, bfp_bf4>", "a tile of bfp_bf4 is 32x32, not 16x32"),
        ("64x64xf32", "2x2x!tt.tile<0x32, f32>", "expected positive extents of a tile, not 0x32"),
        ("(d0, d1, d2)", "(d0, d1, d2, d3)", "number of dims in the affine map must match exactly the rank"),
        ("d1, d2),", "d1, 0),", "Dim does not participate in AffineMap RHS: d2"),
        ("#tt.metal_layout", "#tt.metal", "at character 21: expected one of #tt.metal_layout"),
        ("3x64x128xf32", "4000000000x4000000000x4000000000xf32", "is smaller than the shard"),
    ],
)
def test_bad_texts_are_refused_with_what_was_expected(old: str, new: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        parse_metal_layout(PLAIN.replace(old, new, 1))


@pytest.mark.parametrize("cut", range(0, len(PLAIN), 7))
def test_a_text_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(LayoutError, match=r"at character \d+: expected .*, not "):
        parse_metal_layout(PLAIN[:cut])


def test_storage_that_64_bits_cannot_number_is_refused() -> None:
    huge = PLAIN.replace("64x64xf32", "4000000000x4000000000xf32")
    with pytest.raises(LayoutError, match="passes 2\\^63 - 1 elements"):
        parse_metal_layout(huge)


def test_an_attribute_alone_is_no_layout() -> None:
    with pytest.raises(LayoutError, match="does not name the tensor's shape"):
        parse_metal_layout(PLAIN[len("tensor<3x64x128xf32, ") : -1])


def test_rederivations_follow_the_compiler() -> None:
    first = MetalLayout.of((2, 3, 64, 128), "f32", grid=(2, 4), tile=None).attribute
    tiled = first.with_element(tile("bfp_bf8"))
    assert (tiled.memref_shape, tiled.shard_stride_bytes, tiled.memref_size_bytes) == (
        (6, 1),
        (1088, 1088),
        6528,
    )
    assert first.with_grid((2, 3, 64, 128), (3, 2)).memref_shape == (128, 64)
    assert first.with_grid((2, 3, 64, 128), (2, 2, 4), ((1, -1),)).memref_shape == (1, 96, 32)
    assert first.with_memory_space("dram").memory_space == "dram"
    assert tiled.with_shard_shape((40, 33)).memref_shape == (2, 2)
    odd = MetalLayout.of((53, 63), "f32", grid=(3, 2), tile=None).attribute
    assert odd.with_element(tile("f32")).with_element(scalar("f32")).memref_shape == (32, 32)
    with pytest.raises(LayoutError, match="rank equal to grid"):
        first.with_shard_shape((1, 2, 3))


@pytest.mark.parametrize(
    ("shape", "grid_rank", "intervals", "message"),
    [
        ((2, 3), 1, ((0, 3),), "collapse interval .0, 3. is outside the dimensions of rank 2"),
        ((2, 3, 4), 2, ((-4, 2),), "collapse interval .-4, 2. is outside"),
        ((2, 3, 4), 1, ((0, 2), (1, 3)), "overlap at dimension 1"),
        ((2, 3, 4), 1, ((0, -1),), "d2 is in no result; use a grid of rank 2"),
    ],
)
def test_bad_intervals_are_refused(shape: tuple, grid_rank: int, intervals: tuple, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        collapsed_map(shape, grid_rank, intervals)


DOCUMENT = """tensor<2x3x64x128xf32,
  #tt.metal_layout<(d0, d1, d2, d3) -> (d0, d1 * 64 + d2, d3),
    undef,
    <2x2x4>,
    memref<1x3x1x!tt.tile<32 x 32, bfp_bf8>, #tt.memory_space<l1>>
  >
>
"""


def test_the_documents_own_text_is_read_as_it_stands() -> None:
    layout = parse_metal_layout(DOCUMENT)
    assert (layout.buffer_count, layout.physical_shape, layout.size_bytes) == (16, (2, 192, 128), 48 * 1088)
    assert layout == MetalLayout.of((2, 3, 64, 128), "bfp_bf8", ((1, -1),), (2, 2, 4))
    assert (layout.offset_of((1, 1, 6, 100)), layout.coords_of(48 * 1024 - 1)) == (
        (1 * 8 + 0 * 4 + 3) * 3072 + 2 * 1024 + 6 * 32 + 4, (1, 2, 63, 127),
    )  # fmt: skip
