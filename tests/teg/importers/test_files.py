"""Tests of reading programs by the ending of their file's name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tapestry.service.examples import DEMO_MODEL, example_model
from tapestry.teg.document import dumps
from tapestry.teg.importers.files import GraphFileError, read_program
from tests.costmodel.programs import layers


def test_a_file_is_read_as_its_ending_says(tmp_path: Path) -> None:
    graph = layers(2)
    (tmp_path / "a.json").write_text(dumps(graph))
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(dumps(graph).encode()))
    assert read_program(tmp_path / "a.json") == read_program(str(tmp_path / "a.json.gz")) == graph
    assert len(read_program(example_model(DEMO_MODEL)).blocks) > 100


def test_what_cannot_be_read_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(dumps(layers(2)))
    for path, options, reported in (
        ("modle.json", {}, f"there is no file .*did you mean {tmp_path}/model.json"),
        ("absent.onnx", {}, "there is no file .*absent.onnx'$"),
        ("", {}, "is a folder; give an .onnx"),
        ("model.json", {"dims": {"batch": 8}}, "has fixed dimensions; dims .* are for ONNX and PyTorch"),
        (
            "model.json",
            {"external_data": tmp_path},
            "keeps its data itself; external data .* is for ONNX files",
        ),
    ):
        with pytest.raises(GraphFileError, match=reported):
            read_program(tmp_path / path, **options)  # type: ignore[arg-type]
