"""Tests of the requests that send programs: external data of ONNX files goes in parts of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tapestry.client import AsyncClient, Client, ProblemError, programs
from tapestry.client.programs import program_call
from tapestry.teg.faults import ArgumentError
from tests.client.conftest import QUICK
from tests.service.api.conftest import Service
from tests.teg.importers.models import model_of

WEIGHTS = {"up": np.ones((8, 16), np.float32), "down": np.full((16, 4), 2.0, np.float32)}
FILES = {"up": "first.bin", "down": "more/second.bin"}


def model() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "up"], ["h"]), helper.make_node("MatMul", ["h", "down"], ["y"])]
    return model_of(nodes, {"x": (4, 8)}, ["y"], WEIGHTS)


def divided(folder: Path) -> Path:
    """Write the model with each weight in a file of its own, and return its path."""
    divided = model()
    (folder / "more").mkdir()
    for tensor in divided.graph.initializer:
        place = FILES[tensor.name]
        (folder / place).write_bytes(tensor.raw_data)
        onnx.external_data_helper.set_external_data(tensor, place)
        tensor.ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(divided.SerializeToString())
    return path


def test_an_onnx_file_is_sent_with_its_data_in_several_parts(
    client: Client, service: Service, tmp_path: Path
) -> None:
    path = divided(tmp_path)
    whole = client.upload(model().SerializeToString(), name="model")
    by_name: dict[str, str | Path | bytes] = {
        "first.bin": (tmp_path / "first.bin").read_bytes(),
        "more/second.bin": tmp_path / "more" / "second.bin",
    }
    assert client.upload(path, data=by_name).id == whole.id

    async def upload() -> str:
        async with AsyncClient(service.address, retries=QUICK) as other:
            return (await other.upload(path.read_bytes(), name="model", data=by_name)).id

    assert asyncio.run(upload()) == whole.id
    with pytest.raises(ProblemError, match="which was not sent along"):
        client.upload(path, data=[tmp_path / "first.bin"])


def test_paths_of_data_are_sent_under_their_file_names(tmp_path: Path) -> None:
    path = divided(tmp_path)
    call = program_call(
        path, "mine", {"batch": 8}, [tmp_path / "first.bin", tmp_path / "more" / "second.bin"]
    )
    assert call.upload is not None
    assert call.upload.fields == {"name": "mine", "dims": ["batch=8"]}
    assert {name: Path(str(place)).name for name, place in call.upload.data.items()} == {
        "first.bin": "first.bin",
        "second.bin": "second.bin",
    }


def test_data_that_cannot_be_sent_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = divided(tmp_path)
    (tmp_path / "more" / "first.bin").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"data: there is no file '.*third.bin'"):
        program_call(path, None, None, [tmp_path / "third.bin"])
    with pytest.raises(ArgumentError, match="data: two files have one name; give them by the names"):
        program_call(path, None, None, [tmp_path / "first.bin", tmp_path / "more" / "first.bin"])
    with pytest.raises(ArgumentError, match="data: expected a list of paths, or paths and contents by name"):
        program_call(path, None, None, str(tmp_path / "first.bin"))
    with pytest.raises(ArgumentError, match="external data is for ONNX files"):
        program_call({"teg": 1}, None, None, [tmp_path / "first.bin"])


def test_a_large_file_is_looked_up_by_its_hash_before_it_is_sent(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "LARGE_BYTES", 64)
    sent, do = list[tuple[str, str]](), Client._do

    def noted(self: Client, step: Any) -> Any:
        sent.append((step.method, step.path))
        return do(self, step)

    monkeypatch.setattr(Client, "_do", noted)
    path, asks, sends = divided(tmp_path), ("GET", "/v1/graphs/import"), ("POST", "/v1/graphs/import")
    data = {name: tmp_path / name for name in FILES.values()}
    first, again = (client.upload(path, data=data) for _ in range(2))
    assert first == again
    assert sent == [asks, sends, asks]
    other = client.upload(path, data=data, name="other")
    assert (other.name, sent[3:]) == ("other", [asks, sends])
