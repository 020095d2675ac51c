"""Layouts of each notation with their slots as formulas of row and column, written from the notations' own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Formula = Callable[[Any, Any], Any]


class LayoutExample(NamedTuple):
    """A text, its element type where the text has none, and the offset of the element in a row and a column."""

    text: str
    dtype: str
    offset: Formula


# XLA: tiles of 2 x 2, three to a row of tiles.
TILED = LayoutExample(
    "f32[3,5]{1,0:T(2,2)}", "", lambda r, c: ((r // 2) * 3 + c // 2) * 4 + (r % 2) * 2 + c % 2
)
# CuTe: columns 2k and 2k + 1 are in the same slots, for their stride is zero.
BROADCAST = LayoutExample("(4,(2,3)):(2,(0,8))", "bf16", lambda r, c: 2 * r + 8 * (c // 2))
# ttnn: one tile of 32 x 32 in four faces of 16 x 16.
FACES = LayoutExample(
    "TensorSpec(logical_shape=Shape([14, 28]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,"
    "page_config=PageConfig(config=TilePageConfig(tile=Tile(tile_shape={32, 32},face_shape={16, 16},num_faces=4))),"
    "memory_config=MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,"
    "shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0),alignment=Alignment([32, 32])))",
    "",
    lambda r, c: ((r // 16) * 2 + c // 16) * 256 + (r % 16) * 16 + c % 16,
)
# tt-metal: 3 x 2 cores with 18 rows and 32 columns each, in buffers of 32 x 32.
CORES = LayoutExample(
    "tensor<53x63xf32, #tt.metal_layout<(d0, d1) -> (d0, d1), undef, <3x2>, "
    "memref<1x1x!tt.tile<32x32, bf16>, #tt.memory_space<l1>>>>",
    "",
    lambda r, c: ((r // 18) * 2 + c // 32) * 1024 + (r % 18) * 32 + c % 32,
)
EXAMPLES = (TILED, BROADCAST, FACES, CORES)
