"""Tests of what loading a tensor takes, as programs and users state it."""

from __future__ import annotations

import math

import pytest

import tapestry
from tapestry.teg.document import dumps, loads
from tapestry.teg.faults import ArgumentError
from tapestry.teg.graph import attributes
from tapestry.teg.loading import LoadCost, load_of
from tapestry.teg.operators.boundary import SOURCE

COST = LoadCost(0.5, 1e9, "gpu:3")


def test_seconds_and_bytes_at_a_rate_add_up() -> None:
    assert COST.time_s(2_000_000_000) == 2.5
    assert LoadCost(0.5).time_s(10**12) == 0.5
    assert LoadCost().time_s(10**12) == 0.0
    assert LoadCost.from_json(COST.to_json()) == COST


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"seconds": -1.0}, "seconds: expected a number of at least 0, not -1.0"),
        ({"seconds": math.inf}, "seconds: expected a number of at least 0, not inf"),
        ({"bytes_per_s": 0}, "bytes_per_s: expected a number above 0, not 0"),
        ({"bytes_per_s": True}, "bytes_per_s: expected a number above 0, not True"),
        ({"device": 3}, "device: expected coordinates such as gpu:3, not 3"),
    ],
)
def test_what_no_cost_has_is_refused(stated: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LoadCost(**stated)  # type: ignore[arg-type]
    given = attributes(
        shape=(2,), dtype="float32", role="activation", **{f"load_{k}": v for k, v in stated.items()}
    )
    with pytest.raises(ValueError, match=message):
        SOURCE.infer(given, ())


def test_a_source_states_its_cost_in_python_and_in_a_document() -> None:
    with tapestry.program() as p:
        x = p.input("x", batch=8, feature=16, load=COST)
        p.output("y", x @ p.parameter("w", feature=16, hidden=4, load=LoadCost(bytes_per_s=2e9)))
    for graph in (p.graph, loads(dumps(p.graph))):
        found = {b.site: load_of(dict(b.definition.attributes)) for b in graph.sources}
        assert found == {"x": COST, "w": LoadCost(bytes_per_s=2e9)}
    with tapestry.program() as plain:
        plain.output("y", plain.input("x", batch=8, feature=16).relu())
    assert load_of(dict(plain.graph.sources[0].definition.attributes)) is None
    assert plain.graph.structural_hash != p.graph.structural_hash
