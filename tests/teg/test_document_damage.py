"""Whatever happens to a document, reading and validating answer with issues and never with a traceback."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teg.decoding import DocumentError
from teg.document import from_document, loads, to_document
from teg.validate import InvalidGraph, check, validate
from tests.teg.programs import programs, small_program

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


@settings(max_examples=400)
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
        except InvalidGraph as error:
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
