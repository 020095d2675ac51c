"""Attribute values and arrays as JSON: exact, whatever JSON tool handles the text in between.

A JSON number does not distinguish int from float, and many tools write 1.0 as 1 and round integers beyond 2**53. So
whole floats and the non-finite ones are written `{"float": 1.0}`, `{"float": "nan"}`, large integers
`{"int": "9223372036854775807"}`, arrays as base64 of their little-endian bytes in row-major order.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapestry.teg.dtypes import NAMES, numpy_dtype
from tapestry.teg.issues import Issue, clipped, key_path

MAX_DEPTH = 200
MAX_DIGITS = 100
PIECE_BYTES = 3 * 2**15  # base64 writes three bytes as four letters
SAFE_INTEGER = 2**53 - 1
NON_FINITE = ("nan", "inf", "-inf", "-0.0")


class MalformedError(Exception):
    """Error raised with one issue where it is found, for the code that collects issues."""

    def __init__(self, path: str, message: str, expected: str, kind: str = "document") -> None:
        super().__init__(message)
        self.issue = Issue(kind, path, message, expected)


def encode_value(value: Any, path: str, depth: int = 0) -> Any:
    """Encode an attribute value as JSON.

    Raises:
        MalformedError: it is not None, a bool, int, float, str or a tuple of those, or nested too deep.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int and abs(value) < 10**MAX_DIGITS:
        return value if abs(value) <= SAFE_INTEGER else {"int": str(value)}
    if kind is float:
        return _encode_float(value)
    if isinstance(value, tuple):
        _check_depth(path, depth)
        return [encode_value(v, f"{path}[{k}]", depth + 1) for k, v in enumerate(value)]
    raise MalformedError(
        path,
        f"{_short(value)} of type {kind.__name__} has no form in the document",
        f"use None, bool, int (to {MAX_DIGITS} digits), float, str and tuples of those (see teg.graph.attributes)",
        kind="attribute",
    )


def decode_value(value: Any, path: str, depth: int = 0) -> Any:
    """Decode the attribute value that `encode_value` wrote.

    Raises:
        MalformedError: the value is not in the form of an attribute value.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is int:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise MalformedError(
                path, f"the number {value} is not finite", 'write {"float": "inf"}, "-inf" or "nan"'
            )
        return value
    if kind is list:
        _check_depth(path, depth)
        return tuple([decode_value(v, f"{path}[{k}]", depth + 1) for k, v in enumerate(value)])
    if kind is dict:
        return _decode_tagged(value, path)
    raise MalformedError(path, f"a value of type {kind.__name__} is no JSON", "pass what json.loads returns")


def _encode_float(value: float) -> Any:
    if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
        return {"float": repr(value)}
    return {"float": value} if value.is_integer() else value


def _decode_tagged(value: dict[str, Any], path: str) -> int | float:
    if value.keys() == {"float"}:
        inner = value["float"]
        if inner in NON_FINITE and type(inner) is str:
            return float(inner)
        if type(inner) is float and math.isfinite(inner):
            return inner
        if type(inner) is int and abs(inner) <= sys.float_info.max:
            return float(inner)
    elif value.keys() == {"int"}:
        inner = value["int"]
        digits = inner.removeprefix("-") if type(inner) is str else ""
        if digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS:
            return int(inner)
    raise MalformedError(
        path,
        f"an object {_short(value)} is no attribute value",
        f'objects stand for numbers only: {{"float": number or one of {list(NON_FINITE)}}} or {{"int": "digits"}}',
    )


def _check_depth(path: str, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise MalformedError(
            path[:80], f"values are nested deeper than {MAX_DEPTH} levels", "split the expression"
        )


def encode_array(array: np.ndarray, path: str) -> dict[str, Any]:
    """Encode an array as dtype, shape and base64 of its little-endian row-major bytes.

    Raises:
        MalformedError: the element type is none of `teg.dtypes.NAMES`.
    """
    name, raw = _named_bytes(array, path)
    return {"dtype": name, "shape": list(array.shape), "base64": base64.b64encode(raw).decode("ascii")}


def array_text(array: np.ndarray, path: str) -> Iterator[str]:
    """Yield the JSON text of what `encode_array` returns, in pieces of some 100 kB.

    Raises:
        MalformedError: the element type is none of `teg.dtypes.NAMES`.
    """
    name, raw = _named_bytes(array, path)
    sizes = ",".join(map(str, array.shape))
    yield f'{{"dtype":"{name}","shape":[{sizes}],"base64":"'
    for start in range(0, len(raw), PIECE_BYTES):
        yield base64.b64encode(raw[start : start + PIECE_BYTES]).decode("ascii")
    yield '"}'


def _named_bytes(array: np.ndarray, path: str) -> tuple[str, memoryview]:
    """Return the name of an array's element type and its little-endian row-major bytes."""
    name = array.dtype.name
    if name not in NAMES:
        raise MalformedError(
            path, f"element type {name!r} has no name in teg", f"known are {', '.join(NAMES)}", "dtype"
        )
    dense = np.ascontiguousarray(array.astype(numpy_dtype(name), copy=False))
    if sys.byteorder == "big":
        dense = dense.byteswap()
    return name, dense.reshape(-1).view(np.uint8).data


def decode_array(dtype: str, shape: tuple[int, ...], text: str, path: str) -> np.ndarray:
    """Decode the read-only array that `encode_array` wrote.

    Raises:
        MalformedError: unknown dtype, broken base64, or a number of bytes that does not fit the shape.
    """
    if dtype not in NAMES:
        raise MalformedError(
            key_path(path, "dtype"), f"unknown element type {dtype!r}", f"known are {', '.join(NAMES)}"
        )
    where = key_path(path, "base64")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedError(
            where, f"broken base64 ({error})", "write the array's bytes in base64, padded"
        ) from error
    kind = numpy_dtype(dtype)
    wanted = math.prod(shape) * kind.itemsize
    if len(raw) != wanted:
        raise MalformedError(
            where, f"{len(raw)} bytes", f"a {dtype} array of shape {list(shape)} has {wanted} bytes"
        )
    try:
        array = np.frombuffer(raw, kind).reshape(shape)
    except (ValueError, OverflowError) as error:
        raise MalformedError(
            key_path(path, "shape"), f"no array has the shape {list(shape)}", str(error)
        ) from error
    if dtype == "bool" and raw.translate(None, b"\x00\x01"):
        raise MalformedError(where, "a bool that is neither 0 nor 1", "write one byte per bool, 0 or 1")
    if sys.byteorder == "big":
        array = array.byteswap()
        array.setflags(write=False)
    return array


def _short(value: Any) -> str:
    try:
        return clipped(value, 60)
    except RecursionError:
        return "something nested very deep"
