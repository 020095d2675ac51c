"""Runs of a plan on a mesh that is not as planned: devices are lost, devices or links are slow; `simulate` calls it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tapestry.hardware import Mesh
from tapestry.hardware.simulator import Execution, OutOfMemory, simulate
from tapestry.hardware.simulator.execution import Recovery
from tapestry.hardware.simulator.failure import Failure, Slowdown, parse_failure, parse_slowdown
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.verification import TOLERANCE, relative_errors
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.output import verdict
from tapestry.teg.arrays import ArrayNamespace
from tapestry.teg.readable import quantity
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape


@dataclass(frozen=True)
class Disturbance:
    """The loss and the slowdowns that the command line asks for."""

    failure: Failure | None
    slowdown: Slowdown


@dataclass(frozen=True)
class DisturbedRun:
    """A plan's run on a disturbed mesh: counts, `max_error` by output (none where nothing was computed)."""

    execution: Execution
    max_error: Mapping[str, float]

    @property
    def ok(self) -> bool:
        """True if all outputs that were computed equal the reference."""
        return all(error <= TOLERANCE for error in self.max_error.values())

    def to_json(self) -> dict[str, Any]:
        """Convert to the section `disturbed` of the command's JSON."""
        found, recovery = self.execution, self.execution.recovery
        return {
            "time_s": found.makespan_ticks / TICKS_PER_S,
            "peak_memory_bytes": int(found.peak_memory_bytes.max()),
            "traffic_bytes": found.traffic_bytes,
            "recovery": None if recovery is None else recovery_document(recovery),
            "values": {"ok": self.ok, "max_error": dict(self.max_error)} if self.max_error else None,
        }


def recovery_document(recovery: Recovery) -> dict[str, Any]:
    """Convert a recovery to JSON, with its times in seconds."""
    return {
        **{k: v for k, v in asdict(recovery).items() if not k.endswith("_ticks")},
        "at_s": recovery.at_ticks / TICKS_PER_S,
        "recovery_s": recovery.recovery_ticks / TICKS_PER_S,
    }


def disturbance_of(arguments: Namespace, mesh: Mesh) -> Disturbance | None:
    """Read `--fail` and `--slow`; None where neither is there.

    Raises:
        CommandError: one of them does not fit the mesh, or several steps are asked for.
    """
    if arguments.fail is None and not arguments.slow:
        return None
    if arguments.steps > 1:
        raise CommandError("--fail and --slow disturb one step; leave --steps out")
    mesh_shape = MeshShape(mesh.axis_sizes)
    try:
        failure = None if arguments.fail is None else parse_failure(arguments.fail, mesh_shape)
        return Disturbance(failure, parse_slowdown(arguments.slow, mesh_shape))
    except ValueError as error:
        raise CommandError(str(error)) from error


def run_disturbed(
    plan: Plan,
    mesh: Mesh,
    disturbance: Disturbance,
    inputs: Mapping[str, np.ndarray] | None,
    reference: Mapping[str, np.ndarray] | None,
    compute_dtype: str | None,
    xp: ArrayNamespace,
) -> DisturbedRun:
    """Run a plan on the disturbed mesh, with numbers if there are `inputs`, and compare its outputs.

    Raises:
        CommandError: the plan uses a part of the mesh only, a survivor has no room for a lost device's share, or
            devices of a plan with stages are to be lost.
    """
    program = whole_mesh_program(plan, mesh, "--fail and --slow need")
    known = {source.site for source in plan.graph.sources}
    given = None if inputs is None else {site: value for site, value in inputs.items() if site in known}
    dry, slowdown, failure = inputs is None, disturbance.slowdown, disturbance.failure
    try:
        if failure is None:
            execution = simulate(
                program,
                mesh,
                given,
                dry=dry,
                capacity_check=False,
                compute_dtype=compute_dtype,
                slowdown=slowdown,
                xp=xp,
            )
        else:
            execution = simulate_loss(
                program, mesh, failure, given, dry=dry, compute_dtype=compute_dtype, slowdown=slowdown, xp=xp
            )
    except OutOfMemory as error:
        raise CommandError(f"the survivors cannot go on: {error}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    return DisturbedRun(execution, relative_errors(execution.outputs, reference or {}))


def whole_mesh_program(plan: Plan, mesh: Mesh, needing: str) -> ExplicitGraph:
    """Expand a plan on the whole mesh; `needing` begins the message of the error.

    Raises:
        CommandError: the plan uses a part of the mesh only.
    """
    program = expand(plan.graph, plan.placements, MeshShape(mesh.axis_sizes))
    if program.axes != mesh.axis_sizes or program.device_count != mesh.device_count:
        raise CommandError(f"{needing} a plan that uses all devices of the mesh")
    return program


def print_disturbed(found: DisturbedRun, plan: Plan) -> None:
    """Print what the disturbance changed."""
    execution = found.execution
    taken, planned = execution.makespan_ticks / TICKS_PER_S, plan.cost["time_s"]
    if execution.recovery is not None:
        print_recovery(execution.recovery)
    print(f"\ndisturbed: {quantity(taken, 's')} instead of {quantity(planned, 's')}", end="")
    print(f", peak memory {quantity(int(execution.peak_memory_bytes.max()), 'B')}")
    if found.max_error:
        print(f"disturbed outputs equal the unsharded reference: {verdict(found.ok, 'yes', 'NO')}")


def print_recovery(recovery: Recovery) -> None:
    """Print what was lost, and what it took to go on."""
    shares = zip(recovery.lost, recovery.hosts, strict=True)
    print(
        f"\nlost after {quantity(recovery.at_ticks / TICKS_PER_S, 's')}, at slot {recovery.slot}: ",
        end="",
    )
    print("; ".join(f"device {lost}, device {host} does its share" for lost, host in shares))
    print(
        f"found again: {quantity(recovery.lost_bytes, 'B')}; {quantity(recovery.received_bytes, 'B')} from "
        f"survivors, {quantity(recovery.reloaded_bytes, 'B')} of sources from the host"
    )
    share = recovery.rerun_flops / max(recovery.executed_flops, 1)
    print(
        f"run again: {recovery.rerun_blocks} blocks and {recovery.rerun_copies} copies on one device each, "
        f"{share:.1%} of a restart's flops, in {quantity(recovery.recovery_ticks / TICKS_PER_S, 's')}; "
        f"{recovery.interrupted_copies} copies were interrupted and repeated"
    )
