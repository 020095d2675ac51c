"""Tests that reading and validating any damaged document answers with issues and never with a traceback."""

import copy
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.teg.decoding import DocumentError
from tapestry.teg.document import from_document, load, loads, to_document
from tapestry.teg.validate import InvalidGraphError, check, validate
from tests.cases import examples
from tests.teg.graphs import programs, small_program

Place = tuple[Any, Any]  # a container and a key in it

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from([2**40, 2**70, 0.5, 1e300, float("inf"), float("nan")])
    | st.sampled_from(
        ["", "x", "w", "y", "float32", "sum", "cell", "conv", "relu", "input", "\ud800", "a b"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["float", "int", "start"]), inner)
    ),
    max_leaves=4,
)


def places(value: Any) -> Iterator[Place]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from places(value[key])


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(to_document(draw(st.just(small_program()) | programs())))
    for _ in range(draw(st.integers(1, 3))):
        spots = list(places(document))
        container, key = spots[draw(st.integers(0, len(spots) - 1))]
        how = draw(st.sampled_from(["put", "put", "copy", "drop"]))
        if how == "put":
            container[key] = draw(anything)
        elif how == "copy":
            other, name = spots[draw(st.integers(0, len(spots) - 1))]
            container[key] = copy.deepcopy(other[name])
        else:
            del container[key]
    return document


@settings(max_examples=examples(150))
@given(damaged())
def test_given_a_damaged_document_then_issues_with_places(document: Any) -> None:
    try:
        graph = from_document(document)
    except DocumentError as error:
        assert all(issue.path.startswith("$") and issue.message and issue.expected for issue in error.issues)
        return
    issues = validate(graph)
    assert all(issue.path.startswith("$") and issue.message and issue.expected for issue in issues)
    if issues:
        try:
            check(graph)
        except InvalidGraphError as error:
            assert error.issues == tuple(issues)
    else:
        assert graph.structural_hash == from_document(to_document(graph)).structural_hash


@given(st.binary(max_size=200))
def test_given_any_bytes_then_a_clear_refusal(content: bytes) -> None:
    try:
        loads(content)
    except DocumentError as error:
        assert error.path == "$"
    else:
        raise AssertionError("random bytes were read as a program")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [10, 150, 199, 250, 900, 990, 5_000, 200_000])
@pytest.mark.parametrize(
    "place",
    [
        '"definitions": [{"operator": "cell", "attributes": {"expr": %s}, "signature": null}]',
        '"definitions": [{"operator": "cell", "attributes": {"a": {"float": %s}}, "signature": null}]',
        '"definitions": [{"operator": "cell", "attributes": {}, "signature": null, "costs": {"a": %s}}]',
        '"definitions": [{"operator": "cell", "attributes": {}, "signature": %s}]',
        '"tensors": [{"site": "t", "shape": %s, "dtype": "bool"}]',
        '"blocks": [{"site": %s}]',
        '"data": {"t": %s}',
        '"unknown": %s',
    ],
)
def test_however_deep_a_document_nests_it_is_refused(place: str, depth: int) -> None:
    rest = {"teg": 1, "name": "deep", "definitions": [], "tensors": [], "blocks": [], "data": {}}
    rest.pop(place.split('"')[1], None)
    text = json.dumps(rest)[:-1] + ", " + place % nested(depth) + "}"
    if "expr" in place and depth <= 200:
        assert loads(text).blocks == ()
        return
    with pytest.raises(DocumentError):
        loads(text)


def test_a_file_that_is_too_large_is_not_even_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(2 * 2**30)
    started = time.monotonic()
    with pytest.raises(DocumentError, match="2147483648 bytes; at most 1073741824 are accepted"):
        load(huge)
    assert time.monotonic() - started < 1


def test_a_packed_file_is_unpacked_no_further_than_the_limit(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(40):
            file.write(b" " * 2**20)
    with pytest.raises(DocumentError, match="more than 1048576 bytes"):
        load(bomb, max_bytes=2**20)


def test_too_many_values_are_refused_before_they_are_read() -> None:
    with pytest.raises(DocumentError, match="51000000 values; at most 50000000 are read"):
        loads(b"[" + b"," * 51_000_000)


def test_a_very_long_name_is_quoted_in_part() -> None:
    key = "k" * 10_000_000
    empty = {"teg": 1, "name": "", "definitions": [], "tensors": [], "blocks": [], "data": {}}
    for text in (json.dumps({**empty, key: 1}), f'{{"{key}": 1, "{key}": 2}}'):
        with pytest.raises(DocumentError) as error:
            loads(text)
        assert len(str(error.value)) < 1000
