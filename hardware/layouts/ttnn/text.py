"""The text of a ttnn layout, as ttnn prints a TensorSpec. Omitted fields have ttnn's defaults.

`TensorSpec(logical_shape=Shape([14, 28]),tensor_layout=TensorLayout(dtype=DataType::BFLOAT16,page_config=...` -
JSON is read for an ND shard spec, as ttnn prints that. A tile may name its faces: `face_shape={32, 32}` has none.

The short form of ttnn's constructor is read too: `ttnn.TensorSpec(shape=[14, 28], dtype=ttnn.bfloat16,
layout=ttnn.TILE_LAYOUT, tile=[16, 32], memory_config=MemoryConfig(...))`. A shape alone,
such as `ttnn.Shape([14[32], 28[32]])`, is taken as it is padded.
"""

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.alignment import layout_of_padded
from tapestry.hardware.layouts.ttnn.cores import Core, CoreRange, CoreRangeSet
from tapestry.hardware.layouts.ttnn.dtypes import DataType, dtype_named
from tapestry.hardware.layouts.ttnn.fields import Fields, numbers, pair, word
from tapestry.hardware.layouts.ttnn.grammar import CallText, Items, TextSpan, ValueText, read, refuse
from tapestry.hardware.layouts.ttnn.layout import TtnnLayout
from tapestry.hardware.layouts.ttnn.memory import DRAM_MEMORY_CONFIG, MemoryConfig, NdShardSpec, ShardSpec
from tapestry.hardware.layouts.ttnn.pages import PageConfig
from tapestry.hardware.layouts.ttnn.shape import Shape
from tapestry.hardware.layouts.ttnn.spec import TensorSpec
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import DEFAULT_TILE, TtnnTile
from tapestry.hardware.layouts.ttnn.words import (
    BufferType,
    MemoryLayout,
    PageLayout,
    ShardDistributionStrategy,
    ShardMode,
    ShardOrientation,
)

SHAPES = ("Shape(", "ttnn.Shape(")
PREFIXES = ("TensorSpec(", "ttnn.TensorSpec(", *SHAPES)
DEFAULT_DTYPE = "bfloat16"


def recognizes(text: str) -> bool:
    """Return whether a text begins like a tensor spec, or a shape with its padding."""
    return text.lstrip().startswith(PREFIXES)


def parse(text: str, dtype: str | None = None) -> TtnnLayout:
    """Parse a printed TensorSpec to its layout; `dtype` is used where the text names none (default bfloat16).

    Raises:
        LayoutError: with the position and what was expected, or in ttnn's words for an impossible combination.
    """
    if text.lstrip().startswith(SHAPES):
        return _of_shape(Shape.parse(text), dtype or DEFAULT_DTYPE)
    fields = Fields.of(read(text), "TensorSpec")
    short = fields.take("shape")
    if short is not None:
        spec = TensorSpec(numbers(short, "Shape"), _short_layout(fields, dtype or DEFAULT_DTYPE))
    else:
        shape = numbers(fields.need("logical_shape"), "Shape")
        spec = TensorSpec(shape, tensor_layout(fields.need("tensor_layout"), dtype or DEFAULT_DTYPE))
    fields.done()
    return TtnnLayout(spec)


def _of_shape(shape: Shape, dtype: str) -> TtnnLayout:
    """Build the layout of a shape alone: in tiles if it is padded to whole ones, else row-major.

    Block floats are stored in tiles only, so they take tiles without padding too.
    """
    kind = dtype_named(dtype)
    edges = zip(reversed(shape.storage), reversed(DEFAULT_TILE.shape), strict=False)
    is_padded = shape.padded is not None or kind.block_float
    in_tiles = is_padded and all(not size % edge for size, edge in edges)
    page = PageConfig(PageLayout.TILE if in_tiles else PageLayout.ROW_MAJOR)
    layout = layout_of_padded(kind, page, DRAM_MEMORY_CONFIG, shape.dims, shape.storage)
    return TtnnLayout(TensorSpec(shape.dims, layout))


def _short_layout(fields: Fields, dtype: str) -> TensorLayout:
    named, tile = fields.take("dtype"), fields.take("tile")
    memory = fields.take("memory_config")
    return TensorLayout(
        dtype_named(dtype) if named is None else _dtype(named),
        PageConfig(
            fields.word_of(PageLayout, "layout", PageLayout.TILE),
            DEFAULT_TILE if tile is None else TtnnTile.of(pair(tile)),
        ),
        DRAM_MEMORY_CONFIG if memory is None else memory_config(memory),
    )


def parse_memory_config(text: str) -> MemoryConfig:
    """Parse a memory config; `LayoutError` gives the position."""
    return memory_config(read(text))


def tensor_layout(value: ValueText, dtype: str) -> TensorLayout:
    """Build a TensorLayout from a parsed value."""
    fields = Fields.of(value, "TensorLayout")
    named = fields.take("dtype")
    page = fields.take("page_config")
    memory = fields.take("memory_config")
    alignment = fields.take("alignment")
    fields.done()
    return TensorLayout(
        dtype_named(dtype) if named is None else _dtype(named),
        PageConfig(PageLayout.TILE) if page is None else page_config(page),
        DRAM_MEMORY_CONFIG if memory is None else memory_config(memory),
        () if alignment is None else numbers(alignment, "Alignment"),
    )


def _dtype(value: ValueText) -> DataType:
    try:
        return dtype_named(word(value))
    except LayoutError as error:
        raise LayoutError(f"at character {value.at}: {error}") from error


def page_config(value: ValueText) -> PageConfig:
    """Build a PageConfig from a parsed value."""
    fields = Fields.of(value, "PageConfig")
    config = fields.need("config")
    fields.done()
    if not isinstance(config, CallText) or config.name not in ("TilePageConfig", "RowMajorPageConfig"):
        refuse(config.at, "TilePageConfig(...) or RowMajorPageConfig(...)")
    inner = Fields(config)
    given = inner.take("tile")
    inner.done()
    tile = DEFAULT_TILE if given is None else _tile(given)
    return PageConfig(PageLayout.TILE if config.name == "TilePageConfig" else PageLayout.ROW_MAJOR, tile)


def _tile(value: ValueText) -> TtnnTile:
    fields = Fields.of(value, "Tile")
    shape = pair(fields.need("tile_shape"))
    face = fields.take("face_shape")
    count = fields.take("num_faces")
    fields.done()
    if face is None:
        return TtnnTile.of(shape)
    tile = TtnnTile(shape, pair(face))
    if tile.face != tile.shape and tile != TtnnTile.of(shape):
        refuse(
            face.at,
            f"the faces of a tile {list(shape)}: {list(TtnnTile.of(shape).face)}, or {list(shape)} for none",
        )
    if count is not None and word(count) != str(tile.face_count):
        refuse(count.at, f"num_faces={tile.face_count}")
    return tile


def memory_config(value: ValueText) -> MemoryConfig:
    """Build a MemoryConfig from a parsed value; of two shard specs keep the one the config was created with."""
    fields = Fields.of(value, "MemoryConfig")
    layout = fields.word_of(MemoryLayout, "memory_layout", MemoryLayout.INTERLEAVED)
    buffer = fields.word_of(BufferType, "buffer_type", BufferType.DRAM)
    legacy, nd = fields.take("shard_spec"), fields.take("nd_shard_spec")
    made_with = fields.take("created_with_nd_shard_spec")
    fields.done()
    if nd is not None and (legacy is None or (made_with is not None and word(made_with) in ("1", "true"))):
        return MemoryConfig(MemoryLayout.ND_SHARDED, buffer, nd_shard=_nd_shard_spec(nd))
    return MemoryConfig(layout, buffer, None if legacy is None else _shard_spec(legacy))


def _shard_spec(value: ValueText) -> ShardSpec:
    fields = Fields.of(value, "ShardSpec")
    grid = _core_ranges(fields.need("grid"))
    shape = pair(fields.need("shape"))
    orientation = fields.word_of(ShardOrientation, "orientation", ShardOrientation.ROW_MAJOR)
    mode = fields.word_of(ShardMode, "mode", ShardMode.PHYSICAL)
    physical = fields.take("physical_shard_shape")
    fields.take("halo")
    fields.done()
    return ShardSpec(grid, shape, orientation, mode, None if physical is None else pair(physical))


def _nd_shard_spec(value: ValueText) -> NdShardSpec:
    fields = Fields.of(value, "NdShardSpec")
    shape = numbers(fields.need("shard_shape"), "Shape")
    grid = _core_ranges(fields.need("grid"))
    orientation = fields.word_of(ShardOrientation, "orientation", ShardOrientation.ROW_MAJOR)
    kind = ShardDistributionStrategy
    strategy = fields.word_of(kind, "shard_distribution_strategy", kind.ROUND_ROBIN_1D)
    fields.done()
    return NdShardSpec(shape, grid, orientation, strategy)


def _core_ranges(value: ValueText) -> CoreRangeSet:
    if not isinstance(value, Items):
        refuse(value.at, "core ranges like {[(x=0,y=0) - (x=7,y=3)]}")
    return CoreRangeSet(tuple(map(_core_range, value.items)))


def _core_range(value: ValueText) -> CoreRange:
    if isinstance(value, Items) and len(value.items) == 1 and isinstance(value.items[0], TextSpan):
        return CoreRange(_core(value.items[0].first), _core(value.items[0].last))
    if not isinstance(value, CallText):
        refuse(value.at, "a core range like [(x=0,y=0) - (x=7,y=3)]")
    fields = Fields.of(value, "CoreRange")
    corners = (_core(fields.need("start")), _core(fields.need("end")))
    fields.done()
    return CoreRange(*corners)


def _core(value: ValueText) -> Core:
    fields = Fields.of(value, "CoreCoord")
    x, y = (fields.number(axis) for axis in ("x", "y"))
    fields.done()
    return Core(x, y)
