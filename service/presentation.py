"""A run and its frontier as JSON: the same form for a search that just ended and for a stored one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import prod
from typing import Any

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.version import cost_model_note
from tapestry.optimizer.run.options import RunOptions
from tapestry.service.checking import CheckResults
from tapestry.service.leads import time_document, with_leads
from tapestry.service.proven_bounds import bound_documents
from tapestry.service.refusals import refusal_documents
from tapestry.service.store.records import QueuePlace, StoredMeasurement, StoredPlan, StoredRun
from tapestry.service.store.tensor_values import NamedTensor
from tapestry.service.verdicts import count_verdicts, unchecked_reason, verdict_of
from tapestry.teg.sharding.rounds import parse_rounds
from tapestry.teg.sharding.stages import Stages


def plan_document(
    plan_id: str,
    cost: Mapping[str, float],
    cost_model: int,
    time: Mapping[str, Any] | None,
    feasible: bool,
    recompute: Mapping[str, int] | None,
    offload: Mapping[str, int] | None,
    stages: Mapping[str, Any] | None,
    origin: Mapping[str, str] | None,
    moves: Sequence[Mapping[str, Any]],
    verified: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Convert one plan of a frontier to JSON; `devices` is the submesh that works, such as `gpu:4`, or `all`.

    `micro_batches` is the number of rounds, 1 for a plan without; `recompute` is null for one that stores everything,
    `offload` for one that does so on the devices, and `stages` for one without, of which `devices` is the submesh of
    each stage. `origin` is null for a plan that an earlier release stored. `cost_model` is the version of the cost
    model; `cost_model_note` is null unless it is another than this program's. `time` is the time with its error. Its
    `lead` comes from `with_leads`.
    """
    options = {m["place"]: m["choice"] for m in moves if m["rule"] == "set_option"}
    rounds = parse_rounds(options.get("micro_batches", ""))
    return {
        "id": plan_id,
        "devices": options.get("devices", "all"),
        "micro_batches": 1 if rounds is None else rounds.count,
        "recompute": None if recompute is None else dict(recompute),
        "offload": None if offload is None else dict(offload),
        "stages": None if stages is None else dict(stages),
        "origin": None if origin is None else dict(origin),
        "cost": dict(cost),
        **cost_model_document(cost_model),
        "time": time_document(time, verified),
        "feasible": feasible,
        "move_count": len(moves),
        "moves": [dict(move) for move in moves],
        "verified": None if verified is None else dict(verified),
    }


def stages_text(stages: Mapping[str, Any] | None) -> str:
    """Format the stages of a plan's document, such as `4 x 1f1b`; empty for a plan without."""
    return "" if stages is None else str(Stages(stages["count"], stages["schedule"]))


def devices_text(devices: str, stages: Mapping[str, Any] | None) -> str:
    """Format the devices of a plan: of all stages, such as `6: 3 stages of 1 × 2`, or the part of the mesh."""
    if stages is None or stages["count"] < 2 or devices == "all":
        return devices
    sizes = [int(axis.rpartition(":")[2]) for axis in devices.split(",")]
    return f"{stages['count'] * prod(sizes)}: {stages['count']} stages of {' × '.join(map(str, sizes))}"


def cost_model_document(version: int) -> dict[str, Any]:
    """Convert the version of the cost model that computed costs to JSON, with the note on costs of another version."""
    return {"cost_model": version, "cost_model_note": cost_model_note(version)}


def result_document(result: Any, checked: CheckResults, options: RunOptions) -> dict[str, Any]:
    """Convert the result of a search to JSON, as `tapestry optimize --json` prints it."""
    counts = count_verdicts(checked.verified.get(plan.id) for plan in result.frontier)
    ended = "interrupted" if checked.is_interrupted else result.stopped
    return {
        "graph": result.graph.name,
        "mesh": result.mesh.name,
        **options.to_json(),
        "objectives": [objective.name for objective in result.objectives],
        "constraints": [str(constraint) for constraint in result.constraints],
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "seed": result.seed,
        "islands": result.islands,
        "stopped": result.stopped,
        "timings": dict(result.timings),
        "rules": {
            rule: {"applied": applied, "improved": improved}
            for rule, (applied, improved) in result.rules.items()
        },
        "refused_rules": refusal_documents(result.refused),
        "bounds": bound_documents(result.bounds),
        "expected": dict(result.expected),
        "checks": counts,
        "unchecked_because": unchecked_reason(options, ended, counts),
        "frontier": with_leads(
            [
                plan_document(
                    plan.id,
                    plan.cost,
                    plan.cost_model,
                    None if plan.time is None else plan.time.to_json(),
                    plan.feasible,
                    plan.recompute,
                    plan.offload,
                    plan.stages,
                    None if plan.origin is None else plan.origin.to_json(),
                    [move.to_json() for move in plan.moves],
                    checked.verified.get(plan.id),
                )
                for plan in result.frontier
            ]
        ),
    }


def moment(at: datetime | None) -> str | None:
    """Convert a moment to text in ISO 8601, in UTC; None stays None."""
    return None if at is None else at.astimezone(UTC).isoformat()


def measurement_document(measurement: StoredMeasurement) -> dict[str, Any]:
    """Convert a measured time to JSON."""
    return {**vars(measurement), "created_at": moment(measurement.created_at)}


def queue_document(place: QueuePlace | None) -> dict[str, Any] | None:
    """Convert the place of a run that waits to JSON; None for a run that does not."""
    if place is None:
        return None
    moments = ("expected_start", "earliest_start", "latest_start")
    texts = {name: moment(getattr(place, name)) for name in moments}
    return {"position": place.position, **texts, "guess": place.is_guess}


def shown_plan_document(plan: StoredPlan) -> dict[str, Any]:
    """Convert a plan of a run's frontier to JSON as the service shows it; its moves are requested by its id.

    Its `lead` comes from `with_leads`.
    """
    return {
        "id": plan.public_id,
        "plan": plan.id,
        "cost": dict(plan.cost),
        **cost_model_document(plan.cost_model),
        "time": time_document(plan.time, plan.verified),
        "feasible": plan.feasible,
        "devices": plan.devices,
        "micro_batches": plan.micro_batches,
        "recompute": None if plan.recompute is None else dict(plan.recompute),
        "offload": None if plan.offload is None else dict(plan.offload),
        "stages": None if plan.stages is None else dict(plan.stages),
        "origin": None if plan.origin is None else dict(plan.origin),
        "move_count": plan.move_count,
        "verified": None if plan.verified is None else dict(plan.verified),
        "verdict": verdict_of(plan.verified),
    }


def title_of(objective: str) -> str:
    """Return the title of an objective by its name; the name of a stored one that is no longer known."""
    return objective_called(objective).title or objective


def objective_document(objective: Objective) -> dict[str, str]:
    """Convert an objective to JSON."""
    return {
        "name": objective.name,
        "unit": objective.unit,
        "direction": objective.direction,
        "title": objective.title or objective.name,
        "description": objective.description,
        "expression": objective.expression,
    }


def stored_plan_document(plan: StoredPlan) -> dict[str, Any]:
    """Convert a stored plan to JSON, in the form of a frontier's plans."""
    figures = (plan.cost, plan.cost_model, plan.time, plan.feasible)
    return plan_document(
        plan.id, *figures, plan.recompute, plan.offload, plan.stages, plan.origin, plan.moves, plan.verified
    )


def options_document(options: RunOptions) -> list[dict[str, str]]:
    """Convert the options of a run to JSON: titles and texts that a page shows as they are."""
    return [{"title": title, "text": text} for title, text in options.described()]


def run_document(run: StoredRun) -> dict[str, Any]:
    """Convert a stored run to JSON, as `tapestry show RUN --json` prints it."""
    summary, counts = run.summary, count_verdicts(plan.verified for plan in run.frontier)
    return {
        "run": summary.id,
        "created_at": summary.created_at.isoformat(),
        "status": summary.status,
        "problem": summary.problem,
        "graph": summary.graph_name,
        "graph_id": summary.graph_id,
        "mesh": summary.mesh_name,
        **summary.options.to_json(),
        "options": options_document(summary.options),
        "evaluations": summary.evaluations,
        "seconds": summary.seconds,
        "stopped": summary.stopped,
        "timings": dict(run.timings),
        "rules": {
            rule: {"applied": applied, "improved": improved}
            for rule, (applied, improved) in run.rules.items()
        },
        "refused_rules": [dict(refusal) for refusal in run.refused],
        "bounds": {name: dict(bound) for name, bound in run.bounds.items()},
        "expected": dict(run.expected),
        "checks": counts,
        "unchecked_because": unchecked_reason(summary.options, summary.stopped, counts),
        "history": [dict(point) for point in run.history],
        "versions": dict(run.versions),
        "host": dict(run.host),
        "frontier": with_leads([stored_plan_document(plan) for plan in run.frontier]),
    }


def tensor_document(tensor: NamedTensor) -> dict[str, Any]:
    """Convert a stored tensor to JSON."""
    path = f"/v1/tensors/{tensor.name}"
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": list(tensor.shape),
        "size_bytes": tensor.size_bytes,
        "digest": tensor.digest,
        "place": None if tensor.place is None else tensor.place.to_json(),
        "load": None if tensor.load is None else tensor.load.to_json(),
        "stored_at": moment(tensor.stored_at),
        "links": {"self": path, "content": f"{path}/content"},
    }
