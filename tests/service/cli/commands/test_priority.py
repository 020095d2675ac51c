"""Tests of `tapestry priority`: waiting runs change places, and what has ended is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapestry.service.store import Store
from tests.service.conftest import Run, complaint
from tests.service.programs import NOON, two_layers
from tests.service.store.submissions import later, request_for


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{home / 'tapestry.db'}")
    yield opened
    opened.close()


def test_waiting_runs_get_another_priority(tapestry: Run, store: Store) -> None:
    graph_id = store.graphs.save(two_layers(), NOON).id
    runs = [store.runs.submit(request_for(graph_id), later(k)).id for k in range(3)]
    changed = {"priority": -5, "runs": runs[:2]}
    assert tapestry("priority", "-5", *runs[:2], "--json").json == changed
    assert tapestry("priority", 10, runs[1]).out == f"priority 10: {runs[1]}\n"
    assert [store.runs.get(run).priority for run in runs] == [-5, 10, 0]
    noted = [(line.actor, line.action, line.subject) for line in store.audit.page()]
    assert noted == [
        ("command line", "set priority", f"{run} {priority}")
        for run, priority in ((runs[1], 10), (runs[1], -5), (runs[0], -5))
    ]
    store.runs.request_cancel(runs[2], later(5))
    refused = complaint(tapestry("priority", 1, runs[0], runs[2]))
    assert refused.startswith(f"run {runs[2]} has ended (cancelled)")
    assert refused.endswith(f"; changed before: {runs[0]}")
    assert "expected a whole number from -10 to 10, not '11'" in complaint(tapestry("priority", 11, runs[0]))
