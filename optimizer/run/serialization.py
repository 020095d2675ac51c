"""Serialization of arrays and a JSON header to bytes with a checksum. Nothing in them is ever executed."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

LEVEL = 1  # on these arrays the slower levels save a tenth and cost three times as much
LARGEST_BYTES = 2**31
DTYPES = frozenset({"bool", "int8", "int16", "int32", "int64", "uint64", "float64"})


class SerializationError(ValueError):
    """Error raised for bytes that `serialize` did not write, or that were changed."""


def serialize(magic: bytes, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Serialize `magic`, a checksum, then compressed: the header, the form of each array, the arrays."""
    forms = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    text = json.dumps({"header": header, "arrays": forms}, separators=(",", ":")).encode()
    content = b"".join(
        [struct.pack("<I", len(text)), text, *(np.ascontiguousarray(a).tobytes() for a in arrays.values())]
    )
    body = struct.pack("<Q", len(content)) + zlib.compress(content, LEVEL)
    return magic + hashlib.sha256(body).digest() + body


def deserialize(magic: bytes, content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Deserialize the header and the arrays that `serialize` wrote.

    Raises:
        SerializationError: the bytes begin with another magic, were changed, or hold something else.
    """
    start = len(magic) + 32
    if content[: len(magic)] != magic:
        raise SerializationError(f"they begin with {content[: len(magic)]!r}, not {magic!r}")
    body = content[start:]
    if hashlib.sha256(body).digest() != content[len(magic) : start]:
        raise SerializationError("their checksum is wrong: they are damaged")
    try:
        return _read(body)
    except (KeyError, TypeError, ValueError, struct.error, zlib.error) as error:
        raise SerializationError(f"they do not hold what they should: {error}") from error


def _read(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    (size,) = struct.unpack_from("<Q", body)
    if size > LARGEST_BYTES:
        raise SerializationError(f"{size} bytes are more than {LARGEST_BYTES}")
    reader = zlib.decompressobj()
    content = reader.decompress(body[8:], size + 1)
    if len(content) != size:
        raise SerializationError(f"{size} bytes were announced, not {len(content)}")
    (length,) = struct.unpack_from("<I", content)
    document = json.loads(content[4 : 4 + length])
    arrays, at = {}, 4 + length
    for name, dtype, shape in document["arrays"]:
        if dtype not in DTYPES:
            raise SerializationError(f"array {name!r} is of type {dtype!r}")
        if not all(type(n) is int and n >= 0 for n in shape):
            raise SerializationError(f"array {name!r} has the shape {shape}")
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, dtype, count, at).reshape(shape).copy()
        arrays[name] = array
        at += array.nbytes
    if at != len(content):
        raise SerializationError(f"{len(content) - at} bytes are of no array")
    return document["header"], arrays
