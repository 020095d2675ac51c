"""Tests of the wording of faults: near names, values as messages quote them, lists of faults."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tapestry.teg.faults import (
    ArgumentError,
    escape,
    expected,
    joined,
    near_hint,
    no_such,
    one_of,
    unescape,
    value_text,
)


def test_near_names_come_first_and_all_names_else() -> None:
    assert near_hint("tme_s", ("time_s", "energy_j")) == "did you mean time_s?"
    assert near_hint("zzz", ("time_s", "energy_j")) == "known are time_s, energy_j"
    assert near_hint("zzz", [f"rule_{k}" for k in range(100)]).endswith("rule_39, ... (100 in all)")
    assert near_hint("zzz", ()) == "there are none"
    assert no_such("mesh", "dgx-h10", ["dgx-h100"]) == "there is no mesh 'dgx-h10'; did you mean dgx-h100?"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (-1, "-1"),
        ("x", "'x'"),
        ([], "[]"),
        (object(), "a value of type object"),
        (int, "the class int"),
        (len, "the function len"),
    ],
)
def test_a_value_is_quoted_in_one_short_line(value: Any, text: str) -> None:
    assert value_text(value) == text
    assert len(value_text(["long"] * 1000)) < 60


def test_a_fault_says_what_was_expected_and_what_came() -> None:
    assert expected("devices", one_of(("any", "all")), 3) == "devices: expected one of any, all, not 3"
    assert one_of(("numpy",)) == "numpy"


def test_faults_are_joined_without_a_semicolon_behind_a_question() -> None:
    assert joined(["a", "did you mean b?", "c"]) == "a; did you mean b? c"


def test_the_error_of_arguments_is_of_both_kinds_and_keeps_its_faults() -> None:
    error = pickle.loads(pickle.dumps(ArgumentError("a", "b")))
    assert error.faults == ("a", "b") and str(error) == "a; b"
    assert isinstance(error, TypeError) and isinstance(error, ValueError)


def test_names_are_escaped_in_pointers() -> None:
    assert escape("a/b~c") == "a~1b~0c" and unescape(escape("a/b~1c")) == "a/b~1c"
