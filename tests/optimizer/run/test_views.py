"""Tests of the views of a frontier: a data frame, a figure."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tapestry.optimizer import Result
from tests.optimizer.searches import search


@pytest.fixture(scope="module")
def result() -> Result:
    return search(evaluations=300, rules=(), objectives=("time_s", "peak_memory_bytes", "traffic_bytes"))


def test_a_data_frame_has_a_row_per_plan_and_a_column_per_cost(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = SimpleNamespace(
        DataFrame=lambda rows, index: (rows, index), Index=lambda values, name: (name, list(values))
    )
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    rows, index = result.to_dataframe()
    assert index == ("plan", [plan.id for plan in result.frontier])
    first = result.frontier[0]
    columns = {
        "moves": len(first.moves),
        "devices": first.placements.devices or "all",
        "origin": str(first.origin),
    }
    assert rows[0] == {**first.cost, **columns}


def test_a_missing_pandas_says_how_to_install_it(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"a data frame needs pandas, .*: pip install pandas"):
        result.to_dataframe()


def test_a_figure_draws_two_costs(result: Result) -> None:
    figure = result.plot()
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("time_s", "peak_memory_bytes")
    assert sorted(figure.data[0].x) == sorted(plan.cost["time_s"] for plan in result.frontier)
    points = set(zip(figure.data[0].x, figure.data[0].y, strict=True))
    assert points == {(plan.cost["time_s"], plan.cost["peak_memory_bytes"]) for plan in result.frontier}
    assert result.plot(y="energy_j").layout.yaxis.title.text == "energy_j"
    assert result.plot("peak_memory_bytes").layout.yaxis.title.text == "time_s"
    with pytest.raises(ValueError, match="plans have no cost 'tim_s'; did you mean time_s"):
        result.plot("tim_s")


def test_one_objective_needs_another_cost_to_be_drawn_against() -> None:
    result = search(evaluations=100, objectives=("time_s",), rules=())
    with pytest.raises(ValueError, match="the run has one objective, time_s; name another cost"):
        result.plot()
    assert result.plot(y="traffic_bytes").layout.yaxis.title.text == "traffic_bytes"
