"""Tests of the fits of collectives: known figures are found again, and a table goes through its measurements."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.axis_fit import MeasuredCollective, fit_axis
from benchmarks.collective_files import MeasuredGroup, write_mesh
from benchmarks.collective_fit import (
    Sample,
    errors_of,
    fitted,
    fold_errors,
    report,
    sample_of,
    table_of,
    totals_of,
)
from benchmarks.measurements import Measurement, Systems
from benchmarks.measurements.rows import Question
from tapestry.hardware import load_mesh
from tapestry.hardware.timing import seconds, step_ticks

SIZES = [4.0**k for k in range(6, 16)]
INPUTS = {"op": "all_reduce", "ranks": 8, "ranks_per_node": 8}


def row(size: float, time_s: float, device: str = "a100-sxm4-80gb", **inputs: object) -> Measurement:
    question = Question("collective", device, {**INPUTS, "bytes": int(size), **inputs}, "time", "s")
    return Measurement(f"{size} {inputs}", "made up", question, time_s, True, "ok")


def samples(systems: Systems, *rows: Measurement) -> list[Sample]:
    return [found for found in (sample_of(each, systems) for each in rows) if found is not None]


@pytest.fixture(scope="module")
def systems() -> Systems:
    return Systems.of_catalog()


def test_rows_belong_to_the_tables_of_what_they_state(systems: Systems) -> None:
    network = {"nodes": 2, "ranks": 16, "ranks_per_node": None, "network": "EFAv2 32x100 Gb/s per node"}
    found = samples(
        systems,
        row(1e6, 1e-4),
        row(1e6, 1e-4, "h100-sxm5-80gb"),
        row(1e6, 1e-4, "h100-sxm5-80gb", nvls_used=False),
        row(1e6, 1e-4, "h100-sxm5-80gb", **network),
        row(1e6, 1e-4, op="send_recv", ranks=2, ranks_per_node=1),
    )
    assert [sample.place for sample in found] == [
        MeasuredGroup("dgx-a100", False, "all_reduce", 8, 1, "any"),
        MeasuredGroup("dgx-h100", False, "all_reduce", 8, 1, "in_switch"),
        MeasuredGroup("dgx-h100", False, "all_reduce", 8, 1, "ring"),
        MeasuredGroup("aws-p5", True, "all_reduce", 2, 8, "any"),
        MeasuredGroup("dgx-a100", True, "send_recv", 2, 1, "any"),
    ]


def test_figures_of_an_axis_are_found_again() -> None:
    axis = load_mesh("n300").axes[-1]
    true = replace(axis, latency_s=3.2e-6, efficiency=0.77, collectives=())
    measured = [
        MeasuredCollective("all_gather", 2, n, float(seconds(step_ticks(true, "all_gather", 2, n / 2))))
        for n in SIZES
    ]
    assert fit_axis(axis, measured) == pytest.approx({"latency_s": 3.2e-6, "efficiency": 0.77})


def test_a_table_ascends_and_goes_through_what_agrees(systems: Systems) -> None:
    times = [2e-5 + n / 1e11 for n in SIZES]
    times[4] = 1.9e-5  # an outlier, shorter than that of a quarter of its size
    found = samples(systems, *(row(n, t) for n, t in zip(SIZES, times, strict=True)))
    table = table_of(found[0].place, found, load_mesh("dgx-a100"))
    assert list(table.seconds) == sorted(table.seconds)
    at = dict(zip(table.bytes, table.seconds, strict=True))
    assert [at[n] for n in SIZES[6:]] == pytest.approx(times[6:], rel=0.02)


def test_folds_leave_out_what_they_predict(systems: Systems) -> None:
    found = samples(systems, *(row(n, 2e-5 + n / 1e11) for n in SIZES))
    wrong = found[5]._replace(
        time_s=found[5].time_s * 2, row=replace(found[5].row, value=found[5].time_s * 2)
    )
    errors = fold_errors([*found[:5], wrong, *found[6:]], systems)
    assert errors[wrong.row.id] == pytest.approx(-0.69, abs=0.1)  # half of what was measured
    tables = errors_of(fitted(found, systems), found, errors)
    (line,) = (line for line in report(found, errors, tables) if line["table"] == "made up")
    assert (line["rows"], line["inside_90"]) == (len(SIZES), 0.9)
    totals = totals_of(report(found, errors, tables), found)
    assert totals["without_prediction"] == 0
    total = totals["all collectives"]
    assert isinstance(total, dict) and (total["rows"], total["inside_90"]) == (len(SIZES), 0.9)


def test_written_tables_are_read(systems: Systems, tmp_path: Path) -> None:
    found = samples(systems, *(row(n, 2e-5 + n / 1e11) for n in SIZES))
    table = table_of(found[0].place, found, load_mesh("dgx-a100"))
    file = tmp_path / "dgx-a100.toml"
    source = Path(__file__).parents[2] / "hardware" / "meshes" / "dgx-a100.toml"
    file.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    write_mesh(file, {found[0].place: table})
    read = load_mesh(file)
    assert read.axes[-1].collectives == (table,)
    assert read.network is not None
    assert read.network.collectives == ()
