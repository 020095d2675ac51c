"""Tests that text forms are exact inverses, and say where they cannot be read."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.sharding.text import (
    parse_spec,
    parse_strategy,
    placements_from_document,
    placements_to_document,
)
from tapestry.teg.signature import MONOIDS
from tests.teg.sharding.programs import random_placements, random_program
from tests.teg.sharding.specs import random_mesh

AXES = st.lists(
    st.sampled_from(["gpu.0", "gpu.1", "node.0", "data-parallel.10", "_x.2"]), max_size=3, unique=True
)
SPLITS = st.builds(Split, AXES.map(tuple), st.sampled_from([1, 1, 2, 64]))
WINDOWS = st.none() | st.builds(
    ChunkWindow,
    st.integers(0, 99),
    *(st.integers(-9, 9),) * 2,
    st.integers(0, 9),
    *(st.integers(-9, 99),) * 2,
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    dims = tuple(draw(st.lists(SPLITS, max_size=4)))
    windows = tuple(draw(st.lists(WINDOWS, min_size=len(dims), max_size=len(dims))))
    partial = tuple(draw(AXES))
    monoid = draw(st.sampled_from(MONOIDS)) if partial else None
    return Spec(dims, partial, monoid, windows if any(w is not None for w in windows) else ())


@given(specs())
def test_specs_round_trip(spec: Spec) -> None:
    assert parse_spec(str(spec), len(spec.dims)) == spec
    assert parse_spec(str(spec).replace(" ", "").replace("]", " ] ")) == spec


@given(st.lists(SPLITS, max_size=4))
def test_strategies_round_trip(splits: list[Split]) -> None:
    strategy = Strategy(tuple(splits))
    assert parse_strategy(str(strategy), len(splits)) == strategy


def test_what_a_person_writes() -> None:
    assert str(Spec((Split(("a.0", "a.1"), 64), WHOLE), ("b.0",), "sum")) == "[a.0*a.1/64, -] sum(b.0)"
    assert parse_spec(" [ a.0 * a.1 / 64 , - ] sum( b.0 ) ") == Spec(
        (Split(("a.0", "a.1"), 64), WHOLE), ("b.0",), "sum"
    )
    assert parse_spec("[]") == Spec(())
    assert parse_strategy("(-, gpu.0)") == Strategy((WHOLE, Split(("gpu.0",))))


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("gpu.0", 0, "'['"),
        ("[gpu.0", 6, "','"),
        ("[gpu.0, ]", 8, "a sub-axis such as gpu.0, or '-'"),
        ("[gpu.0*]", 7, "a sub-axis"),
        ("[gpu.0/0]", 7, "an integer of at least 1"),
        ("[gpu.0/x]", 7, "an integer"),
        ("[gpu.0@4:1]", 10, "':'"),
        ("[-] plus(gpu.0)", 4, "a monoid (sum, max"),
        ("[-] sum(-)", 8, "partial on"),
        ("[-] sum(gpu.0", 13, "')'"),
        ("[-] [-]", 4, "nothing more"),
        ("[-, -, -]", 8, "2 dimensions before this bracket, not 3"),
    ],
)
def test_specs_that_cannot_be_read(text: str, position: int, expected: str) -> None:
    with pytest.raises(ValueError, match=rf"position {position}:") as error:
        parse_spec(text, 2 if text == "[-, -, -]" else None)
    assert expected in str(error.value)


def test_strategies_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="position 0: expected '\\('"):
        parse_strategy("[-]")
    with pytest.raises(ValueError, match="expected 2 index dimensions before this bracket, not 1"):
        parse_strategy("(gpu.0)", 2)


@given(st.integers(0, 2**32 - 1))
def test_placements_round_trip_through_json(seed: int) -> None:
    rng = np.random.default_rng(seed)
    placements = random_placements(rng, random_program(rng, steps=4), random_mesh(rng))
    text = json.dumps(placements_to_document(placements))
    assert placements_from_document(json.loads(text)) == placements


def test_every_gene_is_kept() -> None:
    placement = Placement(Strategy((Split(("gpu.0",), 2),)), (0, 3), (False, True), ("f32[3]{0}",))
    placements = Placements({"a b": placement}, outputs="gathered")
    document = placements_to_document(placements)
    assert document["blocks"]["a b"] == {
        "strategy": "(gpu.0/2)",
        "prefetch": [0, 3],
        "regather": [False, True],
        "layouts": ["f32[3]{0}"],
    }
    assert placements_from_document(document) == placements


def test_a_broken_document_reports_all_issues() -> None:
    document = placements_to_document(Placements())
    document["order"] = 3
    document["blocks"] = {
        "a": {"strategy": "(gpu.0"},
        "b": {"strategy": "()", "prefetch": [True], "color": "red"},
        "c": [],
    }
    with pytest.raises(ValueError, match="5 issues") as error:
        placements_from_document(document)
    for path in (
        "$.order: 3",
        "$.blocks.a.strategy:",
        "$.blocks.b:",
        "$.blocks.b.prefetch: [True]",
        "$.blocks.c",
    ):
        assert path in str(error.value)


@pytest.mark.parametrize("document", [None, [], {}, {"format": "other", "version": 1, "blocks": {}}])
def test_what_is_no_document_at_all(document: object) -> None:
    with pytest.raises(ValueError, match="these are no placements"):
        placements_from_document(document)
