"""Conversion of a run's events to a trace that Perfetto and Chrome open."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tapestry.hardware.simulator.critical_path import critical_path
from tapestry.hardware.simulator.execution import COMPUTE, Execution
from tapestry.hardware.simulator.trace_events import complete_event, process_events, trace_document


def to_perfetto(execution: Execution) -> dict[str, Any]:
    """Convert a run's events to Chrome trace JSON: a process per device, a thread for compute and one per
    communication queue, times in microseconds. A copy is an event of every queue that it takes. Where the program has
    stages, the name of a device says on which it is. Events on the critical path are marked, unless devices were lost.
    """
    streams = (COMPUTE, *execution.queue_names)
    devices = sorted({event.device for event in execution.events})
    critical = _critical(execution)
    named = [e for d in devices for e in process_events(d, _device_name(execution, d), streams)]
    spans = [
        complete_event(
            event.name,
            f"{event.stream},{event.kind}",
            (event.device, thread),
            (event.start_ticks, event.end_ticks),
            {"bytes": event.size_bytes} | ({"critical": True} if number in critical else {}),
        )
        for number, event in enumerate(execution.events)
        for thread in (tuple(q + 1 for q in event.queues) or (0,))
    ]
    return trace_document([*named, *spans])


def _critical(execution: Execution) -> set[int]:
    """Return the numbers of the events on the critical path; of a copy, those of all its devices."""
    if execution.recovery is not None:
        return set()
    visited = defaultdict[int, set[int]](set)
    for visit in critical_path(execution.spans, execution.makespan_ticks):
        visited[visit.number].add(visit.device)
    found, first = set[int](), 0
    for number, span in enumerate(execution.spans):
        devices = visited.get(number, set())
        numbers = enumerate(span.numbers.tolist(), first)
        found |= {event for event, device in numbers if devices and (span.is_joint or device in devices)}
        first += len(span.numbers)
    return found


def _device_name(execution: Execution, device: int) -> str:
    per_stage = len(execution.peak_memory_bytes) // execution.stages
    return f"device {device}" + (f" (stage {device // per_stage})" if execution.stages > 1 else "")
