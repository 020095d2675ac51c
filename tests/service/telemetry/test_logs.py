"""Tests of logs: their two forms, and the ids that join a request to the log of the worker that did its job."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tapestry.service.logs import JsonLines, TextLines
from tapestry.service.settings import SettingsError, log_format
from tapestry.service.telemetry.correlation_fields import correlated
from tapestry.teg.document import dumps
from tests.service.conftest import Run, complaint
from tests.service.processes import Service
from tests.service.programs import two_layers


def record(message: str, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("tapestry.x", logging.WARNING, "f", 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_fields_of_a_job_are_on_all_lines_about_it() -> None:
    with correlated(run_id="r1", worker="ada"), correlated(attempt="2"):
        line = json.loads(JsonLines().format(record("it began", seconds=0.5, secret="x")))
    assert set(line) == {"time", "level", "logger", "message", "run_id", "worker", "attempt", "seconds"}
    assert (line["run_id"], line["worker"], line["attempt"], line["level"]) == ("r1", "ada", "2", "warning")
    assert set(json.loads(JsonLines().format(record("later")))) == {"time", "level", "logger", "message"}


def test_text_is_one_line_with_its_fields_at_the_end() -> None:
    with correlated(run_id="r1"):
        line = TextLines().format(record("first\nsecond"))
    assert line.split(" ", 1)[1] == "WARNING tapestry.x: first second run_id=r1"


def test_the_form_is_an_option_or_a_variable(tapestry: Run) -> None:
    assert log_format({}) == "json"
    assert log_format({"TAPESTRY_LOG_FORMAT": "text"}) == "text"
    assert log_format({"TAPESTRY_LOG_FORMAT": "text"}, "json") == "json"
    with pytest.raises(SettingsError, match="TAPESTRY_LOG_FORMAT is json or text, not 'xml'"):
        log_format({"TAPESTRY_LOG_FORMAT": "xml"})
    assert "--log-format" in complaint(tapestry("worker", "--log-format", "xml"))


@pytest.mark.slow
def test_one_id_joins_a_request_and_the_workers_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Service(f"sqlite:///{tmp_path / 's.db'}", log, "--islands", "1", "--log-format", "json") as service:
        graph = service.post("/v1/graphs", json=json.loads(dumps(two_layers())))["id"]
        body = {"graph_id": graph, "mesh": "dgx-h100", "budget": {"evaluations": 200}, "verify": "none"}
        run_id = service.post("/v1/runs", json=body, headers={"X-Request-ID": "mine-7"})["id"]
        assert service.wait_for_run(run_id)["status"] == "succeeded"
    lines = [json.loads(line) for line in service.log.splitlines() if line.startswith("{")]
    mine = [line for line in lines if line.get("request_id") == "mine-7"]
    assert [line["path"] for line in mine if line["logger"] == "tapestry.api"] == ["/v1/runs"]
    working = [line for line in mine if line["logger"] == "tapestry.worker"]
    assert [line["message"] for line in working] == [f"run {run_id}: attempt 1", f"run {run_id}: done"]
    assert {(line["run_id"], line["attempt"]) for line in working} == {(run_id, "1")}
    assert all(line["worker"] for line in working)
