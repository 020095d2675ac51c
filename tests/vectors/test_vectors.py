"""Tests that all cases of our folder pass, and that the program that runs them reports the truth."""

import json
from pathlib import Path

import pytest

from tests.cases import one_in
from tests.vectors.__main__ import main
from tests.vectors.adapters import ADAPTERS
from tests.vectors.runner import disputes, load, run, same

FILES = sorted((Path(__file__).parent / "cases").glob("*.json"))
CASES = [pytest.param(case, id=case["id"]) for path in FILES for case in load(path)]


@pytest.mark.parametrize("case", one_in(4, CASES))
def test_given_a_published_case_then_the_product_agrees(case: dict) -> None:
    verdict = run(case, ADAPTERS, disputes())
    assert verdict.outcome in ("passed", "disputed"), verdict


def test_given_a_wrong_expectation_then_it_is_printed_and_the_exit_code_shows_it(tmp_path, capsys) -> None:
    wrong = {
        "id": "w",
        "kind": "z_size",
        "input": {"shapes": [[2, 3]]},
        "expect": {"sizes": [7], "note": "x"},
    }
    other = {"id": "o", "kind": "unheard_of", "input": {}, "expect": {"x": 1}}
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([wrong, other, {**wrong, "id": "r", "expect": {"sizes": [6]}}]))
    assert main([str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "failed w (z_size)" and '"sizes": [7]' in lines[1] and '"sizes": [6]' in lines[2]
    assert "no adapter" in lines[5] and lines[-1] == "1 passed, 2 failed, 0 disputed"
    assert main([str(file), "--skip", "unheard_of", "--kinds", "nothing"]) == 0


def test_a_disputed_failure_shows_its_proof_and_does_not_fail() -> None:
    case = {"id": "d", "kind": "z_size", "input": {"shapes": [[]]}, "expect": {"sizes": [0]}}
    verdict = run(case, ADAPTERS, {"d": "the empty product is 1"})
    assert (verdict.outcome, verdict.actual) == ("disputed", "the empty product is 1")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(1, True, False), (1, 1.0, True), (0.1 + 0.2, 0.3, True), ([1], [1, 2], False), ({"a": 1}, {}, False)],
)
def test_values_are_compared_as_json_means_them(a: object, b: object, equal: bool) -> None:
    assert same(a, b) is equal


def test_a_refusal_is_distinguished_from_a_crash() -> None:
    case = {"id": "c", "kind": "x", "input": {}, "expect": {"error": True}}

    def refuses(_: dict, __: dict) -> dict:
        raise ValueError("refused")

    def crashes(_: dict, __: dict) -> dict:
        raise KeyError("oops")

    assert run(case, {"x": refuses}, {}).outcome == "passed"
    assert run(case, {"x": crashes}, {}).outcome == "failed"
    contains = {**case, "expect": {"error_contains": "fus"}}
    assert run(contains, {"x": refuses}, {}).outcome == "passed"
