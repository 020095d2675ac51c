"""Tests of predictions without the rows of their source: what is fitted again, what stays, and what is inherited."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fidelity import fidelity
from benchmarks.held_out import predict_held_out, predictions_of, systems_without
from benchmarks.measurements import Measurement, Question, Systems, read_rows
from benchmarks.measurements.sources import by_source, source_of

ROWS = read_rows([Path("tests/data/measurements/rows.json")])
H100, A100 = "h100-sxm5-80gb", "a100-sxm4-80gb"


def measured(source: str, factor: float = 1.0) -> list[Measurement]:
    """Return rows of an activation on an H100 at half of the memory's rate, times a factor."""
    rate = Systems.of_catalog().devices[H100].memory_bytes_per_s / 2
    rows = []
    for elements in (2**20 * k for k in range(64, 74)):
        inputs = {"dtype": "fp16", "op": "gelu", "elements": elements}
        question = Question("memory_bound_op", H100, inputs, "time", "s")
        time_s = factor * 4 * elements / rate
        rows.append(Measurement(f"{source} {elements}", source, question, time_s, True, "ok", source))
    return rows


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("github example/bench data/gemm @0123 (MLSys'24)", "example/bench"),
        ("example/bench (MIT), scripts", "example/bench"),
        ("a table of a paper, of MFU/HFU", "a table of a paper, of MFU/HFU"),
        ("", "g"),
    ],
)
def test_a_source_is_the_repository_that_its_text_begins_with(text: str, source: str) -> None:
    assert source_of(replace(ROWS[0], source=text, group="g")) == source


def test_without_rows_to_leave_out_nothing_changes() -> None:
    systems = Systems.of_catalog()
    assert systems_without(ROWS, [], systems) == systems


def test_the_rows_of_a_source_have_no_part_in_their_prediction() -> None:
    mine, others = measured("one/mine"), measured("two/others", 1.5)
    found = predictions_of(mine + others, "one/mine")
    doubled = [replace(row, value=2 * row.value) for row in mine]
    assert [p.value for p in found] == [p.value for p in predictions_of(doubled + others, "one/mine")]
    shorter = [replace(row, value=row.value / 1.3) for row in others]
    assert all(
        a.value is not None and b.value is not None and b.value < 0.9 * a.value
        for a, b in zip(found, predictions_of(mine + shorter, "one/mine"), strict=True)
    )


def test_others_say_what_the_rows_that_are_left_out_do_not() -> None:
    mine, others = measured("one/mine"), measured("two/others")
    errors = [abs(p.error) for p in predictions_of(mine + others, "one/mine")]
    assert sum(errors) / len(errors) < 0.02
    lone = systems_without(mine, mine, Systems.of_catalog())
    assert A100 in lone.devices[H100].kernels["elementwise.fp16"].origin
    assert (
        lone.devices[H100].kernels["softmax.fp16"]
        == Systems.of_catalog().devices[H100].kernels["softmax.fp16"]
    )


def reductions(source: str, time_s: float) -> list[Measurement]:
    """Return rows of all-reduces among eight H100s, each twice as long as the one of half the bytes."""
    rows = []
    for k in range(12):
        inputs = {"op": "all_reduce", "ranks": 8, "bytes": 2 ** (20 + k)}
        question = Question("collective", H100, inputs, "time", "s")
        rows.append(Measurement(f"{source} {k}", source, question, time_s * 2**k, True, "ok", source))
    return rows


def test_collectives_are_fitted_to_the_rows_of_others() -> None:
    mine, others = reductions("one/mine", 1e-4), reductions("two/others", 2e-4)
    errors = [p.error for p in predictions_of(mine + others, "one/mine")]
    assert errors == pytest.approx([1.0] * len(mine), abs=0.05)
    changed = systems_without(mine + others, mine, Systems.of_catalog())
    (sent, known) = (
        [t for axis in systems.meshes["dgx-h100"].axes for t in axis.collectives if t.kind == "send_recv"]
        for systems in (changed, Systems.of_catalog())
    )
    assert sent == known  # no row is about them
    without = systems_without(mine, mine, Systems.of_catalog())
    (axis,) = without.meshes["dgx-h100"].axes
    assert "in_switch" not in {table.algorithm for table in axis.collectives}


def test_every_row_is_predicted_once_and_scored_by_source() -> None:
    rows = measured("one/mine") + measured("two/others")
    found = fidelity(rows, predict_held_out)
    assert found["predicted"] == found["rows"] == 20
    assert [(each["name"], each["rows"]) for each in found["sources"]] == [
        ("one/mine", 10),
        ("two/others", 10),
    ]
    assert by_source(rows).keys() == {"one/mine", "two/others"}
