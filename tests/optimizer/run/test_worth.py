"""Tests of what better plans are worth: units, faults with their cure, and the moment when searching costs more."""

from __future__ import annotations

import re

import pytest

from tapestry.costmodel.known_objectives import KnownObjectives, objective_called
from tapestry.hardware import load_mesh
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.request_faults import option_faults
from tapestry.optimizer.run.worth import ROUNDS_IN_ANY_CASE, Economics, usd_per_unit
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.test_improvement import history
from tests.optimizer.searches import search

KNOWN, EIGHT = KnownObjectives(), load_mesh("dgx-h100")


@pytest.mark.parametrize(
    ("objective", "text", "usd"),
    [
        ("time_s", "120usd/s", 120.0),
        ("time_s", " 1.5 USD / ms ", 1500.0),
        ("energy_j", "3.6e3usd/kJ", 3.6),
        ("peak_memory_bytes", "1024usd/KiB", 1.0),
        ("price_usd", "2usd/USD", 2.0),
        ("price_usd", "2usd", 2.0),
    ],
)
def test_worth_is_money_per_unit(objective: str, text: str, usd: float) -> None:
    assert usd_per_unit(objective_called(objective), text) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("120", "expected money per unit of time_s, not '120'; write it as '120usd/s'"),
        ("120eur/s", "write it as '120usd/s'"),
        ("manyusd/s", "'many' in 'manyusd/s' is not a number; write '120usd/s'"),
        ("usd/s", "'' in 'usd/s' is not a number"),
        ("nanusd/s", "expected an amount above 0, not nan"),
        ("infusd/s", "expected an amount above 0, not inf"),
        ("0usd/s", "expected an amount above 0, not 0 in '0usd/s'; leave time_s out if it is worth nothing"),
        ("-3usd/s", "expected an amount above 0, not -3"),
        ("3usd/h", "time_s is in s, not 'h' as in '3usd/h'; known units are s, ms, us, ns"),
    ],
)
def test_other_texts_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        usd_per_unit(objective_called("time_s"), text)


def test_all_faults_of_stopping_come_at_once_with_their_places() -> None:
    given = {
        "gap": "much",
        "worth": {"time": "1usd/s", "time_s": "0usd/s", "energy_j": "1usd/J"},
        "search_price": -1,
    }
    options = RunOptions.as_given({"objectives": ("time_s",), **given})
    found = {fault.pointer: fault.detail for fault in option_faults(options, EIGHT, KNOWN)}
    assert found == {
        "/gap": "expected a number from 0 to 1, not 'much'; write 0.005 or '0.5%'",
        "/search_price": "expected a number above 0, not -1",
        "/worth/time": "there is no objective 'time'; did you mean time_s?",
        "/worth/time_s": "expected an amount above 0, not 0 in '0usd/s'; leave time_s out if it is worth nothing",
        "/worth/energy_j": "energy_j is no objective of this run; add it to the objectives, or leave its worth out",
    }


def test_a_gap_needs_a_sum_of_costs_first() -> None:
    def faults(*objectives: str) -> list[str]:
        options = RunOptions(objectives, gap="1%")  # type: ignore[arg-type]
        return [fault.detail for fault in option_faults(options, EIGHT, KNOWN)]

    assert faults("time_s", "time_s*energy_j") == faults("0.5*time_s + 2*energy_j") == []
    (fault,) = faults("time_s*energy_j", "time_s")
    assert fault.startswith("nothing is proven about time_s*energy_j, which is not a sum of costs; begin")


def test_searching_ends_when_it_costs_more_than_it_brings() -> None:
    """Fall from 2 s by 1/t: after 100 s another minute brings about 0.004 s."""
    past = history(lambda t: [1.0 + 1 / t, 3.0], 100)
    economics = Economics.of({"time_s": "1usd/s"}, 0.2, KNOWN, ["time_s", "energy_j"])
    assert economics == Economics((1.0, 0.0), 0.2)
    assert economics.is_worth_it(past), "0.2 USD an hour are 0.0033 USD a minute"
    assert not economics._replace(usd_per_hour=0.3).is_worth_it(past)
    assert economics._replace(usd_per_hour=0.3).is_worth_it(past[: ROUNDS_IN_ANY_CASE - 1])
    assert Economics((0.0, 0.0), 1e9).is_worth_it(past)


@pytest.mark.slow
def test_a_search_ends_when_nothing_is_worth_it() -> None:
    result = search(GRAPHS["attention"](), evaluations=50_000_000, rules=(), worth={"time_s": "1e-9usd/s"})
    assert result.stopped == "not worth it"
    assert len(result.history) >= ROUNDS_IN_ANY_CASE
    assert set(result.expected) == {o.name for o in result.objectives}
