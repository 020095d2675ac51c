"""Tests that faults of a request's shape are reported in the API's words, each place once, with near names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from tapestry.service.api.bodies import RequestBody
from tapestry.service.api.shape_faults import shape_faults


class Inner(RequestBody):
    seconds: float = Field(1.0, gt=0, le=10)


class Form(RequestBody):
    graph_id: str = Field(pattern="^[0-9a-f]{32}$")
    mesh: str | dict[str, Any] = "one"
    names: list[Annotated[str, Field(max_length=5)]] = Field([], max_length=2)
    seed: int = 0
    values: bool = True
    backend: Literal["numpy", "torch"] = "numpy"
    inner: Inner = Inner(seconds=1.0)


def reported(**members: Any) -> dict[str, str]:
    """Return what is said of a body with these members, by place."""
    body = {"graph_id": "0" * 32, **members}
    try:
        Form.model_validate(body)
    except ValidationError as error:
        details = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        return {fault.pointer: fault.detail for fault in shape_faults(details, body, Form)}
    return {}


@pytest.mark.parametrize(
    ("members", "pointer", "message"),
    [
        ({"graph_id": "xyz"}, "/graph_id", "expected 32 digits from 0 to 9 and a to f, not 'xyz'"),
        ({"mesh": 3}, "/mesh", "expected a text or an object, not 3"),
        ({"names": "a"}, "/names", "expected a list, not 'a'"),
        ({"names": ["a", "b", "c"]}, "/names", "it has 3 members; it may have at most 2"),
        ({"names": ["abcdef"]}, "/names/0", "the text is longer than 5 characters"),
        ({"seed": "1"}, "/seed", "expected a whole number, not '1'"),
        ({"seed": 1.5}, "/seed", "expected a whole number, not 1.5"),
        ({"values": None}, "/values", "expected true or false, not null"),
        ({"backend": "jax"}, "/backend", "expected one of numpy, torch, not 'jax'"),
        ({"inner": {"seconds": 0}}, "/inner/seconds", "expected a number above 0.0, not 0"),
        (
            {"inner": {"second": 1}},
            "/inner/second",
            "there is no member 'second' here; did you mean seconds?",
        ),
        ({"inner": []}, "/inner", "expected an object, not a list"),
    ],
)
def test_a_fault_says_what_was_expected_and_what_came(members: dict, pointer: str, message: str) -> None:
    assert reported(**members) == {pointer: message}


def test_no_word_of_the_library_comes_through() -> None:
    found = reported(graph_id=1, mesh=2, names=3, seed=[], values={}, backend=4, inner=5, other=6)
    assert len(found) == 8
    text = " ".join(found.values())
    assert not any(word in text for word in ("should", "Input", "pydantic", "valid", "match", "pattern"))


def test_a_long_value_is_cut_short() -> None:
    assert reported(seed="9" * 500)["/seed"].endswith("...")
