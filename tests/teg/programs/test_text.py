"""Tests of small expressions as text: computed as programs, never executed."""

import numpy as np
import pytest

from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.text import compute


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2", 3),
        ("2 * [1, 0] - [[1], [2]]", [[1, -1], [0, -2]]),
        ("abs([3, -4])", [3, 4]),
        ("max([1, 5], [3, 2])", [3, 5]),
        ("[[1, 2], [3, 4]] @ [1, 1]", [3, 7]),
        ("-[1.5, 2] / 2", [-0.75, -1.0]),
        ("sum([[1, 2], [3, 4]])", 10),
        ("[1, 2] < 2", [True, False]),
        ("7 // 2 + 2 ** 3", 11),
    ],
)
def test_values(text: str, value: object) -> None:
    np.testing.assert_array_equal(compute(text), value)


NONE = (
    *("", "1 +", "x", "[1, [2]]", "__import__('os')", "open('f')", "[1].shape", "abs", "abs()", "'a' + 'b'"),
    *("_repr_html_([1])", "[1, 2] + [1, 2, 3]", "[" * 500 + "]" * 500, "1" * 20_000, "9" * 40, "1 < 2 < 3"),
)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ProgramError):
        compute(text)
