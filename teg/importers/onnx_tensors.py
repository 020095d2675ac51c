"""Conversion of the tensors of an ONNX file to arrays; every stated size is checked before memory is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tapestry.teg.dtypes import NAMES, item_bytes, numpy_dtype
from tapestry.teg.importers.failure import ExternalDataError, ImportFailure, near_files
from tapestry.teg.importers.program import LARGEST_COUNT

# Sparse tensors are written out: their zeros are no data of the file, so there may not be many.
LARGEST_SPARSE_BYTES = 16 * 1024 * 1024

BITS_PER_ELEMENT: Mapping[int, int] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.FLOAT6E2M3: 6,
    TensorProto.FLOAT6E3M2: 6,
}


def element_type(code: int, where: str) -> str:
    """Return the name of an ONNX element type.

    Raises:
        ImportFailure: the element type is unsupported.
    """
    if code == TensorProto.STRING:
        raise ImportFailure(f"{where} holds text, which no tensor program computes with")
    try:
        name = str(onnx.helper.tensor_dtype_to_np_dtype(code).name)
    except (KeyError, TypeError, ValueError):
        name = f"type {code}"
    if name not in NAMES:
        raise ImportFailure(f"{where} has unsupported element type {name}")
    return name


def checked_shape(sizes: Any, where: str, item_size_bytes: int = 1) -> tuple[int, ...]:
    """Convert the sizes to a shape.

    Raises:
        ImportFailure: one is negative, or the tensor would have more bytes than can be counted.
    """
    shape = tuple(int(s) for s in sizes)
    if any(s < 0 for s in shape):
        raise ImportFailure(f"{where} has shape {list(shape)}; sizes are not negative")
    if math.prod(s for s in shape if s) * item_size_bytes > LARGEST_COUNT:
        raise ImportFailure(
            f"{where} has shape {list(shape)}, which is more than 2^63 bytes: no such tensor exists"
        )
    return shape


def to_array(tensor: Any, where: str, folder: Path | None) -> np.ndarray:
    """Convert a `TensorProto` to an array; `folder` holds external data, None: there may be none.

    Raises:
        ImportFailure: the type is unknown, the data is elsewhere, or there is too little or too much of it.
    """
    name = element_type(tensor.data_type, where)
    shape = checked_shape(tensor.dims, where, item_bytes(name))
    bits = BITS_PER_ELEMENT.get(tensor.data_type, numpy_dtype(name).itemsize * 8)
    wanted = (math.prod(shape) * bits + 7) // 8
    whole = tensor
    if tensor.data_location == TensorProto.EXTERNAL:
        whole = TensorProto(dims=tensor.dims, data_type=tensor.data_type)
        whole.raw_data = _external(tensor, where, folder, wanted)
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != wanted:
        raise ImportFailure(
            f"{where} has {len(tensor.raw_data)} bytes of data; its shape {list(shape)} and type {name} take {wanted}"
        )
    try:
        array = numpy_helper.to_array(whole)
    except (ValueError, TypeError, OverflowError) as error:
        raise ImportFailure(f"cannot read the data of {where}: {' '.join(str(error).split())}") from None
    expected = numpy_dtype(name)
    if array.dtype != expected:
        array = array.view(expected) if array.dtype.itemsize == expected.itemsize else array.astype(expected)
    return np.asarray(array)


def _external(tensor: Any, where: str, folder: Path | None, wanted: int) -> bytes:
    """Read the bytes of a tensor from a file inside `folder`, and from nowhere else."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ExternalDataError(where, location)
    path = (folder / location).resolve() if location and "\0" not in location else folder
    if Path(location).is_absolute() or not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise ImportFailure(
            f"the data of {where} should lie in {location!r}, which is no file inside {str(folder)!r}"
            f"{near_files(location, folder)}"
        )
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", wanted))
    except ValueError:
        raise ImportFailure(f"the data of {where} has an offset or length that is no number") from None
    size = path.stat().st_size
    if offset < 0 or length != wanted or offset + length > size:
        raise ImportFailure(
            f"the data of {where} takes {wanted} bytes, but bytes {offset} to {offset + length} of the {size} in "
            f"{location!r} are named"
        )
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def sparse_to_array(tensor: Any, where: str, folder: Path | None) -> np.ndarray:
    """Convert a `SparseTensorProto` to a dense array, zeros included.

    Raises:
        ImportFailure: it is malformed, or would be large.
    """
    values = to_array(tensor.values, where, folder).reshape(-1)
    indices = to_array(tensor.indices, f"the indices of {where}", folder)
    shape = checked_shape(tensor.dims, where)
    if math.prod(shape) * values.dtype.itemsize > LARGEST_SPARSE_BYTES:
        raise ImportFailure(
            f"{where} of shape {list(shape)} is sparse, and would take more than {LARGEST_SPARSE_BYTES} bytes dense"
        )
    places = indices.reshape(len(values), -1) if len(values) else indices.reshape(0, 1)
    if places.shape[1] not in (1, len(shape)):
        raise ImportFailure(f"the indices of {where} have {places.shape[1]} columns, not 1 or {len(shape)}")
    array = np.zeros(shape, values.dtype)
    try:
        if indices.ndim == 1:
            array.reshape(-1)[places[:, 0]] = values
        else:
            array[tuple(places.T)] = values
    except IndexError as error:
        raise ImportFailure(f"the indices of {where} lie outside: {error}") from None
    return array


def attribute_value(attribute: Any, where: str, folder: Path | None) -> Any:
    """Convert an attribute to a Python value: text, numbers, tuples of them, arrays; graphs stay messages.

    Raises:
        ImportFailure: it holds a tensor that cannot be read, or nothing.
    """
    place = f"attribute {attribute.name!r} of {where}"
    if attribute.ref_attr_name:
        raise ImportFailure(f"{place} refers to an attribute of a function, but stands in none")
    try:
        value = onnx.helper.get_attribute_value(attribute)
    except ValueError as error:
        raise ImportFailure(f"{place}: {error}") from None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return to_array(value, place, folder) if value.data_type != TensorProto.STRING else value
    if isinstance(value, onnx.SparseTensorProto):
        return sparse_to_array(value, place, folder)
    if isinstance(value, list):
        return tuple(v.decode(errors="replace") if isinstance(v, bytes) else v for v in value)
    return value
