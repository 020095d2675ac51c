"""Tests of the measurements that the catalog is fitted on, and of the machines they belong to."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.timing_fit import TimingCase, read_cases

PRODUCT = {"M": 2048, "K": 2048, "N": 2048, "dtype": "bf16", "math_fidelity": "HiFi4"}
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


def test_a_product_is_described_by_its_sizes_and_the_bytes_it_moves(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, "gemm", "wormhole-n150", PRODUCT, 3e-4)
    assert (case.sizes, case.moved_bytes) == ((2048, 2048, 2048), 3 * 2 * 2048**2)


@pytest.mark.parametrize(
    ("changed", "time_s"),
    [({"math_fidelity": "HiFi2"}, 3e-4), ({}, 1e-4)],
    ids=["another fidelity than the peak's", "shorter than the host's dispatch"],
)
def test_products_that_measure_something_else_are_left_out(
    tmp_path: Path, changed: dict[str, str], time_s: float
) -> None:
    assert cases(tmp_path, "gemm", "wormhole-n150", {**PRODUCT, **changed}, time_s) == []


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
