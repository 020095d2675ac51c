"""Adapters for ttnn: shapes, tensor layouts, sharding, memory configs."""

import math
from typing import Any

import numpy as np

from tapestry.hardware.layouts import LayoutError, ttnn
from tapestry.hardware.layouts.ttnn.words import MemoryLayout
from tests.vectors.runner import Adapter, Values

TEST_GRID = ttnn.CoreGrid(8, 7)
"""The grid tt-metal's tests take their cores from."""


def shape_of(v: Values, key: str = "shape") -> tuple[int, ...]:
    return tuple(v[key])


def page_of(v: Values) -> ttnn.PageConfig:
    tile = v.get("tile")
    layout = ttnn.PageLayout.named(v.get("layout") or ("TILE" if tile else "ROW_MAJOR"))
    return ttnn.PageConfig(layout, ttnn.TtnnTile.of(tuple(tile)) if tile else ttnn.TtnnTile())


def grid_of(found: Any) -> Any:
    """Parse a core grid in any of the forms cases use; other values are passed on, for the product to refuse."""
    if isinstance(found, dict) and {"x", "y"} <= found.keys():
        return ttnn.CoreGrid(found["x"], found["y"])
    if found == "CoreRangeSet":
        return TEST_GRID.cores
    if isinstance(found, list) and found and all(isinstance(part, list) for part in found):
        corners = [[ttnn.Core(*corner) for corner in part] for part in found]
        return ttnn.CoreRangeSet(tuple(ttnn.CoreRange(*part) for part in corners))
    if isinstance(found, list) and len(found) == 2 and all(isinstance(part, int) for part in found):
        return ttnn.CoreGrid(*found)
    return tuple(map(grid_of, found)) if isinstance(found, list) else found


def cores_of(v: Values) -> ttnn.CoreRangeSet:
    """Return the cores of a case: a number of them, a grid, ranges; the test grid if it names none."""
    if v.get("num_cores"):
        order = v.get("row_wise", True)
        return ttnn.first_cores(v["num_cores"], grid_of(v.get("grid_size")) or TEST_GRID, row_wise=order)
    names = ("core_grid", "core_grid_xy", "grid_size", "grid", "core_ranges", "cores")
    found = grid_of(next((v[name] for name in names if v.get(name)), None)) or TEST_GRID
    return found.cores if isinstance(found, ttnn.CoreGrid) else found


def shard_spec_of(v: Values) -> ttnn.ShardSpec | None:
    shape = v.get("logical_shard_shape") or v.get("shard_shape")
    physical = v.get("physical_shard_shape")
    return shape and ttnn.ShardSpec(
        cores_of(v),
        tuple(shape),
        ttnn.ShardOrientation.named(v.get("orientation") or "ROW_MAJOR"),
        ttnn.ShardMode.named(v.get("shard_mode") or "PHYSICAL"),
        physical and tuple(physical),
    )


def layout_of(v: Values) -> ttnn.TensorLayout:
    config = v.get("memory_config") or "DRAM interleaved"
    if isinstance(config, dict):
        v, config = {**v, **config}, f"{config.get('buffer_type') or 'DRAM'} interleaved"
    buffer, _, spread = config.partition(" ")
    memory_layout = MemoryLayout.named(v.get("memory_layout") or v.get("strategy") or spread)
    memory = ttnn.MemoryConfig(memory_layout, ttnn.BufferType.named(buffer), shard_spec_of(v))
    dtype = ttnn.dtype_named(v.get("dtype") or "bfloat16")
    if v.get("padded_shape"):
        return ttnn.layout_of_padded(dtype, page_of(v), memory, shape_of(v), shape_of(v, "padded_shape"))
    return ttnn.TensorLayout(dtype, page_of(v), memory, tuple(v.get("alignment") or ()))


def tensor_layout(v: Values, _: Values) -> Values:
    layout, shape = layout_of(v), shape_of(v)
    return {
        "physical_size": layout.physical_size(shape),
        "physical_shape": layout.physical_size(shape),
        "alignment": layout.alignment,
        "strides": layout.strides(shape),
        "padded_shape": layout.padded_shape(shape),
        "page_shape": layout.page_shape(shape),
        "page_size_bytes": layout.page_bytes(shape),
        "buffer_size_bytes": layout.packed_bytes(shape),
        "bytes_per_bank": layout.bytes_per_bank(shape, *banks_of(v, layout.memory.buffer)),
    }


def banks_of(v: Values, buffer: ttnn.BufferType) -> tuple[int, int]:
    """Return alignment and number of banks: tt-metal's tests take Wormhole's (L1 of 64 cores, 12 DRAM banks)."""
    alignment, count = (16, 64) if buffer is ttnn.BufferType.L1 else (32, 12)
    return v.get("page_alignment", alignment), v.get("num_banks", count)


def shape_index(v: Values, _: Values) -> Values:
    return {"value": ttnn.Shape(shape_of(v))[v["index"]]}


def shape_print(v: Values, _: Values) -> Values:
    shape = ttnn.Shape.documented(v["shape"], v["padded"])
    padded = shape.with_tile_padding()
    return {
        "print": str(shape),
        "with_tile_padding_print": str(padded),
        "volume_padded": shape.volume,
        "volume": math.prod(shape.dims),
    }


def shape_rank(v: Values, _: Values) -> Values:
    def refused(rank: int) -> bool:
        try:
            ttnn.Shape.documented((1,) * rank)
        except LayoutError:
            return True
        return False

    return {"reject": [rank for rank in range(v["min"] - 1, v["max"] + 2) if refused(rank)]}


def shard_spec(v: Values, _: Values) -> Values:
    ttnn.TensorSpec(shape_of(v), layout_of(v))
    return {"ok": True}


def sharded_memory_config(v: Values, _: Values) -> Values:
    create = (
        ttnn.create_padded_sharded_memory_config if "tile_layout" in v else ttnn.create_sharded_memory_config
    )
    options = {"tile_layout": v["tile_layout"]} if "tile_layout" in v else {}
    config = create(
        v.get("shape", [32, 32]),
        grid_of(v.get("core_grid", {"x": 1, "y": 1})),
        v.get("strategy", "BLOCK"),
        v.get("orientation"),
        use_height_and_width_as_shard_shape=v.get("use_height_and_width_as_shard_shape", False),
        **options,
    )
    spec = config.shard
    return {
        "shard_shape": spec.shape,
        "memory_layout": config.layout.name,
        "buffer_type": config.buffer.name,
        "orientation": spec.orientation.name,
        "core_ranges": ranges(spec.grid),
    }


def ranges(cores: ttnn.CoreRangeSet) -> list[Any]:
    return [[[r.start.x, r.start.y], [r.end.x, r.end.y]] for r in cores.ranges]


def required_width_multiple(v: Values, _: Values) -> Values:
    return {"multiple": ttnn.dtype_named(v["dtype"]).width_multiple}


def shard_tiles(v: Values, _: Values) -> Values:
    layout = layout_of({"tile": [32, 32], **v})
    distribution = ttnn.TensorSpec(shape_of(v), layout).distribution
    pages = zip(distribution.cores, distribution.page_mapping().tolist(), strict=True)
    held = {f"{core.x},{core.y}": [page for page in slots if page >= 0] for core, slots in pages}
    return {"core_xy_to_host_tiles": {core: slots for core, slots in held.items() if slots}}


def tile_layout_order(v: Values, _: Values) -> Values:
    tile = tuple(v["tile"])
    faced = v.get("face") or v.get("face_shape") or v["tile"]
    page = ttnn.PageConfig(ttnn.PageLayout.TILE, ttnn.TtnnTile(tile, tuple(faced)))
    layout = ttnn.TtnnLayout(
        ttnn.TensorSpec(shape_of(v), ttnn.TensorLayout(ttnn.dtype_named("float32"), page))
    )
    order = layout.pack(np.arange(layout.element_count).reshape(layout.shape), fill=-1)
    return {"buffer_to_rowmajor_index": order.reshape(-1).tolist()}


def logical_to_physical(v: Values, _: Values) -> Values:
    layout = layout_of({"memory_layout": "HEIGHT", "shard_mode": "LOGICAL", **v})
    logical = np.arange(math.prod(v["shape"])).reshape(v["shape"])
    physical = ttnn.encode(layout, logical, v.get("pad_value", 0))
    return {
        "physical_shard_shape": layout.physical_shard,
        "physical_shape": layout.physical_size(v["shape"]),
        "physical_data_rowmajor": physical.tolist(),
        "roundtrip": bool((ttnn.decode(layout, v["shape"], physical) == logical).all()),
    }


def grid_shape(v: Values, _: Values) -> Values:
    tile = tuple(v.get("tile") or v.get("tile_shape") or (1, 1))
    shards = ttnn.StridedShards(shape_of(v), shape_of(v, "stride"), tuple(v["shard_shape"]), tile)
    return {
        "grid_shape_intended": shards.grid_shape,
        "grid_shape_literal_seed_formula": shards.documented_grid_shape,
        "physical_shape": shards.matrix,
        "physical_shard_shape": shards.physical_shard,
    }


TTNN: dict[str, Adapter] = {
    "shape_index": shape_index,
    "shape_print": shape_print,
    "shape_rank": shape_rank,
    "to_2d": lambda v, _: {"shape_2d": ttnn.to_2d(v["shape"])},
    "tensor_layout": tensor_layout,
    "padded_shape": tensor_layout,
    "sharded_physical_shape": tensor_layout,
    "page_size": tensor_layout,
    "buffer_size": tensor_layout,
    "consumed_memory_bytes_per_bank": tensor_layout,
    "required_width_multiple": required_width_multiple,
    "create_sharded_memory_config": sharded_memory_config,
    "create_sharded_memory_config_error": sharded_memory_config,
    "shard_spec_error": shard_spec,
    "shard_tiles": shard_tiles,
    "tile_layout_order": tile_layout_order,
    "logical_to_physical": logical_to_physical,
    "ttnn_grid_shape": grid_shape,
}
