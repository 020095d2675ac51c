"""Tests of the watcher of a soak: what should not be seen is noticed. The soak itself is `make soak`."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.client.records import EventRecord
from tests.soak.watching import order_faults


def status(number: int, attempt: int, of_run: str = "running") -> EventRecord:
    return EventRecord(number, "status", {"status": of_run, "attempt": attempt})


def progress(number: int, evaluations: int, seconds: float = 1.0) -> EventRecord:
    return EventRecord(number, "progress", {"evaluations": evaluations, "seconds": seconds})


GOOD = [
    *(status(1, 0, "queued"), status(2, 1), progress(3, 500), progress(4, 900)),
    *(status(5, 2), progress(6, 900), status(7, 2, "succeeded")),
]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({6: progress(7, 900)}, "its last event does not end it"),
        ({4: status(5, 2, "failed")}, "event 5 ends it, and others follow"),
        ({3: progress(4, 400)}, "event 4 has fewer evaluations than one before"),
        ({5: progress(6, 800)}, "event 6 has fewer evaluations than one before"),
        ({5: progress(6, 900, 0.5)}, "event 6 has fewer seconds than one before"),
        ({5: status(6, 1)}, "event 6 is of an earlier attempt"),
    ],
)
def test_events_out_of_order_are_noticed(change: dict[int, Any], fault: str | None) -> None:
    events = [change.get(k, event) for k, event in enumerate(GOOD)]
    assert order_faults("r", events) == ([] if fault is None else [f"run r: {fault}"])
