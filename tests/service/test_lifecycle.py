"""Tests of the lifecycle of a job: every status with every event, and the errors of impossible steps."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from tapestry.service.lifecycle import (
    ENDED,
    STATUSES,
    Event,
    InvalidTransition,
    Status,
    is_ended,
    next_status,
)

NEXT: dict[Status, dict[Event, Status]] = {
    "queued": {"claimed": "running", "cancel_requested": "cancelled", "failed": "failed"},
    "running": {
        "claimed": "running",
        "released": "queued",
        "cancel_requested": "running",
        "finished": "succeeded",
        "failed": "failed",
        "cancelled": "cancelled",
    },
    "succeeded": {},
    "failed": {},
    "cancelled": {},
}


def test_the_table_names_every_status() -> None:
    assert tuple(NEXT) == STATUSES


@pytest.mark.parametrize(("status", "event"), list(product(STATUSES, get_args(Event))))
def test_every_status_with_every_event(status: Status, event: Event) -> None:
    possible = NEXT[status]
    if event in possible:
        assert next_status(status, event) == possible[event]
        return
    with pytest.raises(InvalidTransition) as caught:
        next_status(status, event)
    hint = f"possible: {', '.join(possible)}" if possible else "it has ended"
    assert str(caught.value) == f"{event!r} cannot happen to a job that is {status!r}; {hint}"


@pytest.mark.parametrize("status", STATUSES)
def test_nothing_happens_to_what_has_ended_and_something_to_all_else(status: Status) -> None:
    assert is_ended(status) == (status in ENDED) == (not NEXT[status])


def test_every_life_can_end() -> None:
    for status in STATUSES:
        ends = {status}
        for _ in STATUSES:
            ends |= {after for now in ends for after in NEXT[now].values()}
        assert ends & set(ENDED), status
