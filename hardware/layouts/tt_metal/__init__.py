"""tt-metal's tensor layouts, `tensor<2x3x64x128xf32, #tt.metal_layout<...>>`, their shards and tiles."""

from tapestry.hardware.layouts.notation import Notation
from tapestry.hardware.layouts.tt_metal.affine import AffineMap, parse_affine_map
from tapestry.hardware.layouts.tt_metal.aligned import AlignedAttribute
from tapestry.hardware.layouts.tt_metal.aligned_layout import AlignedMetalLayout
from tapestry.hardware.layouts.tt_metal.attribute import MetalAttribute
from tapestry.hardware.layouts.tt_metal.collapse import collapse_groups, collapsed_map
from tapestry.hardware.layouts.tt_metal.element import TILE_BITS, MetalElement
from tapestry.hardware.layouts.tt_metal.layout import MetalLayout
from tapestry.hardware.layouts.tt_metal.memref import is_shard, parse_shard
from tapestry.hardware.layouts.tt_metal.parsing import parse_metal_attribute, parse_metal_layout
from tapestry.hardware.layouts.tt_metal.ttnn_attribute import ttnn_attribute

EXAMPLES = (
    "tensor<2x3x64x128xf32, #tt.metal_layout<(d0, d1, d2, d3) -> (d0 * 192 + d1 * 64 + d2, d3), undef, <2x4>, "
    "memref<192x32xf32, #tt.memory_space<l1>>>>",
    "tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
    "memref<1x1x!tt.tile<32x32, bf16>, #tt.memory_space<l1>>>>",
    "tensor<2x8x32xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 32 + d1, d2), zero, <1x2>, "
    "memref<2x1x!tt.tile<32x32, f32>, #tt.memory_space<dram>>>>",
    "tensor<2x3x64x128xf32, #ttcore.metal_layout<(d0, d1, d2, d3) -> (d0, d1 * 64 + d2, d3), undef, <2x2x4>, "
    "memref<1x3x1x!ttcore.tile<32x32, bfp_bf8>, #ttcore.memory_space<l1>>>>",
    "tensor<8x96x32xf32, #tt.metal_layout<(d0, d1, d2) -> (d0 * 96 + d1, d1, d2), neginf, <2x1x2>, "
    "memref<384x96x16xf32, #tt.memory_space<l1>>>>",
    "tensor<1x1x2x1x!ttcore.tile<32x32, f32>, #ttcore.metal_layout<logical_shape = 2x4x16, dim_alignments = 1x32x32, "
    "collapsed_intervals = dense<[[0, 2], [2, 3]]> : tensor<2x2xi64>, l1, sharded>>",
)

NOTATION = Notation(
    name="tt_metal",
    title="tt-metal's metal_layout",
    recognizes=lambda text: (
        text.lstrip().startswith(("tensor", "#tt.", "#ttcore.", "#ttnn.")) or is_shard(text)
    ),
    parse=lambda text, _: parse_shard(text) if is_shard(text) else parse_metal_layout(text),
    examples=EXAMPLES,
    fragments=(
        (
            r"\(d0[d0-9, ]*\)\s*->\s*\([d0-9+*, ]*\),?",
            "an affine map, one field of a metal_layout; write tensor<2x4xf32, #tt.metal_layout<MAP, undef, <1x1>, "
            "memref<2x4xf32, #tt.memory_space<l1>>>>",
        ),
        (
            r"tensor<[\w ]+>",
            "a tensor's type without a layout; write its layout after a comma, as in tensor<2x4xf32, "
            "#tt.metal_layout<...>>",
        ),
        (
            r"(\d+\s*x\s*)*!tt(core)?\.tile<[\dx ]+>",
            "a tile without a data type; write one after its extents, as in !tt.tile<32x32, bfp_bf8>",
        ),
        (
            "|".join(TILE_BITS),
            "a data type; write a tile of it, as in !tt.tile<32x32, bfp_bf8>",
        ),
    ),
)

__all__ = [
    "NOTATION",
    "AffineMap",
    "AlignedAttribute",
    "AlignedMetalLayout",
    "MetalAttribute",
    "MetalElement",
    "MetalLayout",
    "collapse_groups",
    "collapsed_map",
    "parse_affine_map",
    "parse_metal_attribute",
    "parse_metal_layout",
    "ttnn_attribute",
]
