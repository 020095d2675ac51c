"""Tests of quantities as people write them."""

import pytest

from tapestry.teg.faults import ArgumentError
from tapestry.teg.quantities import quantity, scales_of


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("40GiB", "B", 40 * 2.0**30),
        (" 1.5 MB ", "B", 1.5e6),
        ("5ms", "s", 5e-3),
        ("2e-3", "s", 2e-3),
        ("1Wh", "J", 3600.0),
        ("7", "widgets", 7.0),
        ("7 widgets", "widgets", 7.0),
    ],
)
def test_a_quantity_is_a_number_and_a_unit(text: str, unit: str, value: float) -> None:
    assert quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("40 GiB!", "B", r"known are B, KB, .*, not '40 GiB!'"),
        ("5ms", "B", "not '5ms'"),
        ("", "s", "not ''"),
        ("-1s", "s", "not '-1s'"),
        ("1.2.3s", "s", "'1.2.3' in '1.2.3s' is not a number"),
    ],
)
def test_what_is_no_quantity_is_refused(text: str, unit: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        quantity(text, unit)


def test_an_unknown_unit_has_no_multiples() -> None:
    assert scales_of("J s") == {"": 1.0, "J s": 1.0}
