"""Folded lines: short ones stay, arguments go to lines of their own, comments stand behind or above."""

import ast
import subprocess
import sys

import pytest

from tapestry.teg.exporters.spmd.folding import fold, split_top

NAME = "a_name_of_thirty_characters_xx"
STATEMENTS = (
    "x = f(a, b)",
    f"x = f({NAME}, {NAME}, {NAME})",
    f"x = f({NAME}, {NAME}, {NAME}, {NAME}, dim=1)",
    f"x = {NAME} + {NAME} * {NAME}",
    f"x = {NAME} + {NAME} * {NAME} + {NAME}",
    f'x = torch.einsum("ab,bc->ac", {NAME}, {NAME}.transpose(0, 1))',
    f'X = {{"one": ("float32", ({NAME}, 3)), "two": ("float32", (4, {NAME}))}}',
    f"x = {NAME}[2 * {NAME} : 2 * {NAME} + 2, 3]",
    f"x = {NAME}[2 * {NAME} : 2 * {NAME} + 2, :, {NAME} : {NAME} + 1]",
    f"{NAME}, {NAME}2, {NAME}3 = f({NAME}, {NAME}, {NAME}, {NAME})",
    f"return {NAME}, {NAME}, {NAME}",
    f"return {NAME} + {NAME} * {NAME}",
    f"return f({NAME}, {NAME}, {NAME}, {NAME})",
    f"return {{{NAME}: x for i, x in zip(range(2), {NAME}, strict=True)}}",
    f"return {{**{{{NAME}: x for i, x in zip(range(2), {NAME}, strict=True)}}, {NAME}: 3}}",
    f"x = f({NAME} + {NAME} for i, x in zip(range(2), {NAME}, strict=True))",
)


@pytest.mark.parametrize("comment", ["", "[2, 3]"])
@pytest.mark.parametrize("text", STATEMENTS)
def test_formatters_leave_folded_lines_alone(text: str, comment: str) -> None:
    lines = "\n".join(fold(0, text, comment)) + "\n"
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--quiet", "-"]
    assert subprocess.run(command, input=lines, capture_output=True, text=True).stdout == lines


@pytest.mark.parametrize("comment", ["", "[2, 3]"])
@pytest.mark.parametrize("text", STATEMENTS)
def test_folding_leaves_the_meaning_of_a_statement(text: str, comment: str) -> None:
    assert ast.dump(ast.parse("\n".join(fold(0, text, comment)))) == ast.dump(ast.parse(text))


def test_texts_are_split_at_the_commas_outside_brackets_and_strings() -> None:
    assert split_top('a, f(b, c), "d, e", [g, h]') == ["a", "f(b, c)", '"d, e"', "[g, h]"]
