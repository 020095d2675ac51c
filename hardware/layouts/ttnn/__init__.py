"""ttnn tensors: shapes with padding, row-major and tile layouts, memory configs, sharding over cores."""

from tapestry.hardware.layouts.notation import Notation
from tapestry.hardware.layouts.ttnn.alignment import layout_of_padded
from tapestry.hardware.layouts.ttnn.compiler import StridedShards, strides_of_map
from tapestry.hardware.layouts.ttnn.conversion import (
    block_sharded,
    height_sharded,
    legacy_of_nd,
    nd_of_legacy,
    sharded,
    sharded_across_dims,
    sharded_across_dims_except,
    width_sharded,
)
from tapestry.hardware.layouts.ttnn.cores import Core, CoreGrid, CoreRange, CoreRangeSet, first_cores
from tapestry.hardware.layouts.ttnn.distribution import CoreGroups, Distribution, squeeze_ranks
from tapestry.hardware.layouts.ttnn.dtypes import DTYPES, DataType, dtype_named
from tapestry.hardware.layouts.ttnn.encoding import decode, encode
from tapestry.hardware.layouts.ttnn.examples import EXAMPLES
from tapestry.hardware.layouts.ttnn.layout import TtnnLayout, row_major, tiled
from tapestry.hardware.layouts.ttnn.memory import (
    DRAM_MEMORY_CONFIG,
    MemoryConfig,
    NdShardSpec,
    ShardSpec,
)
from tapestry.hardware.layouts.ttnn.pages import PageConfig, aligned_page_bytes, bank_of_page
from tapestry.hardware.layouts.ttnn.shape import Shape, to_2d
from tapestry.hardware.layouts.ttnn.sharded_config import (
    create_padded_sharded_memory_config,
    create_sharded_memory_config,
)
from tapestry.hardware.layouts.ttnn.spec import TensorSpec
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.text import parse, parse_memory_config, recognizes
from tapestry.hardware.layouts.ttnn.tile import TtnnTile
from tapestry.hardware.layouts.ttnn.words import (
    BufferType,
    MemoryLayout,
    PageLayout,
    ShardDistributionStrategy,
    ShardMode,
    ShardOrientation,
)

NOTATION = Notation(
    name="ttnn",
    title="ttnn tensor spec",
    recognizes=recognizes,
    parse=parse,
    examples=EXAMPLES,
    shown="ttnn.TensorSpec(shape=[14, 28], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)",
    fragments=(
        (
            r"(ttnn\.)?(TILE|ROW_MAJOR)_LAYOUT",
            "the layout of pages, without a tensor; write ttnn.TensorSpec(shape=[14, 28], layout=ttnn.TILE_LAYOUT)",
        ),
        (
            r"(ttnn\.)?(DRAM|L1)_MEMORY_CONFIG",
            "a memory config, without a tensor; write ttnn.TensorSpec(shape=[14, 28], "
            "memory_config=ttnn.L1_MEMORY_CONFIG)",
        ),
        (
            rf"(ttnn\.)?({'|'.join(dtype.name.lower() for dtype in DTYPES)})",
            "a data type; write ttnn.TensorSpec(shape=[32, 32], dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT)",
        ),
        (
            r"(ttnn\.)?((OWNED|BORROWED)_HOST|DEVICE)_STORAGE",
            "a kind of storage, which has no layout; write ttnn.TensorSpec(shape=[14, 28], layout=ttnn.TILE_LAYOUT)",
        ),
    ),
)

__all__ = [
    "DRAM_MEMORY_CONFIG",
    "DTYPES",
    "NOTATION",
    "BufferType",
    "Core",
    "CoreGrid",
    "CoreGroups",
    "CoreRange",
    "CoreRangeSet",
    "DataType",
    "Distribution",
    "MemoryConfig",
    "MemoryLayout",
    "NdShardSpec",
    "PageConfig",
    "PageLayout",
    "Shape",
    "ShardDistributionStrategy",
    "ShardMode",
    "ShardOrientation",
    "ShardSpec",
    "StridedShards",
    "TensorLayout",
    "TensorSpec",
    "TtnnLayout",
    "TtnnTile",
    "aligned_page_bytes",
    "bank_of_page",
    "block_sharded",
    "create_padded_sharded_memory_config",
    "create_sharded_memory_config",
    "decode",
    "dtype_named",
    "encode",
    "first_cores",
    "height_sharded",
    "layout_of_padded",
    "legacy_of_nd",
    "nd_of_legacy",
    "parse",
    "parse_memory_config",
    "recognizes",
    "row_major",
    "sharded",
    "sharded_across_dims",
    "sharded_across_dims_except",
    "squeeze_ranks",
    "strides_of_map",
    "tiled",
    "to_2d",
    "width_sharded",
]
