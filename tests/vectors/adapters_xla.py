"""Adapters for XLA's tiled layouts: tiles, indices, texts, sizes, validation."""

from typing import Any

import numpy as np

from hardware.layouts import xla
from hardware.layouts.layout import every_coordinate
from tests.vectors.runner import Adapter, Values


def tile_of(sizes: list[Any]) -> xla.Tile:
    return tuple(xla.COMBINE if size == "*" else size for size in sizes)


def tiles_of(v: Values) -> tuple[xla.Tile, ...]:
    return tuple(map(tile_of, v.get("tiles") or ([v["tile"]] if v.get("tile") else [])))


def written(tile: xla.Tile) -> list[Any]:
    return ["*" if size == xla.COMBINE else size for size in tile]


def levels_of(v: Values) -> tuple[xla.DimLevel, ...]:
    count = max(len(v.get(name) or []) for name in ("dim_level_types", "dim_unique", "dim_ordered"))
    columns = [
        (v.get(name) or [default] * count)
        for name, default in (("dim_level_types", "dense"), ("dim_unique", True), ("dim_ordered", True))
    ]
    return tuple(xla.DimLevel(*row) for row in zip(*columns, strict=True))


NUMBERS = {
    "tail_padding_alignment_in_elements": 1,
    "element_size_in_bits": 0,
    "memory_space": 0,
    "dynamic_shape_metadata_prefix_bytes": 0,
    "index_primitive_type": "",
    "pointer_primitive_type": "",
    "physical_shape": "",
}


def fields_of(v: Values) -> xla.XlaFields:
    splits = tuple(
        xla.SplitConfig(s["dimension"], tuple(s["split_indices"])) for s in v.get("split_configs") or []
    )
    rest: dict[str, Any] = {name: v[name] for name in NUMBERS if v.get(name)}
    order = v.get("minor_to_major")
    order = tuple(reversed(range(len(v["shape"])))) if order is None else tuple(order)
    return xla.XlaFields(order, levels_of(v), tiles_of(v), split_configs=splits, **rest)


def layout_of(v: Values) -> xla.XlaLayout:
    fields = fields_of(v)
    dtype = v.get("dtype", "f32")
    return xla.XlaLayout(
        tuple(v["shape"]), fields.element_size_in_bits or xla.TYPE_BITS[dtype], dtype, fields
    )


def linear_index_with_tile(v: Values, _: Values) -> Values:
    steps = xla.cuts(tuple(v["d"]), tiles_of(v))
    index = [np.array(e) for e in v["e"]]
    after = [
        {"bounds": step.result, "index": [int(e) for e in xla.tiled_index(index, steps[: k + 1])]}
        for k, step in enumerate(steps)
    ]
    final = after[-1]
    names = dict(zip(("after_first_tile", "after_second_tile", "after_third_tile"), after, strict=False))
    return names | {
        "index": xla.linear_index(final["index"], final["bounds"]),
        "final_bounds": final["bounds"],
        "final_index": final["index"],
        "combined_bounds": final["bounds"],
        "combined_index": final["index"],
        "combined_index2d": [int(e) for e in xla.joined_index(index, steps[0])],
    }


def tiled_bounds(v: Values, _: Values) -> Values:
    results = [step.result for step in xla.cuts(tuple(v["d"]), tiles_of(v))]
    names = ("after_first", "after_second", "after_third")
    return dict(zip(names, results, strict=False)) | {"final_bounds": results[-1]}


def full_index_map(v: Values, _: Values) -> Values:
    layout = layout_of(v)
    coords = every_coordinate(layout.shape)
    places = zip(coords.tolist(), layout.offsets(coords).tolist(), strict=True)
    return {
        "map": {",".join(map(str, at)): offset for at, offset in places},
        "final_bounds": layout.physical_shape,
        "buffer_elements": layout.buffer_elements,
    }


def combine_dims(v: Values, _: Values) -> Values:
    step = layout_of(v).steps[0]
    return {"combined_shape": step.combined, "effective_tile": step.tile, "final_bounds": step.result}


def default_tpu_tile(v: Values, _: Values) -> Values:
    bits = v.get("element_size_in_bits") or v.get("bits") or xla.TYPE_BITS[v["dtype"]]
    return {"tiles": xla.matrix_tiles(bits, v["second_minor_size"], packed_booleans=bits == 1)}


def layoututil_linear_index(v: Values, _: Values) -> Values:
    layout = layout_of(v)
    index = [v["index"][d] for d in reversed(layout.fields.minor_to_major)]
    return {"index": xla.first_tile_index(index, layout.physical_dims, layout.fields.tiles)}


def byte_size(v: Values, _: Values) -> Values:
    layout = layout_of(v)
    return {"bytes": layout.array_size_bytes, "data_bytes": layout.array_data_size_bytes}


def layout_to_string(v: Values, _: Values) -> Values:
    fields = fields_of(v)
    text = str(fields)
    return {"string": text, "roundtrip_parse": xla.parse_fields(text) == fields}


def tile_to_string(v: Values, _: Values) -> Values:
    return {"string": xla.tile_text(tile_of(v["tile"]))}


def shape_to_string(v: Values, _: Values) -> Values:
    layout = layout_of(v)
    return {"string": str(layout), "roundtrip_parse": xla.parse_xla_layout(str(layout)) == layout}


def shape_parse(v: Values, _: Values) -> Values:
    dtype, shape, fields = xla.parse_shape(v["string"])
    numbers = {name: getattr(fields, name) for name in NUMBERS}
    tiles = list(map(written, fields.tiles))
    return numbers | {
        "dtype": dtype,
        "shape": shape,
        "minor_to_major": fields.minor_to_major,
        "tiles": tiles,
        "string": str(xla.parse_xla_layout(v["string"])),
    }


def move_dim_to_major(v: Values, _: Values) -> Values:
    moved = xla.with_dim_major(xla.XlaFields(tuple(v["minor_to_major"])), v["dim"])
    return {"minor_to_major": moved.minor_to_major}


def validate_layout(v: Values, _: Values) -> Values:
    xla.check_for_shape(fields_of(v), v["shape"])
    return {"valid": True, "ok": True, "error": False}


def byte_strides(v: Values, _: Values) -> Values:
    return {"byte_strides": xla.byte_strides(v["dtype"], v["shape"], fields_of(v))}


def strides_major_to_minor(v: Values, _: Values) -> Values:
    return {"result": xla.is_major_to_minor(v["byte_strides"], v["shape"], v["dtype"])}


def layout_equal(v: Values, _: Values) -> Values:
    options = v.get("options") or [name for name, on in v.items() if name not in "ab" and on]
    return {"equal": xla.equal(fields_of(v["a"]), fields_of(v["b"]), options)}


def pad_reshape_transpose(v: Values, _: Values) -> Values:
    return xla.pad_reshape_transpose(tuple(v["shape"]), tile_of(v["tile"]))._asdict()


XLA: dict[str, Adapter] = {
    "linear_index_with_tile": linear_index_with_tile,
    "tiled_bounds": tiled_bounds,
    "full_index_map": full_index_map,
    "combine_dims": combine_dims,
    "default_tpu_tile": default_tpu_tile,
    "xla_layoututil_linear_index": layoututil_linear_index,
    "byte_size": byte_size,
    "layout_to_string": layout_to_string,
    "tile_to_string": tile_to_string,
    "shape_to_string": shape_to_string,
    "shape_parse": shape_parse,
    "make_descending_layout": lambda v, _: {"minor_to_major": xla.descending(v["rank"]).minor_to_major},
    "make_ascending_layout": lambda v, _: {"minor_to_major": xla.ascending(v["rank"]).minor_to_major},
    "move_dim_to_major": move_dim_to_major,
    "validate_layout": validate_layout,
    "byte_strides": byte_strides,
    "byte_strides_is_major_to_minor": strides_major_to_minor,
    "layout_equal": layout_equal,
    "pad_reshape_transpose": pad_reshape_transpose,
}
