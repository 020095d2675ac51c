"""Checking a frontier: all plans are proven and counted, representative ones executed with real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.version import cost_model_note
from tapestry.hardware import Mesh
from tapestry.hardware.simulator import Execution as Run
from tapestry.hardware.simulator import to_perfetto
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan, canonicalize, verify_plan
from tapestry.optimizer.analysis.verification import reference_outputs
from tapestry.optimizer.archive.constraints import fits
from tapestry.optimizer.archive.report import costs_of
from tapestry.service.store.records import NewExecution
from tapestry.service.verdicts import is_refuted
from tapestry.teg.arrays import arrays_named
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.stopping import CheckStop, never_stop


@dataclass
class CheckResults:
    """The results of checks, by plan id; a plan that was not checked is missing from `verified`."""

    verified: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    executions: dict[str, NewExecution] = field(default_factory=dict)
    is_interrupted: bool = False

    @property
    def failures(self) -> list[str]:
        """The checks that failed, one line each."""
        return [line for plan, verified in self.verified.items() for line in failures_of(plan, verified)]


def failures_of(plan_id: str, verified: Mapping[str, Any]) -> list[str]:
    """List the checks that a plan failed, one line each; predictions of another cost model fail none."""
    lines = [f"plan {plan_id}: sharding: {issue}" for issue in verified["sharding"]["issues"][:3]]
    if "cost_model" not in verified:
        lines += _count_differences(plan_id, verified)
    if is_refuted(verified):
        lines.append(f"plan {plan_id}: {_refutation(verified)}")
    return lines


def outdated_predictions(plan_id: str, verified: Mapping[str, Any]) -> list[str]:
    """List the counts that differ from the predictions of another version of the cost model, one line each."""
    if "cost_model" not in verified:
        return []
    note = cost_model_note(verified["cost_model"]["predicted"])
    return [f"{line}; it was {note}" for line in _count_differences(plan_id, verified)]


def _count_differences(plan_id: str, verified: Mapping[str, Any]) -> list[str]:
    return [
        f"plan {plan_id}: predicted {what} {verified[what]['predicted']:,} B, the simulator counted "
        f"{verified[what]['counted']:,} B"
        for what in ("memory", "traffic")
        if verified[what]["predicted"] != verified[what]["counted"]
    ]


def _refutation(verified: Mapping[str, Any]) -> str:
    """Describe by how much the values differ, and which rules are suspected of it."""
    errors = [float("inf") if e is None else e for e in verified["values"]["max_error"].values()]
    worst = max(errors, default=float("inf"))
    reported = verified["values"].get("issues") or [
        f"its values differ from the reference by {worst:.3g} of the largest one"
    ]
    blamed = verified.get("suspects", ())
    more = f"; suspected: {', '.join(blamed)} (in its history, in none with equal values)" if blamed else ""
    return "; ".join(reported[:3]) + more


def abstract_plan(graph: Graph, mesh: Mesh, compute_dtype: str | None = None) -> Plan:
    """Build the plan in which every device computes everything, with its costs."""
    known = known_objectives(graph)
    tally = reference_cost(graph, Placements(), mesh, compute_dtype, resources=known.resources)
    cost = costs_of(tally.vector(), mesh, known)
    return Plan(graph, Placements(), (), cost, fits(cost, mesh))


def reference_values(graph: Graph, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return seeded values for a program's inputs and weights, and the outputs of the unsharded program for them."""
    graph = canonicalize(graph)
    inputs = random_inputs(graph, np.random.default_rng(seed))
    return inputs, reference_outputs(graph, inputs)


def given_values(
    graph: Graph, arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return a user's values for a program's inputs and weights, and the outputs of the unsharded program for them.

    Raises:
        ArgumentError: values are missing, or of another shape or element type; all are listed.
    """
    graph = canonicalize(graph)
    inputs = pack_inputs(graph, arrays)
    return inputs, reference_outputs(graph, inputs)


def next_step(
    graph: Graph, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the inputs of the step after one that gave `outputs`, and the outputs of the unsharded program for them.

    Carried state has its next value; all other inputs are the same again.
    """
    graph = canonicalize(graph)
    later = {source.site: outputs[sink] for sink, source in graph.carriers.items()}
    inputs = {**inputs, **later}
    return inputs, evaluate(graph, inputs)


def execute_plan(
    plan: Plan,
    mesh: Mesh,
    seed: int | None,
    inputs: Mapping[str, np.ndarray] | None,
    reference: Mapping[str, np.ndarray] | None,
    compute_dtype: str | None = None,
    trace: bool = False,
    after: Run | None = None,
    check_stop: CheckStop = never_stop,
    backend: str = "numpy",
) -> tuple[NewExecution, Run]:
    """Run a plan on the simulator, with numbers if there are `inputs`; return the record of it and the run itself.

    `after` is the run of the step before, from which carried state goes on. `check_stop` is called before each slot.
    `backend` is the array library that computes, numpy or torch.
    `seed` is that of the inputs, None if a user gave them. `after` is the run of the step before, from which carried
    state goes on.
    """
    known = {source.site for source in plan.graph.sources}
    verification = verify_plan(
        plan,
        mesh,
        inputs={site: value for site, value in (inputs or {}).items() if site in known},
        execute=inputs is not None,
        reference=reference,
        compute_dtype=compute_dtype,
        trace=trace,
        after=after,
        check_stop=check_stop,
        xp=arrays_named(backend),
    )
    run = verification.execution
    record = NewExecution(
        backend=backend if inputs is not None else "dry",
        seed=seed if inputs is not None else None,
        counts=counts_of(plan, run),
        verified=_finite(verification.to_json()),
        created_at=datetime.now(UTC),
        trace=to_perfetto(run) if trace else None,
    )
    return record, run


def _finite(verified: dict[str, Any]) -> dict[str, Any]:
    """Replace infinite errors by null, since JSON has no infinity: the error of a value that is missing is null."""
    errors = verified["values"]["max_error"]
    verified["values"]["max_error"] = {k: e if np.isfinite(e) else None for k, e in errors.items()}
    return verified


def counts_of(plan: Plan, run: Run) -> dict[str, Any]:
    """Compare the counts of a run with the predictions of the plan's cost, with details per device and mesh axis."""
    peaks = run.peak_memory_bytes
    return {
        "time_s": {"predicted": plan.cost["time_s"], "counted": run.makespan_ticks / TICKS_PER_S},
        "peak_memory_bytes": {
            "predicted": int(plan.cost["peak_memory_bytes"]),
            "counted": int(peaks.max()),
        },
        "traffic_bytes": {
            "predicted": int(plan.cost["traffic_bytes"]),
            "counted": run.traffic_bytes,
        },
        "compute_flops": {"predicted": int(plan.cost["compute_flops"]), "counted": int(run.flops.sum())},
        "peak_memory_bytes_by_device": peaks.tolist(),
        "received_bytes_by_device": run.received_bytes.tolist(),
        "traffic_bytes_by_axis": dict(run.axis_bytes),
    }
