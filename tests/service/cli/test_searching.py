"""Tests of where a search of the command line computes: in processes of its own, or here for a short deadline."""

from __future__ import annotations

import pytest

from tapestry.optimizer import ProcessIslands, RunOptions
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.cli import searching
from tests.optimizer.clocks import SetClock
from tests.optimizer.searches import EIGHT
from tests.service.programs import two_layers


class NoProcesses(ProcessIslands):
    """A pool that starts no process."""

    def __init__(self, count: int) -> None:
        self.count = count

    def abandon(self) -> None:
        """Do nothing: there are no processes to leave."""


@pytest.mark.parametrize(
    ("islands", "spent_s", "expected"),
    [(1, 0.5, type(None)), (2, 0.5, NoProcesses), (2, 3.0, InlineExecutor)],
)
def test_processes_are_started_where_there_is_time(
    monkeypatch: pytest.MonkeyPatch, islands: int, spent_s: float, expected: type
) -> None:
    """Check a deadline of ten seconds, of which loading the program took more and less than a fifth."""
    monkeypatch.setattr(searching, "ProcessIslands", NoProcesses)
    options = RunOptions(islands=islands, deadline_seconds=10.0)
    request = searching.Request(two_layers(), EIGHT, options, (), Deadline(10.0, SetClock(spent_s)))
    with searching._workers(request) as executor:
        assert type(executor) is expected
