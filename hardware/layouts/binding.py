"""Conversion of a native dimension order to a layout in the device's notation: readable, and able to pack elements.

`hardware.layouts.native` computes the size of a stored part; this module computes the position of each of its
elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from tapestry.hardware.layouts.dimension_order import DimensionOrder, parse_dimension_order
from tapestry.hardware.layouts.layout import Layout, LayoutError
from tapestry.hardware.layouts.native import Native, tt_height
from tapestry.hardware.layouts.notations import parse_layout
from tapestry.hardware.layouts.xla.defaults import default_tiles
from tapestry.teg.dtypes import item_bytes

XLA_TYPES = {
    "bool": "pred",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    **{f"int{n}": f"s{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float4_e2m1fn": "f4e2m1fn",
}
# Simulated in a byte each.
SUB_BYTE = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")
# Others have no name there; what has as many bytes stands for them (at most four, which is all a tile knows).
METAL_TYPES = {
    "bool": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}


@lru_cache(maxsize=16384)
def bind(native: Native, dimension_order: str, shape: tuple[int, ...], dtype: str) -> Layout:
    """Build the layout in which a device stores a part of `shape`.

    Raises:
        LayoutError: the device stores elements one after another, so there is no layout to state.
    """
    return parse_layout(native_text(native, dimension_order, shape, dtype))


def native_text(native: Native, dimension_order: str, shape: tuple[int, ...], dtype: str) -> str:
    """Format this layout in the notation of the device's vendor, such as `f32[8,300]{1,0:T(8,128)}`.

    Raises:
        LayoutError: as `bind`.
    """
    groups = parse_dimension_order(dimension_order, len(shape))
    if native.name == "xla_tiled":
        return _xla_text(groups, shape, dtype)
    if native.name == "tt_tile":
        return _metal_text(groups, shape, dtype)
    raise LayoutError(f"a device with {native.name!r} memory stores elements one after another")


def _xla_text(order: DimensionOrder, shape: tuple[int, ...], dtype: str) -> str:
    """Format XLA text: rows and columns, joined from the dimensions along them, in the compiler's default tiles."""
    columns, rows = _along(order.columns, shape), _along(order.rows, shape)
    is_sub_byte = dtype in SUB_BYTE
    name = "s8" if is_sub_byte else XLA_TYPES[dtype]
    (tile, *words) = default_tiles((rows, columns) if order.rows else (columns,), name)
    joined = ["*"] * (len(order.rows) - 1) + [str(tile[0])] if order.rows else []
    joined += ["*"] * (len(order.columns) - 1) + [str(tile[-1])]
    inner = "".join(f"({','.join(map(str, word))})" for word in words) if shape else ""
    sizes, dims = ",".join(map(str, shape)), ",".join(map(str, order.minor_to_major))
    return (
        f"{XLA_TYPES[dtype]}[{sizes}]{{{dims}:T({','.join(joined)}){inner}{'E(8)' if is_sub_byte else ''}}}"
    )


def _metal_text(order: DimensionOrder, shape: tuple[int, ...], dtype: str) -> str:
    rows, columns = _along(order.rows, shape), _along(order.columns, shape)
    height = tt_height(rows)
    row = _sum(order.outside, shape, height) + _sum(order.rows, shape, 1)
    column = _sum(order.columns, shape, 1)
    names = ", ".join(f"d{d}" for d in range(len(shape)))
    linear = f"({names}) -> ({' + '.join(row) or '0'}, {' + '.join(column) or '0'})"
    element = METAL_TYPES.get(dtype) or f"ui{min(item_bytes(dtype), 4) * 8}"
    tiles = f"{_along(order.outside, shape) * height // 32}x{-(-columns // 32)}"
    sizes = "".join(f"{n}x" for n in shape)
    return (
        f"tensor<{sizes}{element}, #tt.metal_layout<{linear}, undef, <1x1>, "
        f"memref<{tiles}x!tt.tile<32x32, {element}>, #tt.memory_space<dram>>>>"
    )


def _along(dims: Sequence[int], shape: Sequence[int]) -> int:
    return prod(shape[d] for d in dims)


def _sum(dims: Sequence[int], shape: Sequence[int], stride: int) -> list[str]:
    """Return the terms of an affine map in which `dims`, minor to major, run on with this stride."""
    terms = []
    for d in dims:
        terms.append(f"d{d} * {stride}" if stride != 1 else f"d{d}")
        stride *= shape[d]
    return terms[::-1]
