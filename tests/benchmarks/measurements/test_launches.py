"""Tests of how rows were launched: by what they state, then by what is known of their source."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurements import read_rows
from benchmarks.measurements.launches import SourceLaunch, known_sources
from tapestry.hardware.device import LAUNCHES

ROW: dict[str, Any] = {
    "id": "r",
    "group": "g",
    "kind": "gemm",
    "device_id": "a100-sxm4-80gb",
    "inputs": {"dtype": "fp16", "M": 8, "N": 8, "K": 8},
    "predict": {"quantity": "time", "unit": "s", "value": 1e-5},
    "source": "github example/bench results.csv",
    "predictable": True,
    "quality": "ok",
}
OWN = (SourceLaunch("example/Bench", "eager", "operators are called one by one"),)


def launch(tmp_path: Path, changed: dict[str, Any], sources: tuple[SourceLaunch, ...] | None = OWN) -> str:
    (file := tmp_path / "rows.json").write_text(json.dumps({"entries": [ROW | changed]}))
    (row,) = read_rows([file], sources)
    return row.question.launch


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "eager"),
        ({"source": "github example/other"}, "captured"),
        ({"launch": "captured"}, "captured"),
        ({"launch": "unfused", "source": "github example/other"}, "unfused"),
        ({"inputs": ROW["inputs"] | {"launch": "captured"}}, "captured"),
        ({"inputs": ROW["inputs"] | {"trace": True}}, "captured"),
        ({"inputs": ROW["inputs"] | {"trace": False}, "source": ""}, "eager"),
        ({"inputs": ROW["inputs"] | {"trace": False}, "launch": "captured"}, "captured"),
    ],
)
def test_what_a_row_states_counts_before_what_is_known_of_its_source(
    tmp_path: Path, changed: dict[str, Any], expected: str
) -> None:
    assert launch(tmp_path, changed) == expected


@pytest.mark.parametrize("source", known_sources(), ids=lambda source: source.part)
def test_only_the_table_of_sources_knows_them(tmp_path: Path, source: SourceLaunch) -> None:
    row = {"source": f"github {source.part} file.csv"}
    assert launch(tmp_path, row, None) == source.launch != launch(tmp_path, row, ())
    assert source.launch in LAUNCHES and len(source.reason) > 20


def test_a_launch_that_is_none_is_a_fault_of_the_row(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="launch: expected one of captured, eager, unfused, not 'rocket'"):
        launch(tmp_path, {"launch": "rocket"})
