"""Example texts of ttnn layouts, one for every way to order, pad and distribute a tensor."""


def _tiles(shape: str, face: str, count: int) -> str:
    return f"TilePageConfig(tile=Tile(tile_shape={shape},face_shape={face},num_faces={count}))"


def _spec(shape: str, dtype: str, page: str, memory: str, alignment: str) -> str:
    return (
        f"TensorSpec(logical_shape=Shape({shape}),tensor_layout=TensorLayout(dtype=DataType::{dtype},"
        f"page_config=PageConfig(config={page}),memory_config=MemoryConfig({memory}),"
        f"alignment=Alignment({alignment})))"
    )


def _shards(strategy: str, corner: str, shape: str, orientation: str, mode: str) -> str:
    return (
        f"memory_layout=TensorMemoryLayout::{strategy}_SHARDED,buffer_type=BufferType::L1,"
        f"shard_spec=ShardSpec(grid={{[(x=0,y=0) - {corner}]}},shape={shape},"
        f"orientation=ShardOrientation::{orientation},mode=ShardMode::{mode}),{_NO_ND}"
    )


_ROWS = _tiles("{32, 32}", "{16, 16}", 4).replace("Tile", "RowMajor", 1)
_TILES = _tiles("{32, 32}", "{16, 16}", 4)
_NO_ND = "nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0"
_DRAM = f"memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::DRAM,shard_spec=std::nullopt,{_NO_ND}"
_PHYSICAL = "PHYSICAL,physical_shard_shape=std::nullopt"
_LOGICAL = "LOGICAL,physical_shard_shape={5, 7}"
_ND = (
    "memory_layout=TensorMemoryLayout::ND_SHARDED,buffer_type=BufferType::L1,shard_spec=std::nullopt,"
    'nd_shard_spec={"shard_shape":[2, 32, 64],"grid":[{"start":{"x":0,"y":0},"end":{"x":1,"y":1}}],'
    '"orientation":"ShardOrientation::ROW_MAJOR",'
    '"shard_distribution_strategy":"ShardDistributionStrategy::ROUND_ROBIN_1D"},created_with_nd_shard_spec=1'
)

EXAMPLES: tuple[str, ...] = (
    _spec("[14, 28]", "BFLOAT16", _TILES, _DRAM, "[32, 32]"),
    _spec("[5, 4, 3, 2]", "FLOAT32", _ROWS, _DRAM, "[1]"),
    _spec("[4, 4]", "FLOAT32", _tiles("{2, 2}", "{2, 2}", 1), _DRAM, "[2, 2]"),
    _spec("[1, 20, 40]", "BFLOAT8_B", _tiles("{16, 32}", "{16, 16}", 2), _DRAM, "[16, 32]"),
    _spec(
        "[128, 128]",
        "BFLOAT16",
        _TILES,
        _shards("BLOCK", "(x=1,y=1)", "{64, 64}", "COL_MAJOR", _PHYSICAL),
        "[32, 32]",
    ),
    _spec(
        "[100, 64]",
        "BFLOAT16",
        _TILES,
        _shards("HEIGHT", "(x=2,y=0)", "{64, 64}", "ROW_MAJOR", _PHYSICAL),
        "[32, 32]",
    ),
    _spec(
        "[2, 3, 20]", "UINT16", _ROWS, _shards("WIDTH", "(x=3,y=0)", "{6, 6}", "ROW_MAJOR", _PHYSICAL), "[6]"
    ),
    _spec(
        "[1, 2, 10, 10]",
        "UINT32",
        _ROWS,
        _shards("BLOCK", "(x=2,y=6)", "{3, 4}", "ROW_MAJOR", _LOGICAL),
        "[5, 7]",
    ),
    _spec("[3, 40, 70]", "BFLOAT16", _TILES, _ND, "[32, 32]"),
)
