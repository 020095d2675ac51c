"""`tapestry simulate --processes`: run a plan on processes, one for each device, and compare with the simulator."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapestry.hardware import Mesh
from tapestry.hardware.processes import (
    LARGEST_GROUP,
    DeviceProcesses,
    ProcessError,
    ProcessRun,
    run_on_processes,
)
from tapestry.hardware.simulator.execution import Recovery
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.verification import TOLERANCE, relative_errors
from tapestry.service.cli.commands.disturbed import (
    Disturbance,
    DisturbedRun,
    print_recovery,
    recovery_document,
    whole_mesh_program,
)
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.output import print_table, verdict
from tapestry.teg.arrays import arrays_named
from tapestry.teg.readable import quantity

# What a recovery on processes does is what the simulator's does. The simulator counts lost bytes with padding.
COUNTED = (
    "lost",
    "hosts",
    "slot",
    "received_bytes",
    "reloaded_bytes",
    "rerun_blocks",
    "rerun_copies",
    "rerun_flops",
    "interrupted_copies",
)


@dataclass(frozen=True)
class MeasuredRun:
    """A run of a plan on processes: `max_error` by output, and what differs from the simulator's counts."""

    run: ProcessRun
    max_error: Mapping[str, float]
    differences: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """The faults of the run, as sentences."""
        wrong = [site for site, error in self.max_error.items() if not error <= TOLERANCE]
        values = [f"the processes' values of {site!r} differ from the reference" for site in wrong]
        return (*values, *self.differences)

    def to_json(self) -> dict[str, Any]:
        """Convert to the section `processes` of the command's JSON; lost devices have no times."""
        run = self.run
        return {
            "seconds": run.seconds,
            "traffic_bytes": int(run.received_bytes.sum()),
            "received_bytes_by_device": run.received_bytes.tolist(),
            "busy_s_by_device": [None if np.isnan(s) else s for s in run.busy_s.tolist()],
            "waiting_s_by_device": [None if np.isnan(s) else s for s in run.waiting_s.tolist()],
            "recovery": None if run.recovery is None else recovery_document(run.recovery),
            "differences": list(self.differences),
            "values": {
                "ok": not any(error > TOLERANCE for error in self.max_error.values()),
                "max_error": dict(self.max_error),
            },
        }


def check_processes(arguments: Namespace, mesh: Mesh) -> None:
    """Check that `--processes` fits the mesh and the other options.

    Raises:
        CommandError: it does not.
    """
    if arguments.processes is None:
        return
    if arguments.dry:
        raise CommandError("--processes computes; leave --dry out")
    if arguments.steps > 1:
        raise CommandError("--processes runs one step; leave --steps out")
    if arguments.processes != mesh.device_count:
        raise CommandError(
            f"--processes {arguments.processes}: one process does the share of one device, and mesh {mesh.name!r} has "
            f"{mesh.device_count}; give --processes {mesh.device_count}"
        )
    if arguments.processes > LARGEST_GROUP:
        raise CommandError(
            f"--processes {arguments.processes}: at most {LARGEST_GROUP} are started; take a smaller mesh"
        )
    try:
        arrays_named("torch", "cpu")
    except ValueError as error:
        raise CommandError(f"--processes: {error}") from error


def run_measured(
    plan: Plan,
    mesh: Mesh,
    disturbance: Disturbance | None,
    inputs: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
    traffic_bytes: int,
    simulated: DisturbedRun | None,
) -> MeasuredRun:
    """Run a plan on processes and compare: outputs with the `reference`, counts with those that were simulated.

    `traffic_bytes` is the traffic that the simulator counted without a loss.

    Raises:
        CommandError: the plan uses a part of the mesh only, or a process ended or failed.
    """
    program = whole_mesh_program(plan, mesh, "--processes needs")
    known = {source.site for source in plan.graph.sources}
    given = {site: value for site, value in inputs.items() if site in known}
    failure = None if disturbance is None else disturbance.failure
    slowdown = None if disturbance is None else disturbance.slowdown
    try:
        with DeviceProcesses() as processes:
            run = run_on_processes(processes, program, mesh, given, failure=failure, slowdown=slowdown)
    except (ProcessError, ValueError) as error:
        raise CommandError(f"--processes: {error}") from error
    differences = []
    recovery = None if simulated is None else simulated.execution.recovery
    if run.recovery is not None and recovery is not None:
        differences += recovery_differences(run.recovery, recovery)
    elif int(run.received_bytes.sum()) != traffic_bytes:
        received = int(run.received_bytes.sum())
        differences.append(
            f"the processes received {received:,} B, the simulator counted {traffic_bytes:,} B"
        )
    return MeasuredRun(run, relative_errors(run.outputs, reference), tuple(differences))


def recovery_differences(measured: Recovery, simulated: Recovery) -> list[str]:
    """List the counts in which a recovery on processes differs from the simulator's for the same loss."""
    pairs = [(name, getattr(measured, name), getattr(simulated, name)) for name in COUNTED]
    return [
        f"the recovery on processes has {name} {found}, the simulator's {wanted}"
        for name, found, wanted in pairs
        if found != wanted
    ]


def print_measured(measured: MeasuredRun) -> None:
    """Print what the processes did, beside the simulator's counts."""
    run = measured.run
    print(f"\non {len(run.busy_s)} processes: {quantity(run.seconds, 's')}, ", end="")
    print(f"{quantity(int(run.received_bytes.sum()), 'B')} of traffic\n")
    rows = [
        (str(device), "lost", "", "")
        if np.isnan(busy_s)
        else (str(device), quantity(busy_s, "s"), quantity(waiting_s, "s"), quantity(received_bytes, "B"))
        for device, (busy_s, waiting_s, received_bytes) in enumerate(
            zip(run.busy_s.tolist(), run.waiting_s.tolist(), run.received_bytes.tolist(), strict=True)
        )
    ]
    print_table(("device", "in blocks", "waiting", "received"), rows, right=(0, 1, 2, 3))
    if run.recovery is not None:
        print_recovery(run.recovery)
    same = not measured.differences
    print(f"\nblocks and bytes as simulated: {verdict(same, 'yes', 'NO')}")
    ok = all(error <= TOLERANCE for error in measured.max_error.values())
    print(f"the processes' outputs equal the unsharded reference: {verdict(ok, 'yes', 'NO')}")
