"""Tests of printable texts: the same ones to the check, to the pattern of the schemas and to Python."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from importlib.resources import files

import pytest

from tapestry.teg.printable import PATTERN, is_printable

EVERY = [chr(code) for code in range(sys.maxunicode + 1)]


def test_the_check_and_the_pattern_agree_on_every_character() -> None:
    form = re.compile(PATTERN)
    texts = [c for c in EVERY if unicodedata.category(c) != "Cs"]
    assert [c for c in texts if is_printable(c) != (form.fullmatch(c) is not None)] == []


def test_what_python_prints_is_printable_and_the_rest_has_no_characters_yet() -> None:
    assert all(is_printable(c) for c in EVERY if c.isprintable())
    more = {unicodedata.category(c) for c in EVERY if is_printable(c) and not c.isprintable()}
    assert more == {"Cn", "Co"}  # unassigned and private ones


@pytest.mark.parametrize(
    "text", ["\x00", "a\n", "\x1b[31m", "\x7f", "\u200b", "\u202e", "\ud800", "\ufeff", "\ufffe"]
)
def test_what_harms_a_terminal_or_a_reader_is_not_printable(text: str) -> None:
    assert not is_printable(text)


def test_the_schema_of_documents_has_the_same_pattern() -> None:
    schema = json.loads((files("tapestry.teg") / "schema" / "teg-1.schema.json").read_text())
    assert schema["$defs"]["text"]["pattern"] == PATTERN
