"""Tests of what exported programs say of the files that they are given: one message for each fault, and all at once."""

from __future__ import annotations

import io
import json
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.teg.exporters.spmd.runtime import script


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(**changed: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changed}


def archive(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for name, content in members.items():
            written.writestr(name, content)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


DAMAGED = {
    "nothing.safetensors": b"",
    "short.safetensors": b"\1\2\3",
    "long_header.safetensors": b"\xff" * 100,
    "no_json.safetensors": b"\2" + bytes(7) + b"{]",
    "list.safetensors": safetensors([]),
    "deep.safetensors": b"\0\0\4" + bytes(5) + b"[" * 2**18,
    "number.safetensors": safetensors({"x": 3}),
    "no_offsets.safetensors": safetensors({"x": {"dtype": "F32", "shape": [2]}}, bytes(8)),
    "unknown_type.safetensors": safetensors({"x": entry(dtype="F4")}, bytes(8)),
    "cut.safetensors": safetensors({"x": entry()}, bytes(7)),
    "reversed.safetensors": safetensors({"x": entry(data_offsets=[8, 0])}, bytes(8)),
    "other_shape.safetensors": safetensors({"x": entry(shape=[3])}, bytes(8)),
    "negative.safetensors": safetensors({"x": entry(shape=[-2])}, bytes(8)),
    "nothing.npz": b"",
    "text.npz": b"no archive",
    "cut.npz": archive({"x.npy": npy(np.zeros(100))})[:-40],
    "text_inside.npz": archive({"x.npy": b"no array"}),
}


def loaded(folder: Path, path: str | Path = "", outputs: str = "out.npz") -> tuple[dict[str, Any], list[str]]:
    options = Namespace(inputs=str(path), weights=None, outputs=str(folder / outputs), steps=1)
    return script.load(options)


def stated(monkeypatch: pytest.MonkeyPatch, **sources: object) -> None:
    monkeypatch.setattr(script, "SOURCES", sources)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_a_fault_that_names_it_or_its_tensor(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGED[name])
    stated(monkeypatch, x=("float32", (2,)))
    found, faults = loaded(tmp_path, path)
    assert found == {} and all("\n" not in fault for fault in faults)
    assert faults[0].startswith((f"cannot read {str(path)!r}: ", "cannot read 'x': "))


def test_damage_that_only_reading_the_values_shows_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bytearray(archive({"x.npy": npy(np.zeros(100_000))}))
    whole[500_000] ^= 1
    (tmp_path / "x.npz").write_bytes(whole)
    stated(monkeypatch, x=("float64", (100_000,)))
    found, (fault,) = loaded(tmp_path, tmp_path / "x.npz")
    assert found == {} and "'x'" in fault and "Bad CRC-32 for file 'x.npy'" in fault


@pytest.mark.parametrize("place", ["missing/out.npz", "."])
def test_outputs_without_a_place_are_a_fault(place: str, tmp_path: Path) -> None:
    _, faults = loaded(tmp_path, outputs="out.npz")
    assert faults == []
    _, (fault,) = loaded(tmp_path, outputs=place)
    assert "cannot write" in fault


def test_all_faults_of_the_values_are_found_and_unknown_names_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stated(monkeypatch, x=("float32", (8, 2)), y=("int64", (3, 4), (12,)), z=("bool", ()))
    np.savez(tmp_path / "x.npz", x=np.zeros((8, 2)), y=np.zeros((3, 4), np.int64), more=np.zeros(1))
    _, faults = loaded(tmp_path, tmp_path / "x.npz")
    assert faults == [
        "'x' is float64 of shape (8, 2), not float32 of shape (8, 2)",
        "'y' is int64 of shape (3, 4), not int64 of shape (12,)",
        "'z' is missing: bool of shape ()",
    ]
    assert capsys.readouterr().err == "warning: the program does not read 'more'\n"


def test_types_that_numpy_lacks_are_read_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = {"x": entry(), "scale": entry(dtype="F8_E4M3", shape=[4], data_offsets=[8, 12])}
    (tmp_path / "x.safetensors").write_bytes(safetensors(header, bytes(12)))
    stated(monkeypatch, x=("float32", (2,)))
    assert loaded(tmp_path, tmp_path / "x.safetensors")[1] == []
    stated(monkeypatch, scale=("float32", (4,)))
    _, (fault,) = loaded(tmp_path, tmp_path / "x.safetensors")
    assert "not float32" in fault


def test_a_file_of_tensors_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    header = {"x": entry(shape=[2, 3], data_offsets=[0, 24])}
    (tmp_path / "x.safetensors").write_bytes(safetensors(header, value.tobytes()))
    stated(monkeypatch, x=("float32", (2, 3)))
    found, faults = loaded(tmp_path, tmp_path / "x.safetensors")
    assert faults == []
    np.testing.assert_array_equal(found["x"], value)
