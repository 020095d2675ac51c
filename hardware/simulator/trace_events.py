"""Events of Chrome trace JSON, which Perfetto opens too.

Source: Trace Event Format, complete events (`ph` X) and metadata events (`ph` M).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

TICKS_PER_US = 10**6


def trace_document(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document of a trace."""
    return {"traceEvents": list(events), "displayTimeUnit": "ns"}


def process_events(process: int, name: str, threads: Sequence[str]) -> list[dict[str, Any]]:
    """Return the events that name a process and its threads."""
    named = [("process_name", name, 0), *(("thread_name", thread, k) for k, thread in enumerate(threads))]
    return [
        {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": text}}
        for kind, text, thread in named
    ]


def complete_event(
    name: str,
    category: str,
    place: tuple[int, int],
    ticks: tuple[int, int],
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the event of what runs in a process and thread from one tick to another."""
    (process, thread), (start, end) = place, ticks
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": process,
        "tid": thread,
        "ts": start / TICKS_PER_US,
        "dur": (end - start) / TICKS_PER_US,
        "args": dict(arguments),
    }
