"""The predicted schedule of a plan as JSON, and as a trace for Perfetto."""

from __future__ import annotations

from typing import Any

from tapestry.costmodel.schedule import Schedule, ScheduledBlock, ScheduledCopy, schedule
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import Mesh
from tapestry.hardware.simulator.execution import COMPUTE
from tapestry.hardware.simulator.trace_events import complete_event, process_events, trace_document
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.teg.sharding.mesh_shape import MeshShape

MOST_SPANS = 400_000
TO_STAGES, FROM_STAGES = "to other stages", "from other stages"


def plan_schedule(
    plan: Plan, mesh: Mesh, compute_dtype: str | None = None, most: int = MOST_SPANS
) -> Schedule:
    """Return the schedule of a plan by this version of the cost model.

    Raises:
        TooManySpans: it may have more than `most` spans.
    """
    space = PlanCosts(mesh, compute_dtype).space(plan.graph, [plan.placements])
    return schedule(space, space.genes_of(plan.placements), most)


def devices_per_stage(plan: Plan, mesh: Mesh) -> int:
    """Return how many devices each stage of a plan has; those of the part of the mesh that it uses, without stages."""
    return MeshShape(mesh.axis_sizes).part(plan.placements.devices).device_count


def lane_names(found: Schedule) -> tuple[str, ...]:
    """Return the names of the lanes of a stage: compute, its queues, and to and from other stages if there are any.

    What is in one lane is there one after the other.
    """
    between = (TO_STAGES, FROM_STAGES) if any(copy.stage != copy.to_stage for copy in found.copies) else ()
    return (COMPUTE, *found.queue_names, *between)


def schedule_document(found: Schedule, devices: int) -> dict[str, Any]:
    """Convert the schedule of a plan to JSON; each stage has so many `devices`.

    `spans` are columns: `what` is the place of a block in `blocks`, or -1 - that of a copy in `copies`, times are in
    picoseconds. `critical` are numbers of spans.
    """
    return {
        "cost_model": COST_MODEL_VERSION,
        "time_s": found.makespan_ticks / TICKS_PER_S,
        "lanes": list(lane_names(found)),
        "stages": [
            {
                "stage": stage,
                "devices": devices,
                "computes_s": wait.computes_ticks / TICKS_PER_S,
                "waits_for_copies_s": wait.copies_ticks / TICKS_PER_S,
                "waits_for_stages_s": wait.stages_ticks / TICKS_PER_S,
            }
            for stage, wait in enumerate(found.waits)
        ],
        "blocks": [
            {"site": b.site, "operator": b.operator, "kind": b.kind, "stage": b.stage} for b in found.blocks
        ],
        "copies": [
            {
                "tensor": c.tensor,
                "reader": c.reader,
                "kind": c.kind,
                "stage": c.stage,
                "to_stage": c.to_stage,
                "queues": list(c.queues),
                "traffic_bytes": c.traffic_bytes,
            }
            for c in found.copies
        ],
        "spans": {
            "what": found.what.tolist(),
            "round": found.round.tolist(),
            "start_ps": found.start_ticks.tolist(),
            "end_ps": found.end_ticks.tolist(),
        },
        "critical": found.critical.tolist(),
    }


def schedule_trace(found: Schedule, devices: int) -> dict[str, Any]:
    """Convert a schedule to Chrome trace JSON: a process per stage, a thread per lane, times in microseconds.

    Each stage has so many `devices`.
    """
    lanes, stages = lane_names(found), len(found.waits)
    critical = set(found.critical.tolist())
    events = []
    for stage in range(stages):
        name = f"each of {devices} devices" + (f" of stage {stage}" if stages > 1 else "")
        events += process_events(stage, name, lanes)
    columns = (found.what, found.round, found.start_ticks, found.end_ticks)
    for number, (what, turn, *ticks) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        span = found.blocks[what] if what >= 0 else found.copies[-1 - what]
        name, traffic = _name_and_bytes(span)
        arguments = {"bytes": traffic, "round": turn, "critical": number in critical}
        events += [
            complete_event(name, span.kind or COMPUTE, place, (ticks[0], ticks[1]), arguments)
            for place in _places(span, len(lanes))
        ]
    return trace_document(events)


def _name_and_bytes(span: ScheduledBlock | ScheduledCopy) -> tuple[str, int]:
    if isinstance(span, ScheduledBlock):
        return span.site, 0
    return f"{span.tensor} for {span.reader}", span.traffic_bytes


def _places(span: ScheduledBlock | ScheduledCopy, lanes: int) -> list[tuple[int, int]]:
    """Return the stages, with the lanes of each, in which a span is drawn."""
    if isinstance(span, ScheduledBlock):
        return [(span.stage, 0)]
    if span.stage != span.to_stage:
        return [(span.stage, lanes - 2), (span.to_stage, lanes - 1)]
    return [(span.stage, 1 + queue) for queue in span.queues]
