"""Tests of the measurements that the catalog is fitted on, and of the machines they belong to."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.timing_fit import TimingCase, read_cases

GATHER = {"op": "all_gather", "ranks": 8, "topology": "ring", "bytes": 8 * 10**6, "dtype": "bf16"}


def cases(
    tmp_path: Path, kind: str, device: str, reported: dict[str, Any], time_s: float
) -> list[TimingCase]:
    row = {
        "group": "g",
        "kind": kind,
        "device_id": device,
        "inputs": reported,
        "predictable": True,
        "quality": "ok",
    }
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"entries": [{**row, "predict": {"quantity": "time", "value": time_s}}]}))
    return read_cases(file)


@pytest.mark.parametrize(
    ("changed", "mesh", "received"),
    [
        ({}, "t3000-ring", 7 * 10**6),
        ({"op": "all_reduce"}, "t3000-ring", 14 * 10**6),
        ({"topology": "line", "ranks": 2}, "n300", 4 * 10**6),
    ],
)
def test_rings_and_lines_of_one_host_are_meshes_of_their_own(
    tmp_path: Path, changed: dict[str, Any], mesh: str, received: int
) -> None:
    (case,) = cases(tmp_path, "collective", "wormhole-n300", {**GATHER, **changed}, 1e-3)
    assert (case.mesh, case.moved_bytes) == (mesh, received)
