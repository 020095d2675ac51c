"""The tiled layouts of XLA: shapes and layouts in XLA's text, tiles, sizes, the TPU's default formats."""

from tapestry.hardware.layouts.notation import Notation
from tapestry.hardware.layouts.xla.defaults import ONE_BIT_TILES, default_tiles, default_tpu_tiles
from tapestry.hardware.layouts.xla.fields import (
    IGNORABLE,
    LayoutFields,
    SplitConfig,
    ascending,
    descending,
    equal,
    logical_to_physical,
    move_dim_to_major,
)
from tapestry.hardware.layouts.xla.layout import XlaLayout, parse
from tapestry.hardware.layouts.xla.primitives import PRIMITIVES, Primitive, primitive_named
from tapestry.hardware.layouts.xla.shape import ArrayShape, TupleShape, with_default_layout
from tapestry.hardware.layouts.xla.sizes import (
    array_data_size,
    array_size,
    byte_strides,
    byte_strides_is_major_to_minor,
    linear_index_of_first_tile,
    max_elements_in_per_split,
    max_split_size,
)
from tapestry.hardware.layouts.xla.text import parse_layout_fields, parse_shape, recognizes
from tapestry.hardware.layouts.xla.tile import COMBINE, Tile, starred, tile_of, tile_text
from tapestry.hardware.layouts.xla.tiling import (
    TileStep,
    linear_index,
    linear_index_with_tiles,
    tile_step,
    tile_steps,
)
from tapestry.hardware.layouts.xla.validation import validate, validate_for

NOTATION = Notation(
    name="xla",
    title="XLA's tiled layout",
    recognizes=recognizes,
    parse=parse,
    examples=(
        "f32[3,5]{1,0:T(2,2)}",
        "bf16[33,300]{1,0:T(8,128)(2,1)}",
        "f32[2,7,8,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
        "f32[10,300]{0,1:T(8,128)}",
        "f32[100]{0:T(8,128)}",
        "bf16[]{:T(256)}",
        "bf16[700]{0:T(1024)(128)(2,1)}",
        "f32[8,8]{1,0:T(2,4)(2,1,1,1)}",
        "s4[30,70]{1,0:T(8,32)(8,1)L(1000)E(4)S(1)}",
        "f32[7,9]{0,1:T(4)SC(0:3)}",
        "pred[2,<=3,4]{2,0,1}",
    ),
    fragments=(
        (
            r"T(\([\d,* ]+\))+|(\([\d,* ]+\)){2,}",
            "a row of tiles, without the array that they cut; write bf16[16,256]{1,0:T(8,128)(2,1)}",
        ),
        (
            r"\{\d[\d,]*(:T(\([\d,* ]+\))+)?\}",
            "the layout of an array without its type and shape; write f32[3,5]{1,0:T(2,2)}",
        ),
    ),
)

__all__ = [
    "COMBINE",
    "IGNORABLE",
    "NOTATION",
    "ONE_BIT_TILES",
    "PRIMITIVES",
    "ArrayShape",
    "LayoutFields",
    "Primitive",
    "SplitConfig",
    "Tile",
    "TileStep",
    "TupleShape",
    "XlaLayout",
    "array_data_size",
    "array_size",
    "ascending",
    "byte_strides",
    "byte_strides_is_major_to_minor",
    "default_tiles",
    "default_tpu_tiles",
    "descending",
    "equal",
    "linear_index",
    "linear_index_of_first_tile",
    "linear_index_with_tiles",
    "logical_to_physical",
    "max_elements_in_per_split",
    "max_split_size",
    "move_dim_to_major",
    "parse",
    "parse_layout_fields",
    "parse_shape",
    "primitive_named",
    "recognizes",
    "starred",
    "tile_of",
    "tile_step",
    "tile_steps",
    "tile_text",
    "validate",
    "validate_for",
    "with_default_layout",
]
