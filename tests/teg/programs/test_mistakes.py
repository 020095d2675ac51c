"""Tests that mistakes are reported in one sentence, at the line and expression that made them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.teg.programs import Cell, Handle, Program, ProgramError

MODEL = """import tapestry
with tapestry.program() as p:
    x = p.input("x", batch=32, features=128)
    w = p.parameter("w", features=64, out=8)
    y = (x @ w
         + 1).relu()
"""


def test_the_line_and_the_expression_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    with pytest.raises(ProgramError) as caught:
        exec(compile(MODEL, str(tmp_path / "model.py"), "exec"), {})
    assert str(caught.value) == "model.py:5: x @ w: 'features' is 128 on the left and 64 on the right"


def grown(cell: Cell) -> Cell:
    """Square a cell forty times: a tree of 2^40 leaves, were it written out."""
    for _ in range(40):
        cell = cell * cell
    return cell


MISTAKES: dict[str, tuple[Callable[[Program, Handle], Any], str]] = {
    "places between elements": (
        lambda p, x: x.gather(np.array([0.5])),
        "positions are whole numbers, not float64",
    ),
    "index function of one argument": (
        lambda _, x: x.pad({"batch": (1, 1)}, mode=lambda k: k),
        "takes other arguments than a position and the size: write `lambda k, size: ...`",
    ),
    "unknown dimension": (lambda _, x: x.sum("feature"), "did you mean features?"),
    "index outside": (lambda _, x: x[40], "index 40 lies outside dimension 'batch' of size 32"),
    "too many indices": (lambda _, x: x[0, 0, 0], "3 indices for x: float32[batch=32, features=128]"),
    "two ellipses": (lambda _, x: x[..., ...], "an index may have one ellipsis"),
    "sizes": (lambda _, x: x + np.ones(3), "dimension -1 is 128 on the left and 3 on the right"),
    "truth": (lambda _, x: bool(x > 0), "a tensor has no truth value"),
    "split": (lambda _, x: x.split("features", a=3, b=5), "of size 128 does not split into 3 x 5"),
    "reshape": (lambda _, x: x.reshape(5, 5), "has 4096 elements, but shape (5, 5) has 25"),
    "operator": (lambda p, x: p.apply("sofmax", x), "there is no operator 'sofmax'"),
    "name taken": (lambda p, _: p.input("x", 3), "the name 'x' is taken"),
    "output called as an input": (lambda p, x: p.output("x", x), "an input or parameter is called 'x'"),
    "dtype": (lambda _, x: x.cast("float31"), "there is no element type 'float31'"),
    "no update": (lambda p, x: p.update(x, x), "is no parameter or state"),
    "matmul names": (lambda p, x: x @ p.input("z", a=128, b=3), "'features' is a dimension of the left"),
    "other program": (lambda _, x: x + tapestry.program("other").input("z", 3), "belongs to program 'other'"),
    "names meet": (lambda p, x: x + p.input("z", 32, 128).rename("a", ""), "'features'"),
    "window": (lambda p, x: x.reshape(1, 1, 64, 64).max_pool(65), "no window of (65, 65) fits"),
    "size": (lambda p, _: p.input("z", -3), "a whole number from 0 up, not -3"),
    "no operand": (lambda p, _: p.cell(lambda: 1), "needs a tensor among its operands"),
    "list": (lambda _, x: x * [1, 2], "an operand is a tensor, a number or a numpy array, not [1, 2]"),
    "name of a dimension": (lambda p, _: p.input("z", **{"b c": 4}), "is an identifier such as 'batch'"),
    "value missing": (lambda p, x: (p.output("y", x), p.evaluate()), "input 'x' of shape (32, 128)"),
    "no point": (lambda p, _: p.behind(7).__enter__(), "there is no sequence point 7"),
    "grown": (lambda p, x: p.cell(grown, x), "grown beyond 10000 parts or 200 levels"),
    "meaning": (lambda _, x: x & 3, "has no meaning on float32"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_say_what_is_wrong(mistake: str) -> None:
    p = tapestry.program()
    x = p.input("x", batch=32, features=128)
    make, words = MISTAKES[mistake]
    if mistake == "names meet":
        x = x.rename("", "features").rename("b", "features")
        assert (x + p.input("y", 32, 128).rename("", "features")).names == ("b", "features")
        return
    with pytest.raises(ProgramError) as caught:
        make(p, x)
    text = str(caught.value)
    assert text.startswith(("tests/teg/programs/test_mistakes.py:", __file__))
    assert words in text and "\n" not in text


def test_a_program_without_outputs_has_no_graph() -> None:
    with pytest.raises(ProgramError, match="has no outputs"):
        _ = tapestry.program().graph
