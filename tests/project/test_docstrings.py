"""Tests of docstrings: a verb begins that of a function, a noun phrase that of a class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.project.source import PACKAGES, Defined, modules

EVERYWHERE = (*PACKAGES, "examples", "benchmarks", "tests")

# Words that begin a clause without a verb, or a riddle.
NOT_AT_THE_START = {
    *(
        "What",
        "Whether",
        "How",
        "Where",
        "Which",
        "Who",
        "Whose",
        "Why",
        "When",
        "Those",
        "Of",
        "Without",
        "Per",
        "By",
    ),
    *("Everything", "Whatever", "Whoever"),
}
# Words that begin a noun phrase: a function is described by what it does.
NO_VERB = {
    *(
        "The",
        "A",
        "An",
        "All",
        "Any",
        "Each",
        "Every",
        "Both",
        "One",
        "Two",
        "Some",
        "Its",
        "Their",
        "No",
        "None",
    ),
    *(
        "Left",
        "Right",
        "Bytes",
        "Elements",
        "Rows",
        "Offsets",
        "Values",
        "As",
        "If",
        "In",
        "At",
        "For",
        "On",
        "True",
    ),
}
PROPERTIES = {"property", "cached_property"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def documented() -> Iterator[tuple[str, Defined, str]]:
    """Yield the place, node and first word of every docstring of ours."""
    for module in modules(EVERYWHERE):
        for defined in module.contents.definitions:
            if text := defined.docstring:
                place = f"{module.relative_path}:{defined.line}: {text.splitlines()[0]}"
                yield place, defined, text.split(maxsplit=1)[0]


def is_property(defined: Defined) -> bool:
    """Return whether a definition is a property, which is described like an attribute."""
    return any(decorator.rpartition(".")[2] in PROPERTIES for decorator in defined.decorators)


@pytest.mark.slow
def test_no_docstring_begins_with_a_clause_without_a_verb() -> None:
    wrong = [place for place, _, first in documented() if first in NOT_AT_THE_START]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_docstrings_of_functions_begin_with_a_verb() -> None:
    wrong = [
        place
        for place, node, first in documented()
        if node.kind in FUNCTIONS and not is_property(node) and (first in NO_VERB or not first[0].isupper())
    ]
    assert not wrong, "\n".join(wrong)


def test_docstrings_of_classes_begin_with_no_verb() -> None:
    wrong = [
        place
        for place, node, first in documented()
        if node.kind is ast.ClassDef and first in {"Return", "Compute", "Check", "Find", "Convert"}
    ]
    assert not wrong, "\n".join(wrong)
