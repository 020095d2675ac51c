"""Tests of readable figures, and of the correlation by which a frontier is evaluated."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.stats import spearmanr

from tapestry.service.cli.output import COLORS, paint, table
from tapestry.service.correlation import largest_rank_correlation, rank_correlation
from tapestry.teg.readable import column, quantity


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.002684, "s", "2.684 ms"),
        (12.5, "s", "12.50 s"),
        (0.0, "s", "0 s"),
        (512, "B", "512 B"),
        (474.7 * 2**20, "B", "474.7 MiB"),
        (3 * 2**40, "B", "3.000 TiB"),
        (295290446848, "flop", "295.3 Gflop"),
        (4.5, "J", "4.500 J"),
        (2.95e-5, "USD", "29.50 uUSD"),
        (7, "", "7"),
        (0.25, "", "0.2500"),
        (7.8e-4, "", "7.800e-4"),
        (12.345, "", "12.35"),
        (0.3, "B", "0.3000 B"),
        (999.96, "J", "1,000 J"),
        (2e-8, "USD", "0.02000 uUSD"),
        (1e300, "J", "1.000e297 kJ"),
        (4.2e-12, "J s", "4.200e-12 J s"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_a_column_shares_its_unit_and_decimals() -> None:
    assert column([0.0026, 0.0113], "s") == ("ms", ["2.60", "11.30"])
    assert column([5, 1000], "B") == ("B", ["5", "1,000"])
    assert column([5, 700], "") == ("", ["5", "700"])
    assert column([5, 0.5], "") == ("", ["5.000", "0.500"])


def test_no_cost_in_a_column_is_shown_as_zero_that_is_not() -> None:
    assert column([7.8e-4, 8.125e-4, 0], "") == ("", ["7.800e-4", "8.125e-4", "0"])
    assert column([0.25, 4e-5, 0], "") == ("", ["0.2500", "4.000e-5", "0.0000"])
    assert column([0.12, 2e-6], "s") == ("ms", ["120.0", "0.002000"])


def test_a_table_is_aligned() -> None:
    assert table(("name", "n"), [("a", "1"), ("long name", "100")], right=(1,)) == [
        "name         n",
        "a            1",
        "long name  100",
    ]


def test_colors_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("x", "red", Terminal()) == f"\x1b[{COLORS['red']}mx\x1b[0m"
    assert paint("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red", Terminal()) == "x"


def test_rank_correlation_is_spearmans(rng: np.random.Generator) -> None:
    for _ in range(20):
        a, b = rng.integers(0, 9, (2, 30)).astype(float)
        assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation([1.0, 2.0], [5.0, 5.0]) == 0.0


def test_the_most_alike_objectives_are_named() -> None:
    costs = [{"a": k, "b": k**2, "c": -k} for k in range(5)]
    assert largest_rank_correlation(costs, ("a", "b", "c")) == (pytest.approx(1.0), ("a", "b"))
    with pytest.raises(ValueError, match="two objectives"):
        largest_rank_correlation(costs, ("a",))
