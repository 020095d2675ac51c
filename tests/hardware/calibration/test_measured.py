"""Tests of measured kernels: the files have what was measured, and each is predicted as a program of that name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tapestry.hardware import load_device, load_mesh
from tapestry.hardware.calibration.measured import measured_kernels, measured_tables
from tapestry.hardware.calibration.probes import GPU_SIZES, probe_named, probes
from tapestry.hardware.calibration.validation import on_one_device, predicted_s


def test_a_probe_is_built_again_from_its_name() -> None:
    for probe in probes(("float32", "bfloat16"), GPU_SIZES):
        assert probe_named(probe.name).graph == probe.graph, probe.name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "softmax",
        "softmax 64",
        "nothing 64x1024",
        "product 1x2x3x4",
        "softmax 64xx",
        "softmax 64x1024 float32",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected an operator with its sizes"):
        probe_named(name)


def test_the_h200_has_what_the_calibration_measured() -> None:
    results = json.loads(Path("benchmarks/results/h200-calibration.json").read_text())
    (table,) = measured_tables(load_device("h200"))
    assert table.seconds == pytest.approx(results["probes"], rel=1e-3)
    assert (table.launch, table.is_fitted) == ("unfused", False)
    assert results["gpu"] in table.source
    assert results["date"] in table.source


def test_the_a100_has_the_published_rows_that_the_tests_have() -> None:
    rows = json.loads(Path("tests/data/measurements/rows.json").read_text())["entries"]
    published = {row["source"]: row for row in rows if row["kind"] == "gemm"}
    tables = measured_tables(load_device("a100-sxm4-80gb"))
    assert {table.source for table in tables} == set(published)
    for table in tables:
        row = published[table.source]
        m, n, k = (row["inputs"][name] for name in "MNK")
        assert table.seconds == {f"product 1x{m}x{n}x{k} float16": pytest.approx(row["predict"]["value"])}
        assert table.is_fitted
        assert row["group"] in load_device("a100-sxm4-80gb").sources["kernels.matrix_product.fp16"]


def test_predictions_are_those_of_the_simulator_on_the_device() -> None:
    found = {each.name: each for each in measured_kernels(load_device("h200"))}
    name = "softmax 8192x1024"
    mesh = load_mesh("dgx-h200").launched("unfused")
    expected = predicted_s(on_one_device(probe_named(name).graph), mesh)
    assert found[name].predicted.seconds == expected
    assert found[name].error == pytest.approx(expected / 2.087e-05 - 1)
    assert found[name].sample.moved == 2 * 8192 * 1024 * 4
    product = found["product 1x4096x4096x4096 bfloat16"].sample
    assert (product.kernel, product.flops) == ("matrix_product", 2 * 4096**3)


def test_most_devices_have_no_measured_kernel() -> None:
    assert measured_kernels(load_device("tpu-v5e")) == []
