"""The predicted schedule of a plan as JSON, and as a trace for Perfetto."""

from __future__ import annotations

from typing import Any

from tapestry.costmodel.schedule import Schedule, schedule
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import Mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.teg.sharding.mesh_shape import MeshShape

MOST_SPANS = 400_000
COMPUTE, TO_STAGES, FROM_STAGES = "compute", "to other stages", "from other stages"
TICKS_PER_US = 10**6


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

    Source: Trace Event Format, complete events (`ph` X) and metadata events (`ph` M).
    """
    lanes, stages = lane_names(found), len(found.waits)
    critical = set(found.critical.tolist())
    events = []
    for stage in range(stages):
        name = f"each of {devices} devices" + (f" of stage {stage}" if stages > 1 else "")
        events.append(_named("process_name", name, stage, 0))
        events += [_named("thread_name", lane, stage, k) for k, lane in enumerate(lanes)]
    columns = (found.what, found.round, found.start_ticks, found.end_ticks)
    for number, (what, turn, start, end) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if what >= 0:
            block = found.blocks[what]
            name, kind, traffic = block.site, block.kind, 0
            places = [(block.stage, 0)]
        else:
            copy = found.copies[-1 - what]
            name, kind, traffic = f"{copy.tensor} for {copy.reader}", copy.kind, copy.traffic_bytes
            places = [(copy.stage, 1 + queue) for queue in copy.queues]
            if copy.stage != copy.to_stage:
                places = [(copy.stage, len(lanes) - 2), (copy.to_stage, len(lanes) - 1)]
        arguments = {"bytes": traffic, "round": turn, "critical": number in critical}
        events += [
            {
                "name": name,
                "cat": kind or COMPUTE,
                "ph": "X",
                "pid": stage,
                "tid": thread,
                "ts": start / TICKS_PER_US,
                "dur": (end - start) / TICKS_PER_US,
                "args": arguments,
            }
            for stage, thread in places
        ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _named(kind: str, name: str, stage: int, thread: int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": stage, "tid": thread, "args": {"name": name}}
