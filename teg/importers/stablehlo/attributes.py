"""Attributes and types of MLIR as Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tapestry.teg.dtypes import item_bytes, numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.program import LARGEST_COUNT
from tapestry.teg.importers.stablehlo.module import ManualSharding, Type

ELEMENT_TYPES = {
    "i1": "bool",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
TENSOR = re.compile(r"tensor<((?:[0-9?]+x)*)([A-Za-z][^,]*?)(, .*)?>")
# Numbers of dimensions in the layouts of custom calls: no tensors.
INDICES = re.compile(r"tensor<([0-9]+x)*index>")
NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?")
HEX = re.compile(r'dense<"0x([0-9A-Fa-f]*)">')
ENUMS = ("ComparisonDirectionAttr", "ComparisonTypeAttr", "FftTypeAttr", "TransposeAttr", "RngAlgorithmAttr")
# Records of dimension numbers: class name -> fields.
RECORDS: dict[str, tuple[str, ...]] = {
    "GatherDimensionNumbers": (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    ),
    "ScatterDimensionNumbers": (
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scattered_dims_to_operand_dims",
        "index_vector_dim",
    ),
    "DotDimensionNumbers": (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ),
    "ConvDimensionNumbers": (
        "input_batch_dimension",
        "input_feature_dimension",
        "input_spatial_dimensions",
        "kernel_input_feature_dimension",
        "kernel_output_feature_dimension",
        "kernel_spatial_dimensions",
        "output_batch_dimension",
        "output_feature_dimension",
        "output_spatial_dimensions",
    ),
}


def type_of(text: str, where: str) -> Type:
    """Parse the type that MLIR prints as `text`.

    Raises:
        ImportFailure: a dimension is dynamic, or the element type is unsupported.
    """
    if text.startswith("tuple<"):
        return Type((), "tuple", tuple(type_of(t, where) for t in _split(text[6:-1])))
    if text == "!stablehlo.token":
        return Type((), "token")
    found = TENSOR.fullmatch(text)
    if found is None:
        raise ImportFailure(f"{where}: type {text} is unsupported; expected tensors of static shape")
    sizes, element, bound = found.groups()
    if "?" in sizes or (bound and "bounds" in bound):
        raise ImportFailure(
            f"{where}: {text} has a dynamic dimension; only static shapes are supported, "
            "so lower the program for given shapes"
        )
    if element not in ELEMENT_TYPES:
        raise ImportFailure(
            f"{where}: element type {element} of {text} is unsupported; known are {', '.join(ELEMENT_TYPES)}"
        )
    kind = Type(tuple(int(s) for s in sizes.split("x") if s), ELEMENT_TYPES[element])
    if math.prod(s for s in kind.shape if s) * item_bytes(kind.dtype) > LARGEST_COUNT:
        raise ImportFailure(f"{where}: {text} is too large; a tensor has at most {LARGEST_COUNT:,} bytes")
    return kind


def _split(text: str) -> list[str]:
    """Split a list whose parts may hold commas in angle brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [*parts, text[start:].strip()] if text.strip() else []


class AttributeReader:
    """A converter of attributes to Python values; `ir`, `dialect` and `shardy` are jaxlib's bindings."""

    def __init__(self, ir: Any, dialect: Any, shardy: Any) -> None:
        self.ir = ir
        enums = [getattr(dialect, n) for n in ENUMS]
        records = [(getattr(dialect, n), fields) for n, fields in RECORDS.items()]
        self._foreign: list[tuple[Any, Callable[[Any], Any]]] = [
            *((kind, lambda a: str(a.value)) for kind in enums),
            *((kind, _record_reader(fields)) for kind, fields in records),
            (shardy.ManualAxesAttr, tuple),
            (
                shardy.TensorShardingPerValueAttr,
                lambda a: tuple(_sharding(shardy, one) for one in a.shardings),
            ),
        ]

    def all_of(self, operation: Any, where: str) -> dict[str, Any]:
        """Return the attributes of an operation by name."""
        found = {}
        for name in operation.attributes:
            try:
                given = operation.attributes[name]
            except TypeError:  # the bindings know no class for dense arrays of complex numbers
                found[name] = printed_array(operation.get_asm(print_generic_op_form=True), where)
                continue
            found[name] = self.value(given, where)
        return found

    def value(self, given: Any, where: str) -> Any:
        """Convert one attribute to a Python value; an attribute without a counterpart becomes its text."""
        ir = self.ir
        if isinstance(
            given, (ir.BoolAttr, ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.FlatSymbolRefAttr)
        ):
            return given.value
        if isinstance(given, (ir.DenseBoolArrayAttr, ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr)):
            return tuple(given)
        if isinstance(given, ir.ArrayAttr):
            return tuple(self.value(part, where) for part in given)
        if isinstance(given, ir.DictAttr):
            return {part.name: self.value(part.attr, where) for part in given}
        if isinstance(given, (ir.DenseElementsAttr, ir.DenseResourceElementsAttr)):
            return str(given) if INDICES.search(str(given.type)) else dense_array(given, where)
        for kind, read in self._foreign:
            if kind.isinstance(given):
                return read(kind(given))
        return str(given)


def _record_reader(fields: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    def read(given: Any) -> dict[str, Any]:
        values = {name: getattr(given, name) for name in fields}
        return {name: v if isinstance(v, int) else tuple(v) for name, v in values.items()}

    return read


def _sharding(shardy: Any, attribute: Any) -> ManualSharding:
    stated = shardy.TensorShardingAttr(attribute)
    dims = [shardy.DimensionShardingAttr(dim).axes for dim in stated.dimension_shardings]
    axes = tuple(tuple(_axis(shardy, shardy.AxisRefAttr(axis)) for axis in dim) for dim in dims)
    return ManualSharding(str(stated.mesh_or_ref).removeprefix("@"), axes)


def _axis(shardy: Any, axis: Any) -> str:
    if axis.sub_axis_info is None:
        return str(axis.name)
    part = shardy.SubAxisInfoAttr(axis.sub_axis_info)
    return f"{axis.name}:({part.pre_size}){part.size}"


def dense_array(given: Any, where: str) -> np.ndarray:
    """Convert a dense attribute to an array; equal elements are stored once and broadcast."""
    kind = type_of(str(given.type), where)
    dtype = numpy_dtype(kind.dtype)
    if getattr(given, "is_splat", False) and hasattr(one := given.get_splat_value(), "value"):
        return np.broadcast_to(np.asarray(one.value).astype(dtype), kind.shape)
    try:
        array = np.array(given)
    except TypeError:  # the bindings hand out no elements of the short float types
        return printed_array(str(given), where)
    return array.astype(dtype, copy=False).reshape(kind.shape)


def printed_array(text: str, where: str) -> np.ndarray:
    """Parse a dense attribute as MLIR prints it: a nested list, one element for all, or packed bytes."""
    kind = type_of(text[text.rindex("tensor<") :].split(" loc(", maxsplit=1)[0].strip(), where)
    dtype = numpy_dtype(kind.dtype)
    packed = HEX.search(text)
    if packed is not None:
        numbers = np.frombuffer(bytes.fromhex(packed.group(1)), dtype)
    else:
        body = text[text.index("dense<") + 6 : text.rindex("> : tensor<")]
        reals = np.dtype(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype
        listed = np.array([_real(n, reals) for n in NUMBER.findall(body)], reals)
        numbers = listed.view(dtype) if dtype.kind == "c" else listed
    if numbers.size == 1:
        return np.broadcast_to(numbers.reshape(()), kind.shape)
    return numbers.reshape(kind.shape)


def _real(text: str, dtype: np.dtype[Any]) -> Any:
    """Parse a number; hexadecimal bits stand for infinities and NaNs."""
    if not text.startswith("0x"):
        return float(text)
    return np.array([int(text, 16)], f"uint{dtype.itemsize * 8}").view(dtype)[0]
