"""Tests of the command line of fits and predictions: rows are read, and damaged ones end it with all faults."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measurements.command_line import read_command_line
from benchmarks.measurements.scores import log_scores


def test_the_rows_of_all_files_are_read(tmp_path: Path) -> None:
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in files:
        path.write_text(json.dumps({"entries": []}))
    found, rows = read_command_line(None, "", "write", ["--write", *map(str, files)])
    assert (found.files, found.write, found.json, rows) == (files, True, None, [])
    with pytest.raises(SystemExit):
        read_command_line(None, "", arguments=["--write", *map(str, files)])


def test_damaged_rows_end_the_program_with_all_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"entries": [{"id": "first"}, {"id": "second"}]}))
    with pytest.raises(SystemExit) as ended:
        read_command_line(None, "", arguments=[str(path)])
    message = capsys.readouterr().err
    assert ended.value.code == 2
    assert "first" in message and "second" in message


def test_scores_of_logarithms_are_relative_errors() -> None:
    logs = np.log([1.1, 0.9, 1.0])
    assert log_scores(logs) == {
        "rows": 3,
        "mean_error": pytest.approx(0.0667, abs=1e-4),
        "median_error": 0.1,
        "bias": round(float(logs.mean()), 4),
    }


def test_what_is_left_out_is_offered_where_it_has_a_help(tmp_path: Path) -> None:
    (path := tmp_path / "a.json").write_text(json.dumps({"entries": []}))
    arguments = [str(path), "--leave-out", "source"]
    found, _ = read_command_line(None, "", arguments=arguments, leave_out_help="leave out")
    assert found.leave_out == "source"
    for wrong in (["--leave-out", "table"], []):
        with pytest.raises(SystemExit):
            read_command_line(
                None, "", arguments=[*arguments, *wrong], leave_out_help="leave out" if wrong else ""
            )
