"""Tests of what exported programs say of the files that they are given: one message for each fault, and all at once."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.exporters.spmd.runtime import files


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


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_fault_that_names_it(name: str, tmp_path: Path) -> None:
    path, faults = tmp_path / name, list[str]()
    path.write_bytes(DAMAGED[name])
    assert files.open_files([str(path)], faults) == {}
    (fault,) = faults
    assert fault.startswith(f"cannot read {str(path)!r}: ") and "\n" not in fault


def test_damage_that_only_reading_the_values_shows_is_a_fault(tmp_path: Path) -> None:
    whole = bytearray(archive({"x.npy": npy(np.zeros(100_000))}))
    whole[500_000] ^= 1
    (tmp_path / "x.npz").write_bytes(whole)
    faults: list[str] = []
    stored = files.open_files([str(tmp_path / "x.npz")], faults)
    assert faults == []
    assert files.load_checked(lambda: {"x": stored["x"].open()}, faults) == {}
    assert faults == ["cannot read the values: Bad CRC-32 for file 'x.npy'"]


@pytest.mark.parametrize("place", ["missing/out.npz", "."])
def test_outputs_without_a_place_are_a_fault(place: str, tmp_path: Path) -> None:
    faults: list[str] = []
    files.check_outputs(str(tmp_path / "out.npz"), faults)
    assert faults == []
    files.check_outputs(str(tmp_path / place), faults)
    assert len(faults) == 1 and "cannot write" in faults[0]


def given(*arrays: tuple[str, np.ndarray]) -> dict[str, files.Stored]:
    def opener(value: np.ndarray) -> Callable[[], np.ndarray]:
        return lambda: value

    return {name: files.Stored(a.dtype.name, a.shape, opener(a)) for name, a in arrays}


def test_all_faults_of_the_values_are_found_and_unknown_names_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        files, "SOURCES", {"x": ("float32", (8, 2)), "y": ("int64", (3, 4), (12,)), "z": ("bool", ())}
    )
    faults: list[str] = []
    stored = given(("x", np.zeros((8, 2))), ("y", np.zeros((3, 4), np.int64)), ("more", np.zeros(1)))
    files.check_sources(stored, faults)
    assert faults == [
        "'x' is float64 of shape (8, 2), not float32 of shape (8, 2)",
        "'y' is int64 of shape (3, 4), not int64 of shape (12,)",
        "'z' is missing: bool of shape ()",
    ]
    assert capsys.readouterr().err == "warning: the program does not read 'more'\n"
