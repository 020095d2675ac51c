"""Tests of the fits of kernels: what they say of folds, of devices left out, and of rows too few for a table."""

from __future__ import annotations

import pytest

from benchmarks.fit import FEWEST, by_class, inherited, report, small_groups
from benchmarks.kernel_samples import samples_of
from benchmarks.measurements import Measurement, Question, Systems
from tapestry.hardware.calibration.fitting import fit_class

H100, A100, V100 = "h100-sxm5-80gb", "a100-sxm4-80gb", "v100-sxm2-16gb"


def activations(device: str, count: int, op: str = "gelu", factor: float = 1.0) -> list[Measurement]:
    """Return rows of an activation at half of the memory's rate, times a factor."""
    rate = Systems.of_catalog().devices[device].memory_bytes_per_s / 2
    rows = []
    for elements in (2**24 * (k + 4) for k in range(count)):
        question = Question(
            "memory_bound_op", device, {"dtype": "fp16", "op": op, "elements": elements}, "time", "s"
        )
        time_s = factor * 4 * elements / rate
        rows.append(Measurement(f"{device} {elements}", f"of {device}", question, time_s, True, "ok", "x"))
    return rows


def products(device: str, count: int) -> list[Measurement]:
    """Return rows of products at half of the peak."""
    peak = Systems.of_catalog().devices[device].peak_flops_per_s["fp16"] / 2
    rows = []
    for n in (1024 * (k + 2) for k in range(count)):
        question = Question("gemm", device, {"dtype": "fp16", "M": n, "N": n, "K": n}, "time", "s")
        rows.append(Measurement(f"{device} {n}", "products", question, 2 * n**3 / peak, True, "ok", "x"))
    return rows


def test_totals_count_every_row_once_and_small_groups_by_what_they_inherit() -> None:
    rows = [
        *activations(H100, 10),
        *activations(A100, 12),
        *activations(V100, FEWEST - 1, factor=2.0),
        *products(H100, FEWEST - 1),
    ]
    samples = samples_of(rows, Systems.of_catalog())
    fitted = [each for devices in by_class(samples) for each in fit_class(devices)]
    found = report(fitted, small_groups(samples))
    totals = {str(line["total"]): line for line in found["totals"]}
    assert {name: line["rows"] for name, line in totals.items()} == {
        "operators": 22 + FEWEST - 1,
        "memory_bound": 22 + FEWEST - 1,
        "small groups": FEWEST - 1,
        "left-out devices": 22,
    }
    assert totals["small groups"]["bias"] == pytest.approx(-0.693, abs=0.05)  # half of what was measured
    assert totals["small groups"]["inside_90"] == 0.0
    assert totals["left-out devices"]["inside_90"] == 1.0
    assert found["small_groups"][0]["device"] == V100
    assert found["not_scored"] == [{"device": H100, "class": "matrix_product.fp16", "rows": FEWEST - 1}]
    assert [line["rows"] for line in found["folds"] if line["table"] == f"of {V100}"] == [FEWEST - 1]


def test_rows_of_which_no_device_has_a_table_are_not_scored() -> None:
    samples = samples_of(activations(H100, 2), Systems.of_catalog())
    assert by_class(samples) == []
    assert inherited(small_groups(samples), []) == []
    assert report([], small_groups(samples))["totals"] == []
