"""Verification of a plan: the sharding is proven, memory and traffic are counted, values compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapestry.costmodel.resources import declared_resources
from tapestry.costmodel.version import COST_MODEL_VERSION, cost_model_note
from tapestry.hardware.device import VECTOR
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import Execution, simulate, time_estimate
from tapestry.hardware.simulator.steps import check_state
from tapestry.hardware.timing import TimeEstimate
from tapestry.optimizer.analysis.verification_card import verification_card
from tapestry.optimizer.run.plan import Plan
from tapestry.teg.arrays import NUMPY, ArrayNamespace
from tapestry.teg.brief import shown
from tapestry.teg.costs import Amount
from tapestry.teg.double import coarsest_rounding, in_double, widened
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.verify import verify
from tapestry.teg.stopping import CheckStop, never_stop

TOLERANCE = 1e-4
COARSE = 1e-4  # of the relative distance between neighboring floats: half precision and narrower


@dataclass(frozen=True)
class Counted:
    """A prediction, the simulator's count, and the method of the run ("simulated": with numbers; "dry")."""

    predicted: int
    counted: int
    method: str

    @property
    def ok(self) -> bool:
        return self.predicted == self.counted

    def to_json(self) -> dict[str, Any]:
        return {"predicted": self.predicted, "counted": self.counted, "method": self.method}


@dataclass(frozen=True)
class Verification:
    """The outcome for one plan. `max_error` is max|a-b| / max|b| per observed value, where it was executed.

    `named_costs` are those supplied with the program, over all devices; `value_issues` describe the errors of outputs
    whose error is infinite. `cost_model` is the version of the model that predicted; counts are this release's.
    `time` is the simulator's, with its error; the median, also where plans are ranked by a quantile.
    """

    issues: tuple[str, ...]
    memory: Counted
    traffic: Counted
    executed: bool
    max_error: Mapping[str, float]
    execution: Execution
    named_costs: Mapping[str, Amount] = field(default_factory=dict)
    value_issues: tuple[str, ...] = ()
    cost_model: int = COST_MODEL_VERSION
    time: TimeEstimate | None = None

    def __repr__(self) -> str:
        values = f"values {'compared' if self.max_error else 'computed' if self.executed else 'not computed'}"
        return shown("Verification", ("ok" if self.ok else "FAILED", *self.failures[:2], values))

    def _repr_html_(self) -> str:
        """Show what was proven, counted and executed in a notebook."""
        return verification_card(self, TOLERANCE)

    @property
    def ok(self) -> bool:
        """True if every check passed."""
        values = all(error <= TOLERANCE for error in self.max_error.values())
        return not self.issues and self.memory.ok and self.traffic.ok and values

    @property
    def failures(self) -> tuple[str, ...]:
        """The checks that failed, one line each."""
        counts = (("peak memory", self.memory), ("traffic", self.traffic))
        wrong = {site: error for site, error in self.max_error.items() if not error <= TOLERANCE}
        note = cost_model_note(self.cost_model)
        return (
            *(f"sharding: {issue}" for issue in self.issues),
            *(
                f"{what}: predicted {found.predicted:,} B, counted {found.counted:,} B{f'; {note}' if note else ''}"
                for what, found in counts
                if not found.ok
            ),
            *(
                f"output {site!r} differs by {error:.3g} of its largest value"
                for site, error in wrong.items()
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON document of the command line and the service.

        `cost_model` is there only where another version predicted: then memory and traffic may differ.
        """
        values: dict[str, Any] = {
            "executed": self.executed,
            "ok": self.executed and all(e <= TOLERANCE for e in self.max_error.values()),
            "max_error": dict(self.max_error),
        }
        if self.value_issues:
            values["issues"] = list(self.value_issues)
        document = {
            "sharding": {"ok": not self.issues, "issues": list(self.issues)},
            "memory": self.memory.to_json(),
            "traffic": self.traffic.to_json(),
            "values": values,
        }
        if self.time is not None:
            document["time"] = self.time.to_json()
        if self.cost_model != COST_MODEL_VERSION:
            document["cost_model"] = {"predicted": self.cost_model, "counted": COST_MODEL_VERSION}
        return {**document, "named_costs": dict(self.named_costs)} if self.named_costs else document


def verify_plan(
    plan: Plan,
    mesh: Mesh,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    execute: bool = False,
    reference: Mapping[str, np.ndarray] | None = None,
    compute_dtype: str | None = None,
    trace: bool = False,
    after: Execution | None = None,
    cache: ResultCache | None = None,
    check_stop: CheckStop = never_stop,
    xp: ArrayNamespace = NUMPY,
) -> Verification:
    """Prove the plan's sharding and run it on the device simulator, with numbers when `execute` is set.

    `inputs` are whole arrays by source site (values supplied with the program may be left out); `reference` the
    observed values of the unsharded program (`reference_outputs`). `after` is the run of the step before: carried state
    begins as its devices hold it. `cache`, of the mesh shape that the plan uses, keeps what other plans on this mesh
    share with it: see `FrontierVerifier`. `check_stop` is called before each slot of the run. `xp` computes, numpy or
    torch.

    Raises:
        ValueError: inputs are missing or do not fit.
        RuntimeError: a step leaves state elsewhere than where it begins.
    """
    mesh_shape = MeshShape(mesh.axis_sizes)
    program = expand(plan.graph, plan.placements, mesh_shape, cache)
    if after is not None:
        check_state(program)
    issues = tuple(str(issue) for issue in verify(plan.graph, program, cache))
    used = mesh.part(program.axes)
    execution = simulate(
        program,
        used,
        inputs if execute else None,
        dry=not execute,
        capacity_check=False,
        trace=trace,
        compute_dtype=compute_dtype,
        state=None if after is None else after.state,
        cache=cache,
        check_stop=check_stop,
        xp=xp,
    )
    method = "simulated" if execute else "dry"
    compared = reference if execute and reference is not None else {}
    exact = _outputs_in_double(plan, mesh, inputs or {}, check_stop, xp) if compared else None
    outputs = execution.outputs if exact is None else exact
    return Verification(
        issues,
        Counted(int(plan.cost["peak_memory_bytes"]), int(execution.peak_memory_bytes.max()), method),
        Counted(int(plan.cost["traffic_bytes"]), execution.traffic_bytes, method),
        execute,
        relative_errors(outputs, compared),
        execution,
        declared_resources(plan.graph, plan.placements, mesh_shape),
        value_issues(outputs, compared),
        plan.cost_model,
        _median_time(execution, program, used, compute_dtype, check_stop),
    )


def _median_time(
    execution: Execution, program: ExplicitGraph, mesh: Mesh, compute_dtype: str | None, check_stop: CheckStop
) -> TimeEstimate:
    """Return the median time of a run with its error; where the mesh is at a quantile, by another run at medians."""
    if mesh.device.quantile is None:
        return time_estimate(execution, mesh)
    median = mesh.at_quantile(0.5)
    again = simulate(
        program, median, dry=True, capacity_check=False, compute_dtype=compute_dtype, check_stop=check_stop
    )
    return time_estimate(again, median)


def in_compared_precision(graph: Graph) -> Graph | None:
    """Return a program in double precision if it stores floats so coarse that their rounding hides whether two forms of
    it compute the same; None for others, and for one that carries state or reads the bits of floats.
    """
    if coarsest_rounding(graph) <= COARSE or graph.carriers:
        return None
    try:
        return in_double(graph)
    except ValueError:
        return None


def reference_outputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Compute the observed values with which those of plans are compared: of a coarse program in double precision."""
    double = in_compared_precision(graph)
    if double is None:
        return evaluate(graph, inputs)
    return evaluate(double, {site: widened(value) for site, value in inputs.items()})


def _outputs_in_double(
    plan: Plan, mesh: Mesh, inputs: Mapping[str, np.ndarray], check_stop: CheckStop, xp: ArrayNamespace
) -> Mapping[str, np.ndarray] | None:
    """Compute a plan's outputs on the simulated devices with double precision in place of all floats; None for one
    that is compared as it is.
    """
    double = in_compared_precision(plan.graph)
    if double is None:
        return None
    program = expand(double, plan.placements, MeshShape(mesh.axis_sizes))
    execution = simulate(
        program,
        mesh.part(program.axes),
        {site: widened(value) for site, value in inputs.items()},
        capacity_check=False,
        compute_dtype=VECTOR,
        check_stop=check_stop,
        xp=xp,
    )
    return execution.outputs


def relative_errors(
    outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Compute `max|a-b| / max|b|` per observed value; infinite if shapes differ or only one is not finite."""
    errors = {}
    for site, expected in reference.items():
        found = outputs.get(site)
        if found is None or found.shape != expected.shape:
            errors[site] = float("inf")
            continue
        is_complex = found.dtype.kind == "c" or expected.dtype.kind == "c"
        wide = np.complex128 if is_complex else np.float64
        a, b = found.astype(wide), expected.astype(wide)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
            errors[site] = float("inf")
            continue
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) or 1.0
        errors[site] = float(np.abs(a[~same] - b[~same]).max(initial=0.0)) / scale
    return errors


def value_issues(outputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """List why observed values cannot be compared: each one is missing or has another shape."""
    issues = []
    for site, expected in reference.items():
        found = outputs.get(site)
        if found is None:
            issues.append(f"output {site!r} is not there")
        elif found.shape != expected.shape:
            issues.append(f"output {site!r} has shape {found.shape}, the reference {expected.shape}")
    return tuple(issues)
