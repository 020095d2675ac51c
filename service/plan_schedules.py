"""The predicted schedule of a plan as JSON, and as a trace for Perfetto."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.schedule import Schedule, ScheduledBlock, ScheduledCopy, schedule
from tapestry.costmodel.table_rows import CopiedForm
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import Mesh
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.simulator.dry_run import LARGEST_FULL_MESH
from tapestry.hardware.simulator.execution import COMPUTE
from tapestry.hardware.simulator.trace_events import complete_event, process_events, trace_document
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.teg.sharding.copies import plan_copy
from tapestry.teg.sharding.mesh_shape import MeshShape

MOST_SPANS = 400_000
TO_STAGES, FROM_STAGES = "to other stages", "from other stages"


class PlanSchedule(NamedTuple):
    """The schedule of a plan, how many devices each of its stages has, and its use of links.

    `exchanges` are those of each copy: its kinds by mesh axis, with the bytes that all devices receive. Over the links
    of an axis, all devices that work can receive so many bytes/s together (`rates`).
    """

    schedule: Schedule
    devices: int
    exchanges: tuple[Mapping[tuple[str, str], int], ...]
    rates: Mapping[str, float]


def plan_schedule(
    plan: Plan, mesh: Mesh, compute_dtype: str | None = None, most: int = MOST_SPANS
) -> PlanSchedule:
    """Return the schedule of a plan by this version of the cost model.

    Raises:
        TooManySpans: it may have more than `most` spans.
    """
    space = PlanCosts(mesh, compute_dtype).space(plan.graph, [plan.placements])
    found = schedule(space, space.genes_of(plan.placements), most)
    exchanges = tuple(_exchanges(copy.form, space.mesh_shape) for copy in found.copies)
    return PlanSchedule(found, space.mesh_shape.device_count, exchanges, _rates(space, mesh))


def _exchanges(form: CopiedForm, mesh_shape: MeshShape) -> dict[tuple[str, str], int]:
    """Return the bytes that all devices receive in a copy, by kind of exchange and mesh axis."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    plan = plan_copy(form.made, form.needed, form.shape, mesh_shape, form.route)
    if plan is not None:
        by_class = mesh_shape.device_count > LARGEST_FULL_MESH
        for each in count_copy(plan, form.shape, mesh_shape, form.item, by_class).exchanges:
            found[each.round.kind, each.round.axis] += int(each.received_bytes.sum())
    return found


def _rates(space: PlanSpace, mesh: Mesh) -> dict[str, float]:
    """Return the bytes/s that the devices which work can receive together, over each mesh axis along which they lie."""
    count, found = space.mesh_shape.device_count, {}
    members = [size for _, size in space.mesh_shape.axes]
    if space.pipeline is not None:
        layout = space.pipeline.layout
        count = layout.device_count
        places = np.unravel_index(layout.devices.reshape(-1), [axis.size for axis in mesh.axes])
        members = [len(np.unique(place)) for place in places]
    for axis, size in zip(mesh.axes, members, strict=True):
        if size > 1:
            found[axis.name] = count * axis.device_rate(size)
    return found


def lane_names(found: Schedule) -> tuple[str, ...]:
    """Return the names of the lanes of a stage: compute, its queues, and to and from other stages if there are any.

    What is in one lane is there one after the other.
    """
    between = (TO_STAGES, FROM_STAGES) if any(copy.stage != copy.to_stage for copy in found.copies) else ()
    return (COMPUTE, *found.queue_names, *between)


def schedule_document(plan: PlanSchedule) -> dict[str, Any]:
    """Convert the schedule of a plan to JSON.

    `spans` are columns: `what` is the place of a block in `blocks`, or -1 - that of a copy in `copies`, times are in
    picoseconds. `critical` are numbers of spans.
    """
    found = plan.schedule
    return {
        "cost_model": COST_MODEL_VERSION,
        "time_s": found.makespan_ticks / TICKS_PER_S,
        "lanes": list(lane_names(found)),
        "axes": [{"name": name, "bytes_per_s": rate} for name, rate in plan.rates.items()],
        "stages": [
            {
                "stage": stage,
                "devices": plan.devices,
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
                "kind": _kind(c, exchanges),
                "stage": c.stage,
                "to_stage": c.to_stage,
                "queues": list(c.queues),
                "traffic_bytes": c.traffic_bytes,
                "axis_bytes": _by_axis(exchanges),
            }
            for c, exchanges in zip(found.copies, plan.exchanges, strict=True)
        ],
        "spans": {
            "what": found.what.tolist(),
            "round": found.round.tolist(),
            "start_ps": found.start_ticks.tolist(),
            "end_ps": found.end_ticks.tolist(),
        },
        "critical": found.critical.tolist(),
    }


def _kind(copy: ScheduledCopy, exchanges: Mapping[tuple[str, str], int]) -> str:
    """Return what a copy consists of, by the names that its exchanges have in the sharding of a plan."""
    return " + ".join(f"{kind} on {axis}" for kind, axis in exchanges) or copy.kind


def _by_axis(exchanges: Mapping[tuple[str, str], int]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for (_, axis), size in exchanges.items():
        found[axis] += size
    return found


def schedule_trace(plan: PlanSchedule) -> dict[str, Any]:
    """Convert a schedule to Chrome trace JSON: a process per stage, a thread per lane, times in microseconds."""
    found = plan.schedule
    lanes, stages = lane_names(found), len(found.waits)
    critical = set(found.critical.tolist())
    events = []
    for stage in range(stages):
        name = f"each of {plan.devices} devices" + (f" of stage {stage}" if stages > 1 else "")
        events += process_events(stage, name, lanes)
    columns = (found.what, found.round, found.start_ticks, found.end_ticks)
    for number, (what, turn, *ticks) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        span = found.blocks[what] if what >= 0 else found.copies[-1 - what]
        name, kind, traffic = _described(plan, what)
        arguments = {"bytes": traffic, "round": turn, "critical": number in critical}
        events += [
            complete_event(name, kind or COMPUTE, place, (ticks[0], ticks[1]), arguments)
            for place in _places(span, len(lanes))
        ]
    return trace_document(events)


def _described(plan: PlanSchedule, what: int) -> tuple[str, str, int]:
    """Return the name and the kind of a block or a copy, and the bytes that devices receive."""
    if what >= 0:
        block = plan.schedule.blocks[what]
        return block.site, block.kind, 0
    copy, exchanges = plan.schedule.copies[-1 - what], plan.exchanges[-1 - what]
    return f"{copy.tensor} for {copy.reader}", _kind(copy, exchanges), copy.traffic_bytes


def _places(span: ScheduledBlock | ScheduledCopy, lanes: int) -> list[tuple[int, int]]:
    """Return the stages, with the lanes of each, in which a span is drawn."""
    if isinstance(span, ScheduledBlock):
        return [(span.stage, 0)]
    if span.stage != span.to_stage:
        return [(span.stage, lanes - 2), (span.to_stage, lanes - 1)]
    return [(span.stage, 1 + queue) for queue in span.queues]
