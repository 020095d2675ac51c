"""Tests of figures in HTML: those of the command line, with the sign of a millionth."""

from __future__ import annotations

import pytest

from tapestry.teg import readable
from tapestry.teg.readable_html import column, quantity, scale_of


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (7.1e-6, "s", "7.100 µs"),
        (2.5e-5, "USD", "25.00 µUSD"),
        (3e-6, "J", "3.000 µJ"),
        (0.0026, "s", "2.600 ms"),
        (512, "B", "512 B"),
        (7, "", "7"),
        (3.0, "us", "3.000 us"),  # a unit of its own
    ],
)
def test_a_millionth_has_its_sign_and_all_else_is_as_on_the_command_line(
    value: float, unit: str, text: str
) -> None:
    assert quantity(value, unit) == text
    assert text.replace("µ", "u") == readable.quantity(value, unit)


def test_columns_and_scales_have_it_too() -> None:
    assert column([7.1e-6, 1e-6], "s") == ("µs", ["7.100", "1.000"])
    assert scale_of([7.1e-6], "s") == (1e-6, "µs")
