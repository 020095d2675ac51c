"""Tests of descriptions of layouts: every text that the projects' own documents print is read, or named."""

from __future__ import annotations

import pytest

from tapestry.service.layouts import LayoutFaults, describe, draw, read_layout

L1 = "#tt.memory_space<l1>"

# What the documents of tt-mlir (tensor-layout.md), XLA (tiled_layout), CuTe (0z_tma_tensors.md) and ttnn (tensor.rst)
# print: the text, the shape, the bytes.
STORED = (
    (
        f"tensor<2x3x64x128xf32,\n  #tt.metal_layout<\n    (d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3),\n"
        f"    undef,\n    <1x1>,\n    memref<384x128xf32, {L1}>\n  >\n>",
        [2, 3, 64, 128], 196608,
    ),
    (
        "tensor<2x3x64x128xf32, #tt.metal_layout<(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3), undef, <2x4>, "
        f"memref<192x32xf32, {L1}>>>",
        [2, 3, 64, 128], 196608,
    ),
    (
        f"tensor<8x300xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <1x2>, memref<8x150xf32, {L1}>>>",
        [8, 300], 9600,
    ),
    (
        "tensor<8x96x32xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 96 + d1, d2), undef, <2x1>, "
        f"memref<384x32xf32, {L1}>>>",
        [8, 96, 32], 98304,
    ),
    (
        "tensor<8x96x32xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 96 + d1, d1, d2), undef, <2x1x2>, "
        f"memref<384x96x16xf32, {L1}>>>",
        [8, 96, 32], 9437184,
    ),
    (
        "tensor<5x3x2x2x7x32x32xf32, #tt.metal_layout<(d0, d1, d2, d3, d4, d5, d6) -> (d0 * 2688 + d1 * 896 + "
        "d2 * 448 + d3 * 224 + d4 * 32 + d5, d4, d5, d6), undef, <3x2x2x2>, "
        f"memref<4480x4x16x16xf32, {L1}>>>",
        [5, 3, 2, 2, 7, 32, 32], 440401920,
    ),
    (
        "tensor<3x64x128xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 64 + d1, d2), undef, <3x2>, "
        f"memref<64x64xf32, {L1}>>>",
        [3, 64, 128], 98304,
    ),
    (
        "tensor<3x64x128xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 64 + d1, d2), undef, <3x2>, "
        f"memref<2x2x!tt.tile<32 x 32, bfp_bf8>, {L1}>>>",
        [3, 64, 128], 6 * 4 * 1088,
    ),
    (
        f"tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, memref<18x32xf32, {L1}>>>",
        [53, 63], 13824,
    ),
    (
        "tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
        f"memref<1x1x!tt.tile<32 x 32, bfp_bf8>, {L1}>>>",
        [53, 63], 6 * 1088,
    ),
    (
        "tensor<2x8x32xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 8 + d1, d2), undef, <1x2>, "
        f"memref<16x16xf32, {L1}>>>",
        [2, 8, 32], 2048,
    ),
    (
        "tensor<2x3x64x128xf32, #tt.metal_layout<(d0, d1, d2, d3) -> (d0, d1 * 64 + d2, d3), undef, <2x2x4>, "
        f"memref<1x3x1x!tt.tile<32 x 32, bfp_bf8>, {L1}>>>",
        [2, 3, 64, 128], 16 * 3 * 1088,
    ),
    (f"memref<384x128xf32, {L1}>", [384, 128], 196608),
    (f"memref<2x2x!tt.tile<32 x 32, bfp_bf8>, {L1}>", [64, 64], 4 * 1088),
    (f"memref<1x3x1x!tt.tile<32 x 32, bfp_bf8>, {L1}>", [1, 96, 32], 3 * 1088),
    ("!tt.tile<32 x 32, bfp_bf8>", [32, 32], 1088),
    ("!ttcore.tile<32x32, bfp8_b>", [32, 32], 1088),
    ("1x2x!tt.tile<32x32, bfp4_b>", [32, 64], 2 * (512 + 64)),
    ("F32[3,5]{1,0:T(2,2)}", [3, 5], 96),
    ("F32[2,7,8,11,10]{4,3,2,1,0}", [2, 7, 8, 11, 10], 49280),
    ("F32[112,110]{1,0}", [112, 110], 49280),
    ("F32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}", [2, 7, 8, 11, 10], 112 * 111 * 4),
    ("ttnn.Shape([16, 32])", [16, 32], 1024),
    ("ttnn.Shape([14, 28], [32, 32])", [14, 28], 2048),
    ("ttnn.Shape([14[32], 28[32]])", [14, 28], 2048),
    ("ttnn.Shape([32, 32])", [32, 32], 2048),
    ("ttnn.TensorSpec(shape=[32, 32], dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT)", [32, 32], 1088),
    ("ttnn.TensorSpec(shape=[32, 32], dtype=bfp4_b, layout=ttnn.TILE_LAYOUT)", [32, 32], 576),
)  # fmt: skip

PRINTED = """counting_iter(42) o (4,5):(_1,4):
   42   46   50   54   58
   43   47   51   55   59
   44   48   52   56   60
   45   49   53   57   61
"""
COORDINATES = """ArithTuple(0,0) o (4,5):(_1@1,_1@0):
  (0,0)  (1,0)  (2,0)  (3,0)  (4,0)
  (0,1)  (1,1)  (2,1)  (3,1)  (4,1)
  (0,2)  (1,2)  (2,2)  (3,2)  (4,2)
  (0,3)  (1,3)  (2,3)  (3,3)  (4,3)"""
REVERSED = """Tensor b = make_tensor(make_inttuple_iter(0,0),
                       make_shape (     4,      5),
                       make_stride(E<1>{}, E<0>{}));
print_tensor(b);"""

# The same for tensors and tilers that compute their elements: the text, the shape, coordinates and the element there.
COMPUTED = (
    (
        "ArithTuple(0,_0,_0,_0) o ((_128,_64),2,3,1):((_1@0,_1@1),_64@1,_1@2,_1@3)",
        (130, 1, 2, 0),
        "(2,65,2,0)",
    ),
    ("counting_iter(42) o (4,5):(_1,4)", (1, 2), "51"),
    (PRINTED, (3, 4), "61"),
    ("ArithTuple(0,0) o (4,5):(_1@0,_1@1):", (1, 2), "(1,2)"),
    (COORDINATES, (1, 2), "(2,1)"),
    ("(4,5):(_1@1,_1@0)", (1, 2), "(2,1)"),
    ("Tensor A = make_tensor(counting_iterator<int>(42), make_shape(4,5));\nprint_tensor(A);", (3, 4), "61"),
    (REVERSED, (1, 2), "(2,1)"),
    ("make_tile(Layout<_8>{}, Layout<_16,_2>{})", (3, 5), "(3,10)"),
    ("make_tile(_8{}, make_layout(16))", (3, 5), "(3,5)"),
    ("(_8:_1,_16:_2)", (3, 5), "(3,10)"),
    ("((_4,_2):(_1,_8),_16:_1)", (5, 0), "(9,0)"),
)


@pytest.mark.parametrize(("text", "shape", "size_bytes"), STORED)
def test_every_layout_in_memory_that_the_documents_print_is_described(
    text: str, shape: list[int], size_bytes: int
) -> None:
    layout = read_layout(text)
    document = describe(layout, at=[0] * len(shape), offset=0)
    assert (document["shape"], document["size_bytes"], document["value"]) == (shape, size_bytes, None)
    assert document["element"]["offset"] == 0
    assert read_layout(document["text"]) == layout


@pytest.mark.parametrize(("text", "at", "value"), COMPUTED)
def test_every_tensor_and_tiler_that_computes_its_elements_is_described(
    text: str, at: tuple[int, ...], value: str
) -> None:
    layout = read_layout(text)
    document = describe(layout, at=at)
    assert (document["value"], document["element"]) == (value, None)
    assert (document["buffer_count"], document["size_bytes"], document["padding_bytes"]) == (0, 0, 0)
    assert read_layout(document["text"]) == layout
    with pytest.raises(LayoutFaults, match="stores none, so there is nothing to draw"):
        draw(layout)
    with pytest.raises(LayoutFaults, match="not inside the storage of 0 elements"):
        describe(layout, offset=0)
    with pytest.raises(LayoutFaults, match="not inside the shape"):
        describe(layout, at=layout.shape)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(42,7,_9)", "a tuple of integers .*, not a layout; write shape:stride"),
        ("1@1@0", r"a basis element \(one stride\), not a layout"),
        ("5@1", r"a basis element \(one stride\), not a layout"),
        ("E<0,1>{}", "a basis element"),
        ("ArithTuple(0,0)", r"an iterator without a layout, not a layout; write ArithTuple\(0,0\) o"),
        ("make_inttuple_iter(42, Int<2>{}, Int<7>{})", "an iterator without a layout"),
        ("(8,128)(2,1)", r"a row of tiles, without the array .* write bf16\[16,256\]"),
        ("{1,0:T(2,2)}", r"the layout of an array without its type and shape; write f32\[3,5\]"),
        ("tensor<2x3x64x128xf32>", "a tensor's type without a layout"),
        ("(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3)", "an affine map, one field of a metal_layout"),
        ("1x1x!tt.tile<32x32>", "a tile without a data type"),
        ("2x!tt.tile<32x32, bfp_bf8>", "at least 2 extents before a tile"),
        ("bfp_bf8", "a data type; write a tile of it"),
        ("ttnn.TILE_LAYOUT", r"the layout of pages, without a tensor; write ttnn.TensorSpec\("),
        ("ttnn.DRAM_MEMORY_CONFIG", "a memory config, without a tensor"),
        ("ttnn.bfloat8_b", "a data type; write ttnn.TensorSpec"),
        ("OWNED_HOST_STORAGE", "a kind of storage, which has no layout"),
    ],
)
def test_a_part_of_a_layout_is_named_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(LayoutFaults, match=message):
        read_layout(text)


def test_elements_below_a_tensor_are_compared_with_those_that_it_computes() -> None:
    with pytest.raises(LayoutFaults, match=r"at character 33: expected the elements of counting_iter\(42\)"):
        read_layout(PRINTED.replace("61", "62"))


def test_a_shape_of_whole_tiles_holds_block_floats_in_tiles() -> None:
    assert read_layout("ttnn.Shape([14[32], 28[32]])", "bfloat8_b").size_bytes == 1088
    assert read_layout("ttnn.Shape([32, 32])", "bfloat4_b").size_bytes == 576
    with pytest.raises(LayoutFaults, match="Only TILE layout is supported for BFLOAT8_B"):
        read_layout("ttnn.Shape([16, 32])", "bfloat8_b")
