"""Tests of the options of a run: their descriptions, their forms, and the keywords of `optimize()`."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tapestry.optimizer.archive.constraints import Constraint, parse_constraint
from tapestry.optimizer.run.option_fields import Option
from tapestry.optimizer.run.options import (
    OPTIONS,
    OptionError,
    OptionKeywords,
    RunOptions,
    fault_line,
    options_and_faults,
)
from tapestry.optimizer.run.plan import Budget
from tapestry.teg.faults import Fault
from tapestry.teg.sharding.check import INPUT_OPTIONS, OUTPUT_OPTIONS

# Options that `optimize()` has as parameters of another type, or that are about its result.
NOT_KEYWORDS = {"objectives", "start_from", "prior", "verify", "execution_seconds"}
BY_NAME = {option.name: option for option in OPTIONS}


def described(name: str) -> Option:
    return BY_NAME[name]


def changed(options: RunOptions | None, keywords: dict[str, Any]) -> RunOptions:
    """Return the options with the changes of keywords that have no faults."""
    resolved, faults = options_and_faults(options, keywords)
    assert faults == () and list(resolved.faults()) == []
    return resolved


def faults_of(keywords: dict[str, Any]) -> str:
    """Return all faults of keywords as one text."""
    resolved, faults = options_and_faults(None, keywords)
    return "; ".join(map(fault_line, (*faults, *resolved.faults())))


def test_every_field_is_described_in_its_order() -> None:
    assert [option.name for option in OPTIONS] == [field.name for field in dataclasses.fields(RunOptions)]
    assert (
        len({option.flag for option in OPTIONS}) == len({option.path for option in OPTIONS}) == len(OPTIONS)
    )
    assert all(option.description and option.title for option in OPTIONS)


def test_kinds_and_choices_follow_from_the_types() -> None:
    kinds = {option.name: (option.kind, option.is_optional) for option in OPTIONS}
    assert kinds["objectives"] == ("texts", False)
    assert kinds["rules"] == ("texts", True)
    assert kinds["pins"] == ("pairs", False)
    assert kinds["seconds"] == ("number", True)
    assert kinds["seed"] == ("integer", False)
    assert kinds["start_from"] == ("text", True)
    assert (described("inputs").kind, described("inputs").choices) == ("choice", INPUT_OPTIONS)
    assert described("outputs").choices == OUTPUT_OPTIONS


def test_a_search_without_limits_takes_ten_seconds() -> None:
    assert (RunOptions().seconds, RunOptions().evaluations) == (20.0, None)
    assert RunOptions(evaluations=5).seconds is None
    assert RunOptions(deadline_seconds=5).seconds is None


def test_json_has_the_form_of_a_request() -> None:
    requested = RunOptions(objectives=("time_s",), seconds=2.0, pins={"y": "[-]"}, rules=(), devices="all")
    assert requested.to_json()["budget"] == {"seconds": 2.0, "evaluations": None, "deadline_seconds": None}
    assert requested.to_request() == {
        "objectives": ["time_s"],
        "budget": {"seconds": 2.0},
        "pins": {"y": "[-]"},
        "rules": [],
        "devices": "all",
    }
    for document in (requested.to_json(), requested.to_request(), requested.to_stored()):
        assert RunOptions.from_json(json.loads(json.dumps(document))) == requested


def test_options_that_an_older_document_lacks_have_their_defaults() -> None:
    assert RunOptions.from_json({"version": 1, "seed": 3}) == RunOptions(seed=3)


@pytest.mark.parametrize("document", [{"version": 3}, {"version": 1, "shade": "red"}])
def test_documents_of_a_newer_release_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="newer release"):
        RunOptions.from_json(document)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objectives": "time_s"}, "objectives: expected a list of texts, not 'time_s'"),
        ({"objectives": []}, "objectives: expected at least 1"),
        ({"seed": -1}, "seed: expected a whole number from 0 to"),
        ({"seed": True}, "seed: expected a whole number from 0 to 2**63 - 1, not True"),
        ({"seconds": 0}, "seconds: expected a number above 0, not 0"),
        ({"seconds": float("nan")}, "seconds: expected a number above 0, not nan"),
        ({"islands": 0}, "islands: expected a whole number of at least 1, not 0"),
        ({"pins": ["y"]}, "pins: expected texts by name"),
        ({"layouts": "natve"}, "layouts: expected one of chosen, native, not 'natve'; did you mean native?"),
        ({"devices": None}, "devices: expected one of any, all, not None"),
    ],
)
def test_wrong_values_are_explained(wrong: dict[str, Any], message: str) -> None:
    assert message in faults_of(wrong)


def test_all_faults_come_at_once() -> None:
    assert re.search(
        r"seed: .*; devices: .*; layouts: ", faults_of({"seed": -1, "devices": "some", "layouts": ""})
    )


def test_options_are_checked_when_they_are_made() -> None:
    with pytest.raises(OptionError) as caught:
        RunOptions(sed=1, seed="x", island=2)  # type: ignore[call-arg, arg-type]
    assert caught.value.faults == (
        "RunOptions() has no argument 'sed'; did you mean seed or seconds?",
        "RunOptions() has no argument 'island'; did you mean islands?",
        "seed: expected a whole number from 0 to 2**63 - 1, not 'x'",
    )


def test_options_of_a_request_are_checked_with_the_rest_of_it() -> None:
    given = RunOptions.as_given({"seed": "x"})
    assert [fault.pointer for fault in given.faults()] == ["/seed"]
    assert given.changed(seed=3) == RunOptions(seed=3)


def test_a_service_allows_less() -> None:
    (fault,) = RunOptions(islands=65).faults({"islands": 64})
    assert fault == Fault("/islands", "expected a whole number from 1 to 64, not 65")


def test_keywords_are_the_options_of_a_search() -> None:
    keywords = OptionKeywords.__annotations__.keys() - {"budget"}
    assert keywords == BY_NAME.keys() - NOT_KEYWORDS


def test_keywords_change_given_options() -> None:
    given = RunOptions(seconds=20.0, seed=3, rules=("fuse_cells",))
    keywords = {"seed": 4, "budget": Budget(evaluations=7), "objectives": ["time_s"]}
    assert changed(given, keywords) == RunOptions(("time_s",), evaluations=7, seed=4, rules=("fuse_cells",))
    assert changed(given, {"evaluations": 9}).seconds is None
    assert changed(given, {"pins": None}) == given


def test_an_unknown_keyword_is_answered_with_near_ones() -> None:
    assert "optimize() has no option 'objectivs'; did you mean objectives" in faults_of({"objectivs": ()})


@pytest.mark.parametrize("bound", [1e9 / 3, 5e-3, 2.0**36, 1e-7, 80e9])
def test_a_constraint_keeps_its_bound_to_the_last_digit(bound: float) -> None:
    (text,) = changed(None, {"constraints": [Constraint("time_s", bound, "s")]}).constraints
    assert parse_constraint(text).bound == bound


def test_options_are_read_without_the_search(root: Path) -> None:
    program = "import sys, tapestry.optimizer.run.options; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=root, timeout=60).returncode == 0
