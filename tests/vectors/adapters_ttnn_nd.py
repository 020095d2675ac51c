"""Adapters for ttnn's ND sharding: ranks, pages on cores, buffer sizes, conversion, chosen shard shapes."""

from typing import Any

import numpy as np

from tapestry.hardware.layouts import ttnn
from tests.vectors.adapters_ttnn import banks_of, cores_of, page_of, ranges
from tests.vectors.runner import Adapter, Values

METHODS = {
    "shardedacrossdims": ttnn.sharded_across_dims,
    "shardedacrossdimsexcept": ttnn.sharded_across_dims_except,
    "heightsharded": ttnn.height_sharded,
    "widthsharded": ttnn.width_sharded,
    "blocksharded": ttnn.block_sharded,
    "height": ttnn.height_sharded,
    "width": ttnn.width_sharded,
    "block": ttnn.block_sharded,
}


def either(v: Values, *names: str) -> Any:
    """Return the first of several spellings of an input that a case has; None if it has none."""
    return next((v[name] for name in names if v.get(name) is not None), None)


def orientation_of(v: Values) -> ttnn.ShardOrientation:
    return ttnn.ShardOrientation.named(v.get("orientation") or "ROW_MAJOR")


def strategy_of(v: Values) -> ttnn.ShardDistributionStrategy:
    found = either(v, "shard_distribution_strategy", "distribution", "distribution_strategy")
    return ttnn.ShardDistributionStrategy.named(found or "ROUND_ROBIN_1D")


def nd_spec(v: Values) -> ttnn.TensorSpec:
    shard = tuple(either(v, "shard_shape_nd", "nd_shard_shape", "shard_shape"))
    memory = ttnn.MemoryConfig(
        buffer=ttnn.BufferType.named(v.get("buffer_type") or "L1"),
        nd_shard=ttnn.NdShardSpec(shard, cores_of(v), orientation_of(v), strategy_of(v)),
    )
    layout = ttnn.TensorLayout(ttnn.dtype_named(v.get("dtype") or "uint16"), page_of(v), memory)
    return ttnn.TensorSpec(tuple(either(v, "shape", "tensor_shape")), layout)


def in_pages(v: Values) -> ttnn.Distribution:
    tensor = either(v, "tensor_shape_pages", "shape_in_pages", "tensor_shape", "shape")
    shard = either(v, "shard_shape_pages", "shard_shape_in_pages", "shard_shape")
    return ttnn.Distribution.of_pages(tensor, shard, cores_of(v), orientation_of(v), strategy_of(v))


def squeezed(v: Values, _: Values) -> Values:
    found = in_pages(v)
    names = ("tensor_shape_pages", "shard_shape_pages", "tensor_shape", "shard_shape")
    return dict(zip(names, (found.tensor, found.shard) * 2, strict=True))


def core_info(v: Values, _: Values) -> Values:
    found, groups = in_pages(v), in_pages(v).core_groups()
    return {
        "max_num_shards_per_core": found.most_shards_per_core,
        "num_shards_per_core": found.shards_per_core,
        "num_shards": found.shard_count,
        "num_cores": len(found.cores),
        "cores_with_data": ranges(groups.cores_with_data),
        "cores_in_group_1": ranges(groups.group_1),
        "cores_in_group_2": ranges(groups.group_2),
        "num_shards_per_core_in_group_1": groups.shards_in_group_1,
        "num_shards_per_core_in_group_2": groups.shards_in_group_2,
    }


def page_mapping(v: Values, _: Values) -> Values:
    found = in_pages(v)
    return {
        "cores": [[core.x, core.y] for core in found.cores],
        "core_host_page_indices": found.page_mapping().tolist(),
    }


def buffer_size(v: Values, _: Values) -> Values:
    spec = nd_spec({"layout": "TILE", "dtype": "uint8", **v})
    per_bank = spec.layout.bytes_per_bank(spec.shape, *banks_of(v, spec.layout.memory.buffer))
    return {
        "buffer_size": spec.layout.packed_bytes(spec.shape),
        "num_pages": spec.layout.page_count(spec.shape),
        "num_dev_pages": spec.distribution.device_page_count,
        "aligned_size_per_bank": per_bank,
        "bytes_per_bank": per_bank,
        "page_size": spec.layout.page_bytes(spec.shape),
    }


def nd_to_legacy(v: Values, _: Values) -> Values:
    spec = nd_spec(v)
    found = ttnn.legacy_of_nd(spec) or spec.layout.memory
    shape = found.shard and found.shard.shape
    return {"memory_layout": found.layout.name, "shard_shape_2d": shape, "shard_shape": shape}


def legacy_to_nd(v: Values, _: Values) -> Values:
    shard = either(v, "shard_shape_2d", "shard_shape")
    kind = ttnn.MemoryLayout.named(either(v, "memory_layout", "strategy"))
    legacy = shard and ttnn.ShardSpec(cores_of({"grid": [7, 7], **v}), tuple(shard), orientation_of(v))
    memory = ttnn.MemoryConfig(kind, ttnn.BufferType.L1, legacy)
    layout = ttnn.TensorLayout(ttnn.dtype_named(v.get("dtype") or "uint16"), page_of(v), memory)
    found = ttnn.nd_of_legacy(ttnn.TensorSpec(tuple(v["shape"]), layout))
    shape = found and found.shape
    strategy = found and found.distribution.name
    return {
        "shard_shape_nd": shape,
        "nd_shard_shape": shape,
        "shard_shape": shape,
        "shard_distribution_strategy": strategy,
    }


def auto_shard_shape(v: Values, _: Values) -> Values:
    layout = ttnn.TensorLayout(ttnn.dtype_named(v.get("dtype") or "float32"), page_of(v))
    spec = ttnn.TensorSpec(tuple(either(v, "shape", "tensor_shape")), layout)
    method = METHODS[either(v, "method", "strategy").replace("_", "").lower()]
    dims = [v["dims"]] if method in (ttnn.sharded_across_dims, ttnn.sharded_across_dims_except) else []
    found = method(spec, *dims, cores_of({"grid": [4, 4], **v}), orientation_of(v)).layout.memory.nd_shard
    return {"shard_shape": found.shape, "strategy": found.distribution.name}


def sizes(v: Values, _: Values) -> Values:
    spec = nd_spec(v)
    return {
        "padded_shape": spec.padded_shape,
        "physical_shape": spec.physical_size,
        "alignment": spec.layout.alignment,
        "num_shards": spec.distribution.shard_count,
    }


def round_trip(v: Values, _: Values) -> Values:
    layout = ttnn.TtnnLayout(nd_spec(v))
    values = np.arange(layout.element_count).reshape(layout.shape)
    return {"roundtrip": bool((layout.unpack(layout.pack(values)) == values).all())}


TTNN_ND: dict[str, Adapter] = {
    "nd_squeeze_rank": squeezed,
    "nd_squeeze": squeezed,
    "nd_rank_squeeze": squeezed,
    "nd_core_info": core_info,
    "nd_page_mapping": page_mapping,
    "nd_buffer_size": buffer_size,
    "nd_to_legacy": nd_to_legacy,
    "legacy_to_nd": legacy_to_nd,
    "nd_from_legacy": legacy_to_nd,
    "nd_legacy_to_nd": legacy_to_nd,
    "nd_tensor_layout": sizes,
    "nd_loopback": round_trip,
    "nd_roundtrip": round_trip,
    "auto_shard_shape": auto_shard_shape,
    "nd_auto_shard_shape": auto_shard_shape,
}
