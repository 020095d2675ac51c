"""Cases of tt-metal's layouts: `tt.metal_layout` in its older and newer form, affine maps, grids, memory maps."""

from dataclasses import replace

import numpy as np

from tapestry.hardware.layouts import LayoutError
from tapestry.hardware.layouts.tt_metal import MetalAttribute, MetalLayout, collapse_groups, parse_affine_map
from tapestry.hardware.layouts.tt_metal.aligned import verify_aligned
from tapestry.hardware.layouts.tt_metal.attribute import cut
from tapestry.hardware.layouts.tt_metal.element import element
from tests.vectors.core_maps import l1_location, physical_core, virtual_core
from tests.vectors.runner import Adapter, Values


def _layout(values: Values) -> MetalLayout:
    stored = element(values.get("dtype", "f32"), values.get("tile"))
    linear = parse_affine_map(values["linear"])
    shape, grid = tuple(values["tensor_shape"]), values["grid"]
    oob, space = values.get("oob_val", "undef"), values.get("memory_space", "l1")
    attribute = MetalAttribute.derive(shape, linear, grid, stored, space, oob)
    if "memref_shape" in values:
        attribute = replace(attribute, memref_shape=tuple(values["memref_shape"]))
    return MetalLayout(shape, "f32", attribute)


def _metal_layout(values: Values, _: Values) -> Values:
    layout = _layout(values)
    attribute, shape, rank = layout.attribute, layout.shape, len(layout.attribute.grid)
    rows, columns = layout.padding(max(rank - 2, 0)), layout.padding(rank - 1)
    return {
        "physical_shape": attribute.physical_shape(shape),
        "scalar_shard_shape": attribute.shard_shape(shape),
        "memref_shape": attribute.memref_shape,
        "physical_stride_elems": attribute.strides(shape),
        "padded_physical_shape": layout.physical_shape,
        "pad_rows_per_core_row": rows,
        "pad_cols_per_core_col": columns,
        "padding_last_row_of_cores": rows[-1],
        "padding_last_col_of_cores": columns[-1],
        "batch_row_starts": layout.row_starts(),
    }


def _ttnn_layout(values: Values, wanted: Values) -> Values:
    return _metal_layout({**values, "memory_space": "dram"}, wanted)


def _built(values: Values, dialect: str = "tt") -> MetalLayout:
    intervals = tuple((begin, end) for begin, end in values.get("collapse_intervals", [[0, -1]]))
    return MetalLayout.of(
        values["tensor_shape"], values.get("dtype", "f32"), intervals, values["grid"], values.get("tile"),
        values.get("memory_space", "l1"), values.get("oob_val", "undef"), dialect,
    )  # fmt: skip


def _construct(values: Values, _: Values) -> Values:
    attribute = _built(values).attribute
    return {"linear": str(attribute.linear), "memref_shape": attribute.memref_shape}


def _print(values: Values, _: Values) -> Values:
    return {
        "string_ttcore": str(_built(values, "ttcore")),
        "string_seed_dialect": str(_built(values)),
        "string_tt": str(_built(values)),
    }


def _rule_error(values: Values, _: Values) -> Values:
    return {"error": False, "text": str(_layout(values) if "linear" in values else _built(values))}


def _verify_error(values: Values, _: Values) -> Values:
    intervals = np.array(values["collapsed_intervals"], dtype=np.int64)
    shape = (0, 2) if intervals.size == 0 else intervals.shape
    try:
        verify_aligned(
            values["logical_shape"], values["dim_alignments"], shape, intervals.reshape(-1).tolist()
        )
    except LayoutError as refusal:
        return {"error": str(refusal), "error_text": str(refusal)}
    return {"valid": True, "error": None}


def _groups(values: Values, _: Values) -> Values:
    return {"groups": collapse_groups(values["rank"], values["grid_rank"], values["collapse_intervals"])}


def _affine_eval(values: Values, _: Values) -> Values:
    return {"physical_index": parse_affine_map(values["linear"]).evaluate(values["index"])}


def _affine_size(values: Values, _: Values) -> Values:
    size = parse_affine_map(values["linear"]).size(values["shape"])
    last = parse_affine_map(values["linear"]).last(values["shape"])
    return {"last_index": last, "size": size, "shard": cut(size, values["grid"])}


def _virtual_grid(values: Values, _: Values) -> Values:
    core_map = parse_affine_map(values["map"])
    core = virtual_core(core_map, values["virtual_core"], values["virtual_grid"], values["device_grid"])
    return {"physical_core": core}


def _device_grid(values: Values, _: Values) -> Values:
    return {"chip_y_x": physical_core(parse_affine_map(values["map"]), values["logical_core"])}


def _l1(values: Values, _: Values) -> Values:
    core, offset = l1_location(values["shard_shape"], values["physical_index"])
    return {"core": core, "offset_elems": offset}


TT_METAL: dict[str, Adapter] = {
    "metal_layout": _metal_layout,
    "ttnn_layout": _ttnn_layout,
    "metal_layout_construct": _construct,
    "metal_layout_print": _print,
    "metal_layout_rule_error": _rule_error,
    "metal_layout_verify_error": _verify_error,
    "collapse_intervals": _groups,
    "affine_eval": _affine_eval,
    "affine_size": _affine_size,
    "virtual_grid_map": _virtual_grid,
    "device_grid_map": _device_grid,
    "l1_map": _l1,
}
