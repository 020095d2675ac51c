"""XLA's tiled layouts: `f32[3,5]{1,0:T(2,2)}` read, printed, indexed, packed."""

from hardware.layouts.notation import Notation
from hardware.layouts.xla.choice import default_tiles, matrix_tiles, vector_tiles
from hardware.layouts.xla.fields import (
    DimLevel,
    SplitConfig,
    XlaFields,
    ascending,
    check_for_shape,
    descending,
    equal,
    with_dim_major,
)
from hardware.layouts.xla.layout import XlaLayout, parse_xla_layout
from hardware.layouts.xla.parsing import parse_fields, parse_shape, parse_tile
from hardware.layouts.xla.strides import byte_strides, is_major_to_minor, pad_reshape_transpose
from hardware.layouts.xla.tiling import (
    COMBINE,
    Tile,
    cut,
    cuts,
    final_bounds,
    first_tile_index,
    joined_index,
    linear_index,
    tile_text,
    tiled_index,
)
from hardware.layouts.xla.types import TYPE_BITS

NOTATION = Notation(
    name="xla",
    title="XLA's tiled layout",
    recognises=lambda text: text.lstrip().partition("[")[0].rstrip().lower() in TYPE_BITS,
    parse=lambda text, _: parse_xla_layout(text),
    examples=(
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[16,256]{1,0:T(8,128)(2,1)}",
        "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
        "s8[3,10,300]{0,2,1:T(8,128)(4,1)}",
        "f32[8,8]{1,0:T(2,4)(2,1,1,1)}",
        "f32[100]{0:T(8,128)}",
        "bf16[]{:T(256)}",
        "s4[5,7]{1,0:L(100)E(4)}",
        "pred[40,130]{1,0:T(32,128)(32,1)E(1)}",
    ),
)

__all__ = [
    "COMBINE",
    "NOTATION",
    "TYPE_BITS",
    "DimLevel",
    "SplitConfig",
    "Tile",
    "XlaFields",
    "XlaLayout",
    "ascending",
    "byte_strides",
    "check_for_shape",
    "cut",
    "cuts",
    "default_tiles",
    "descending",
    "equal",
    "final_bounds",
    "first_tile_index",
    "is_major_to_minor",
    "joined_index",
    "linear_index",
    "matrix_tiles",
    "pad_reshape_transpose",
    "parse_fields",
    "parse_shape",
    "parse_tile",
    "parse_xla_layout",
    "tile_text",
    "tiled_index",
    "vector_tiles",
    "with_dim_major",
]
