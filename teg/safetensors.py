"""The format of `.safetensors` files: a JSON header with names, types and places, then the elements.

Of the format's own library, the reader for NumPy knows no float of a byte, and copies what it reads. A header is
checked as that library does it: the tensors follow each other without holes, and fill the file. What is written equals,
byte for byte, what the library writes.
Source: https://github.com/huggingface/safetensors, "Format", and `safetensors/src/tensor.rs`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.encoding import MalformedError
from tapestry.teg.jsontext import parse

# In the library's order, by which it sorts tensors.
DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
CODES: Mapping[str, str] = {name: code for code, name in DTYPES.items()}
LARGEST_HEADER = 100_000_000
METADATA = "__metadata__"


class DamagedFileError(ValueError):
    """Error raised for content that is no file of tensors, or for tensors that a format cannot hold."""


def unpack(content: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tensors of a file's bytes `(n,)` by name, as views of them.

    Raises:
        DamagedFileError: it is no such file, or damaged; the message names the place.
    """
    header, start = _header(content)
    size, end = len(content) - start, 0
    entries = {name: entry for name, entry in header.items() if name != METADATA}
    for name, entry in sorted(entries.items(), key=lambda named: _offsets(*named)):
        (first, last), (code, shape) = _offsets(name, entry), _type(name, entry)
        dtype = numpy_dtype(DTYPES[code])
        if first != end or last - first != math.prod(shape) * dtype.itemsize:
            raise DamagedFileError(
                f"tensor {name[:80]!r} of type {code} and shape {shape} lies at bytes {first} to {last}; "
                f"expected {math.prod(shape) * dtype.itemsize} bytes from byte {end}"
            )
        if last > size:
            raise DamagedFileError(
                f"it ends in the middle of tensor {name[:80]!r}, which takes bytes {first} to {last} of {size}; "
                "copy the file again"
            )
        end = last
        yield name, content[start + first : start + last].view(dtype).reshape(shape)
    if end != size:
        raise DamagedFileError(f"its tensors take {end} bytes, but {size} follow the header")


def pack(tensors: Mapping[str, np.ndarray]) -> Iterator[bytes]:
    """Yield the content of a file with these tensors in portions.

    Raises:
        DamagedFileError: the format cannot hold one of them.
    """
    order = list(CODES)
    for name, array in tensors.items():
        if array.dtype.name not in CODES or name == METADATA:
            raise DamagedFileError(
                f"tensor {name[:80]!r} of type {array.dtype.name}: .safetensors has no such tensors"
            )
    ordered = sorted(tensors.items(), key=lambda named: (-order.index(named[1].dtype.name), named[0]))
    header, end = {}, 0
    for name, array in ordered:
        first, end = end, end + array.nbytes
        header[name] = {
            "dtype": CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [first, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in ordered:
        yield array.tobytes()


def _header(content: np.ndarray) -> tuple[dict[str, Any], int]:
    """Return the header and the place where the elements begin."""
    if len(content) < 8:
        raise DamagedFileError(f"it has {len(content)} bytes, not even the 8 that state the header's length")
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > min(LARGEST_HEADER, len(content) - 8):
        raise DamagedFileError(
            f"its header should have {length:,} bytes, but {len(content) - 8:,} follow; is it a .safetensors file?"
        )
    try:
        header = parse(content[8 : 8 + length].tobytes())
    except MalformedError as problem:
        raise DamagedFileError(f"its header is {problem.issue.message}") from None
    if not isinstance(header, dict):
        raise DamagedFileError("its header is no JSON object")
    return header, 8 + length


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    offsets = _sizes(entry.get("data_offsets")) if isinstance(entry, dict) else None
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise DamagedFileError(f"tensor {name[:80]!r} has no data_offsets, two growing numbers")
    return offsets[0], offsets[1]


def _type(name: str, entry: Mapping[str, Any]) -> tuple[str, list[int]]:
    code, shape = str(entry.get("dtype")), _sizes(entry.get("shape"))
    if code not in DTYPES:
        raise DamagedFileError(f"tensor {name[:80]!r} has type {code[:40]!r}; known are {', '.join(DTYPES)}")
    if shape is None:
        raise DamagedFileError(f"tensor {name[:80]!r} has no shape, a list of sizes")
    return code, shape


def _sizes(value: Any) -> list[int] | None:
    """Return a list of numbers that are not negative; None for anything else."""
    if isinstance(value, list) and all(type(size) is int and size >= 0 for size in value):
        return value
    return None
