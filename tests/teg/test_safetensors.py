"""Tests of the format of .safetensors files: equal to what the format's library writes, and damage is named."""

from __future__ import annotations

import base64
import json

import ml_dtypes
import numpy as np
import pytest

from tapestry.teg.safetensors import CODES, DamagedFileError, pack, unpack

# What `safetensors.numpy.save` of safetensors 0.8.0 wrote for `TENSORS`.
WRITTEN_BY_THE_LIBRARY = base64.b64decode(
    "GAEAAAAAAAB7IsOpIjp7ImR0eXBlIjoiSTY0Iiwic2hhcGUiOltdLCJkYXRhX29mZnNldHMiOlswLDhdfSwiZSI6eyJkdHlwZSI6IkY2NCIsInNo"
    "YXBlIjpbMCwzXSwiZGF0YV9vZmZzZXRzIjpbOCw4XX0sImIiOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzNdLCJkYXRhX29mZnNldHMiOls4LDIw"
    "XX0sImEiOnsiZHR5cGUiOiJCRjE2Iiwic2hhcGUiOlsyLDFdLCJkYXRhX29mZnNldHMiOlsyMCwyNF19LCJtIjp7ImR0eXBlIjoiQk9PTCIsInNo"
    "YXBlIjpbMl0sImRhdGFfb2Zmc2V0cyI6WzI0LDI2XX19ICAgBwAAAAAAAAAAAAAAAACAPwAAAEDAPwDAAQA="
)
TENSORS = {
    "b": np.arange(3, dtype=np.float32),
    "a": np.array([[1.5], [-2]], ml_dtypes.bfloat16),
    "é": np.array(7, dtype=np.int64),
    "e": np.zeros((0, 3), np.float64),
    "m": np.array([True, False]),
}


def content(header: object, data: bytes = b"") -> np.ndarray:
    text = json.dumps(header).encode()
    return np.frombuffer(len(text).to_bytes(8, "little") + text + data, np.uint8)


def entry(code: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": code, "shape": shape, "data_offsets": offsets}


def test_what_is_written_equals_what_the_library_writes() -> None:
    assert b"".join(pack(TENSORS)) == WRITTEN_BY_THE_LIBRARY


def test_what_the_library_wrote_is_read() -> None:
    found = dict(unpack(np.frombuffer(WRITTEN_BY_THE_LIBRARY, np.uint8)))
    assert found.keys() == TENSORS.keys()
    for name, array in TENSORS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("dtype", CODES)
def test_every_type_comes_back(dtype: str) -> None:
    array = np.ones((3, 2)).astype(dtype)
    ((name, found),) = unpack(np.frombuffer(b"".join(pack({"x": array.T})), np.uint8))
    assert (name, found.shape, found.dtype) == ("x", (2, 3), array.dtype)
    np.testing.assert_array_equal(found, array.T)


def test_metadata_is_no_tensor() -> None:
    header = {"__metadata__": {"format": "np"}, "x": entry()}
    assert [name for name, _ in unpack(content(header, bytes(8)))] == ["x"]


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (np.zeros(3, np.uint8), "has 3 bytes"),
        (np.full(100, 255, np.uint8), "its header should have"),
        (content([]), "no JSON object"),
        (np.frombuffer(b"\2" + bytes(7) + b"{]", np.uint8), "its header is no JSON"),
        (content({"x": entry()}, bytes(7)), "middle of tensor 'x', which takes bytes 0 to 8 of 7"),
        (content({"x": entry()}, bytes(9)), "take 8 bytes, but 9 follow"),
        (content({"x": entry(offsets=(4, 12))}, bytes(12)), "expected 8 bytes from byte 0"),
        (content({"x": entry(shape=(3,))}, bytes(8)), "expected 12 bytes"),
        (content({"x": entry(), "y": entry()}, bytes(8)), "expected 8 bytes from byte 8"),
        (content({"x": entry(code="F4")}, bytes(8)), "'x' has type 'F4'; known are BOOL"),
        (content({"x": entry(shape=(-2,))}, bytes(8)), "'x' has no shape"),
        (content({"x": entry(shape=(True, 2))}, bytes(8)), "'x' has no shape"),
        (content({"x": entry(offsets=(8, 0))}, bytes(8)), "'x' has no data_offsets"),
        (content({"x": 3}, bytes(8)), "'x' has no data_offsets"),
    ],
)
def test_damage_is_named(damaged: np.ndarray, message: str) -> None:
    with pytest.raises(DamagedFileError, match=message):
        dict(unpack(damaged))


def test_a_type_that_the_format_lacks_is_refused() -> None:
    with pytest.raises(DamagedFileError, match="'x' of type complex128"):
        list(pack({"x": np.zeros(2, np.complex128)}))
