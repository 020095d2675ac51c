"""Texts of users in written modules: literals mean the text, and nothing of it becomes code."""

import ast

import pytest

from tapestry.teg.python_text import docstring, quoted, template, visible

TEXTS = [
    "plain", "", 'say "hi"', "it's", "back\\", "\\N", "{i}", "}{", '"""', "'''", "#", "a\nb\r\x0b\x0c", "\x00",
    "\u2028\x85\xa0", "\u202e", "\ud800", "ä \N{CAT FACE}", 'x": planted(), "x', '"""\nplanted()\n"""', '"', '\\"',
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_literals_mean_the_text(text: str) -> None:
    literal = quoted(text)
    assert literal.isprintable()
    assert ast.literal_eval(literal) == text
    assert visible(text).isprintable()
    assert [line.strip() for line in f"x = 1  # {visible(text)}".splitlines()][1:] == []
    plain = text.replace("{", "").replace("}", "")
    assert eval(template(f"{plain}{{i}}{plain}"), {"i": 7}) == f"{plain}7{plain}"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("after", ["", "\nmore", '\n"'])
def test_docstrings_are_one_literal_that_shows_the_text(text: str, after: str) -> None:
    literal = docstring(text + after)
    assert all(line.isprintable() for line in literal.split("\n"))
    (statement,) = ast.parse(literal.encode()).body
    shown = ast.literal_eval(statement.value) if isinstance(statement, ast.Expr) else None
    kept = (text + after).replace('"""', "'''")
    if kept.replace("\n", "").isprintable():
        assert shown is not None
        assert shown.rstrip("\n") == kept.rstrip("\n")
