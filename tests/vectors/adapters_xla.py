"""Adapters for XLA's tiled layouts: shapes and layouts in text, tiles, linear indices, sizes, strides, validation."""

from tapestry.hardware.layouts import xla
from tests.vectors.runner import Adapter, Values

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
LEVELS = {"d": "dense", "c": "compressed", "s": "singleton", "h": "loose_compressed"}
NUMBERS = (
    "tail_padding_alignment_in_elements",
    "element_size_in_bits",
    "memory_space",
    "dynamic_shape_metadata_prefix_bytes",
)
TYPES = ("index_primitive_type", "pointer_primitive_type")


def level(name: str) -> str:
    short = name.lower().removeprefix("dim_")
    return LEVELS.get(short, short)


def tiles_of(v: Values) -> tuple[xla.Tile, ...]:
    given = v.get("tiles") or ([v["tile"]] if "tile" in v else [])
    return tuple(map(xla.tile_of, given))


def split_of(value: Values | list) -> xla.SplitConfig:
    dimension, indices = value.values() if isinstance(value, dict) else value
    return xla.SplitConfig(dimension, tuple(indices))


def layout_of(v: Values, rank: int = 0) -> xla.LayoutFields:
    order = v.get("minor_to_major")
    inner = v.get("physical_shape")
    return xla.LayoutFields(
        xla.descending(rank).minor_to_major if order is None else tuple(order),
        tiles_of(v),
        tuple(map(level, v.get("dim_level_types", ()))),
        tuple(v.get("dim_unique", ())),
        tuple(v.get("dim_ordered", ())),
        **{name: v[name] for name in NUMBERS if name in v},
        **{name: v[name].lower() for name in TYPES if v.get(name)},
        split_configs=tuple(map(split_of, v.get("split_configs", ()))),
        physical_shape=xla.with_default_layout(shape_of(inner)) if inner else None,
    )


def shape_of(v: Values | str) -> xla.ArrayShape | xla.TupleShape:
    """Build a shape from fields, from its text, or a tuple from its elements."""
    if isinstance(v, str):
        return xla.parse_shape(v)
    if "tuple" in v or "tuple_shapes" in v:
        return xla.TupleShape(tuple(map(shape_of, v.get("tuple") or v.get("tuple_shapes") or ())))
    dims = tuple(v["shape"] if "shape" in v else v["dimensions"])
    missing = v.get("has_layout") is False or v.get("layout", v) is None
    layout = None if missing else layout_of(v.get("layout", v), len(dims))
    return xla.ArrayShape(
        str(v.get("dtype") or v.get("element_type") or "f32").lower(),
        dims,
        layout,
        tuple(v.get("dynamic_dimensions", ())),
    )


def array_of(v: Values) -> xla.ArrayShape:
    return xla.parse_shape(v["string"]) if "string" in v else shape_of(v)


def physical(v: Values, key: str, bounds: list[int]) -> list[int]:
    order = v.get("minor_to_major") or xla.descending(len(bounds)).minor_to_major
    return [v[key][dim] for dim in reversed(order)]


def indexed(v: Values, _: Values) -> Values:
    bounds, index = physical(v, "d", v["d"]), physical(v, "e", v["d"])
    steps = xla.tile_steps(bounds, tiles_of(v))
    answer: Values = {"index": xla.linear_index_with_tiles(index, bounds, tiles_of(v))}
    for name, step in zip(ORDINALS, steps, strict=False):
        folded, index, bounds = step.fold(index), step.apply(index), step.after
        answer.setdefault("combined_index2d", folded)
        answer[f"after_{name}_tile"] = {"bounds": bounds, "index": index}
    return answer | {
        "final_bounds": bounds,
        "final_index": index,
        "combined_bounds": bounds,
        "combined_index": index,
    }


def tiled_bounds(v: Values, _: Values) -> Values:
    steps = xla.tile_steps(physical(v, "d", v["d"]), tiles_of(v))
    return {f"after_{name}": step.after for name, step in zip(ORDINALS, steps, strict=False)} | {
        "final_bounds": steps[-1].after if steps else v["d"]
    }


def full_map(v: Values, requested: Values) -> Values:
    layout = xla.XlaLayout.bind(array_of(v))
    every = [tuple(map(int, key.split(","))) if key else () for key in requested.get("map", {})]
    return {
        "map": {",".join(map(str, coords)): layout.offset_of(coords) for coords in every},
        "final_bounds": layout.tiled_shape,
        "buffer_elements": layout.buffer_elements,
        "bytes": layout.size_bytes,
    }


def combined(v: Values, _: Values) -> Values:
    (step,) = xla.tile_steps(physical(v, "shape", v["shape"]), tiles_of(v))
    return {"combined_shape": step.folded, "effective_tile": step.tile, "final_bounds": step.after}


def steps_of(v: Values, _: Values) -> Values:
    (step,) = xla.tile_steps(physical(v, "shape", v["shape"]), tiles_of(v))
    return {
        "pad": step.padded,
        "reshape": step.split,
        "transpose_perm": step.permutation,
        "final": step.after,
    }


def layout_text(v: Values, requested: Values) -> Values:
    layout = layout_of(v)
    answer: Values = {"string": str(layout)}
    if "roundtrip_parse" in requested:
        # Equal as XLA compares; the text also says what comparing leaves out.
        again = xla.parse_layout_fields(str(layout))
        answer["roundtrip_parse"] = str(again) == str(layout) and xla.equal(again, layout)
    return answer


def shape_text(v: Values, requested: Values) -> Values:
    shape = shape_of(v)
    answer: Values = {"string": str(shape)}
    if "roundtrip_parse" in requested:
        answer["roundtrip_parse"] = xla.parse_shape(str(shape)) == shape
    return answer


def parsed(v: Values, _: Values) -> Values:
    shape = xla.parse_shape(v["string"])
    if isinstance(shape, xla.TupleShape):
        return {"string": str(shape), "tuple": list(map(str, shape.elements))}
    layout = shape.layout or xla.descending(len(shape.dimensions))
    return {
        "string": str(shape),
        "dtype": shape.dtype,
        "shape": shape.dimensions,
        "dynamic_dimensions": shape.dynamic or [False] * len(shape.dimensions),
        "tiles": list(map(xla.starred, layout.tiles)),
        "tile_internal": layout.tiles,
        "dim_level_types": layout.dim_level_types,
        "split_configs": [
            {"dimension": s.dimension, "split_indices": s.indices} for s in layout.split_configs
        ],
        **{name: getattr(layout, name) for name in ("minor_to_major", *NUMBERS, *TYPES)},
    }


def parsed_layout(v: Values, _: Values) -> Values:
    layout = xla.parse_layout_fields(v["string"])
    return {"string": str(layout), "minor_to_major": layout.minor_to_major} | {
        "tiles": list(map(xla.starred, layout.tiles)),
        **{name: getattr(layout, name) for name in (*NUMBERS, *TYPES)},
    }


def compared(v: Values, _: Values) -> Values:
    given = [key for key, value in v.items() if value is True]
    for value in (v.get(key, ()) for key in ("ignore", "ignoring", "option", "options")):
        given += [value] if isinstance(value, str) else value
    names = [name.lower().replace("_", "").removeprefix("ignore") for name in given]
    known = {name.replace("_", ""): name for name in xla.IGNORABLE} | {"elementsize": "element_size_in_bits"}
    ignoring = xla.IGNORABLE if "minortomajoronly" in names else [known[name] for name in names]
    return {"equal": xla.equal(layout_of(v["a"]), layout_of(v["b"]), ignoring)}


def bare(v: Values) -> bool:
    """Return whether a case's shape says nothing of a layout."""
    return not any(v.get(key) is not None for key in ("minor_to_major", "layout", "tiles", "dim_level_types"))


def checked(v: Values) -> xla.ArrayShape | xla.TupleShape:
    inner = v.get("tuple") or v.get("tuple_shapes")
    if inner is not None:
        return xla.TupleShape(tuple(map(checked, inner)))
    return xla.parse_shape(v["string"]) if "string" in v else shape_of(v | {"layout": None} if bare(v) else v)


def validated(v: Values, _: Values) -> Values:
    xla.validate(checked(v), v.get("allow_missing_layouts", False))
    return {"error": False, "valid": True, "ok": True}


def sizes(v: Values, requested: Values) -> Values:
    shape = array_of(v)
    total = xla.array_size(shape)
    answer: Values = {"bytes": total, "size_bytes": total, "array_size": total}
    if any("data" in key for key in requested):
        answer |= dict.fromkeys(("data_bytes", "array_data_size"), xla.array_data_size(shape))
    return answer


def splits(v: Values, requested: Values) -> Values:
    shape, answer = shape_of(v), Values()
    if "dim" in v:
        answer["size"] = xla.max_split_size(shape, v["dim"])
    answer["sizes"] = [xla.max_split_size(shape, dim) for dim in range(len(shape.dimensions))]
    return answer | {"elements": xla.max_elements_in_per_split(shape)}


def default_tile(v: Values, _: Values) -> Values:
    one_bit = bool(v.get("one_bit") or v.get("packed")) or 1 in (v.get("element_size_in_bits"), v.get("bits"))
    return {"tiles": xla.default_tpu_tiles(v["dtype"], v["second_minor_size"], one_bit)}


XLA: dict[str, Adapter] = {
    "linear_index_with_tile": indexed,
    "tiled_bounds": tiled_bounds,
    "full_index_map": full_map,
    "combine_dims": combined,
    "pad_reshape_transpose": steps_of,
    "tile_to_string": lambda v, _: {"string": xla.tile_text(xla.tile_of(v["tile"]))},
    "layout_to_string": layout_text,
    "layout_parse": parsed_layout,
    "shape_to_string": shape_text,
    "shape_parse": parsed,
    "layout_equal": compared,
    "validate_layout": validated,
    "byte_size": sizes,
    "array_data_size": lambda v, _: {"bytes": xla.array_data_size(array_of(v))},
    "max_split_size": splits,
    "max_elements_in_per_split": splits,
    "default_tpu_tile": default_tile,
    "xla_layoututil_linear_index": lambda v, _: {
        "index": xla.linear_index_of_first_tile(array_of(v), v["index"])
    },
    "make_descending_layout": lambda v, _: {"minor_to_major": xla.descending(v["rank"]).minor_to_major},
    "make_ascending_layout": lambda v, _: {"minor_to_major": xla.ascending(v["rank"]).minor_to_major},
    "move_dim_to_major": lambda v, _: {
        "minor_to_major": xla.move_dim_to_major(layout_of(v), v["dim"]).minor_to_major
    },
    "byte_strides": lambda v, _: {"byte_strides": xla.byte_strides(array_of(v))},
    "byte_strides_is_major_to_minor": lambda v, _: {
        "result": xla.byte_strides_is_major_to_minor(v["byte_strides"], v["shape"], v["dtype"])
    },
}
