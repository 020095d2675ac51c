"""`tapestry simulate`: run a plan on the device simulator; counts against predictions, values against the reference."""

from __future__ import annotations

import gzip
import json
import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.version import cost_model_note
from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, knee
from tapestry.optimizer.analysis.affordability import fits_in_memory
from tapestry.optimizer.archive.constraints import fits
from tapestry.service.checking import (
    abstract_plan,
    execute_plan,
    failures_of,
    given_values,
    next_step,
    outdated_predictions,
    reference_values,
)
from tapestry.service.cli.commands.disturbed import (
    DisturbedRun,
    disturbance_of,
    print_disturbed,
    run_disturbed,
)
from tapestry.service.cli.commands.measured import (
    MeasuredRun,
    check_processes,
    print_measured,
    run_measured,
)
from tapestry.service.cli.commands.pinned import run_explicit
from tapestry.service.cli.errors import FAILED, OK, CommandError
from tapestry.service.cli.frontier import unit_of
from tapestry.service.cli.named_tensors import (
    GivenTensors,
    check_names,
    check_places,
    request_of,
    save_outputs,
    with_stored,
)
from tapestry.service.cli.output import print_json, print_table, verdict
from tapestry.service.cli.searching import open_store, read_graph, read_mesh
from tapestry.service.cli.tensors import read_values, warn_of_unread, write_outputs
from tapestry.service.presentation import cost_model_document, title_of
from tapestry.service.store import NewExecution, Store, StoreError, mesh_of
from tapestry.service.tensor_moves import moves_to, with_moves
from tapestry.teg.arrays import arrays_named
from tapestry.teg.faults import ArgumentError
from tapestry.teg.graph import Graph
from tapestry.teg.readable import quantity
from tapestry.teg.sharding.external_graphs import is_explicit

PLAN = re.compile(r"([0-9a-f]+/)?[0-9a-f]+")
COUNTED = ("peak_memory_bytes", "traffic_bytes", "compute_flops", "time_s")


@dataclass(frozen=True)
class SimulatedPlan:
    """The subject of a simulation: a plan, the program it came from, the mesh; `key` if the plan is stored."""

    plan: Plan
    graph: Graph
    mesh: Mesh
    compute_dtype: str | None
    key: int | None = None


class Simulated(NamedTuple):
    """The steps of a plan that were run, the outputs of the last one, and the runs that were asked for beside them."""

    subject: SimulatedPlan
    executions: list[NewExecution]
    outputs: Mapping[str, np.ndarray]
    disturbed: DisturbedRun | None
    measured: MeasuredRun | None


def run(arguments: Namespace) -> int:
    """Find the plan, run it, compare, and store the results."""
    if arguments.trace is not None:
        _check_trace(arguments.trace)
    try:
        arrays_named(arguments.backend)
    except ValueError as error:
        raise CommandError(f"--backend: {error}") from error
    _take_plan(arguments)
    given = with_stored(read_values(arguments), arguments)
    if arguments.plan is not None or arguments.run is not None:
        return _finish(_execute_stored(arguments, given), arguments)
    graph, mesh = _given(arguments)
    if is_explicit(graph):
        _check_explicit(arguments)
        return run_explicit(graph, mesh, arguments, given.values)
    return _finish(_execute(_abstract(graph, mesh, arguments), arguments, given), arguments)


def _check_explicit(arguments: Namespace) -> None:
    """Check that no option asks for what a program that is sharded already cannot have.

    Raises:
        CommandError: one does.
    """
    if arguments.steps > 1:
        raise CommandError(
            "--steps: a program that is sharded and pinned already runs one step; give the program that it "
            "shards, or a plan"
        )
    if arguments.processes is not None:
        raise CommandError(
            "--processes: give the program that this one shards, or a plan; they have slots to go on from"
        )
    if arguments.tensor or arguments.save:
        raise CommandError("--tensor, --save: a program that is sharded already has no plan to place them")


def _execute_stored(arguments: Namespace, given: GivenTensors) -> Simulated:
    """Run a stored plan, and store its executions unless that is not wanted."""
    store = open_store(arguments.database_url)
    try:
        simulated = _execute(_stored(store, arguments), arguments, given)
        key, request = simulated.subject.key, request_of(given, arguments)
        if key is not None and not arguments.no_store:
            for execution in simulated.executions:
                store.executions.save(key, replace(execution, request=request))
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    return simulated


def _finish(simulated: Simulated, arguments: Namespace) -> int:
    """Write the files, store the tensors, print what was counted; return the exit code."""
    subject, executions, outputs, disturbed, measured = simulated
    if arguments.trace is not None:
        _write_trace(arguments.trace, executions[-1].trace)
    if arguments.outputs is not None:
        write_outputs(arguments.outputs, subject.plan.graph, outputs)
    save_outputs(arguments, subject.plan, subject.mesh, outputs)
    if arguments.json:
        print_json(_document(simulated))
    else:
        _print(subject, executions)
        if disturbed is not None:
            print_disturbed(disturbed, subject.plan)
        if measured is not None:
            print_measured(measured)
    failures = _failures(simulated)
    outdated = dict.fromkeys(
        line for e in executions for line in outdated_predictions(subject.plan.id, e.verified)
    )
    for line in (*failures, *outdated):
        print(f"tapestry: {line}", file=sys.stderr)
    return FAILED if failures else OK


def _failures(simulated: Simulated) -> list[str]:
    """Return the checks that failed, one line each."""
    plan_id, disturbed, measured = simulated.subject.plan.id, simulated.disturbed, simulated.measured
    failures = [line for e in simulated.executions for line in failures_of(plan_id, e.verified)]
    if disturbed is not None and not disturbed.ok:
        failures.append(f"plan {plan_id}: the disturbed run's values differ from the reference")
    if measured is not None:
        failures += [f"plan {plan_id}: {line}" for line in measured.failures]
    return failures


def _take_plan(arguments: Namespace) -> None:
    """Take what stands in the place of a GRAPH as a plan, if it is written like one and there is no such file."""
    named = arguments.graph
    if named is None or arguments.mesh is not None or arguments.plan is not None:
        return
    if PLAN.fullmatch(named) and not Path(named).exists():
        arguments.plan, arguments.graph = named, None


def _given(arguments: Namespace) -> tuple[Graph, Mesh]:
    if arguments.graph is None or arguments.mesh is None:
        raise CommandError(
            "give a GRAPH and a --mesh, or a stored --plan or --run; see tapestry simulate --help"
        )
    mesh = read_mesh(arguments.mesh).launched(arguments.launch)
    return read_graph(arguments.graph, arguments.dim, arguments.external_data, arguments.dtype), mesh


def _abstract(graph: Graph, mesh: Mesh, arguments: Namespace) -> SimulatedPlan:
    try:
        plan = abstract_plan(graph, mesh, arguments.compute_dtype)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return SimulatedPlan(plan, graph, mesh, arguments.compute_dtype)


def _stored(store: Store, arguments: Namespace) -> SimulatedPlan:
    if arguments.mesh is not None:
        raise CommandError("a stored plan brings its mesh along; leave --mesh out")
    if arguments.plan is None:
        run = store.runs.find(arguments.run)
        mesh = mesh_of(run.mesh)
        found = knee(run.frontier, [objective_called(name) for name in run.summary.options.objectives])
        chosen = store.plans.load(found.key)
    else:
        reference = arguments.plan if arguments.run is None else f"{arguments.run}/{arguments.plan}"
        found = store.plans.find(reference)
        run, chosen = store.runs.find(found.run_id), store.plans.load(found.key)
        mesh = mesh_of(run.mesh)
    graph = store.graphs.load(run.summary.graph_id)
    if arguments.graph is not None:
        given = read_graph(arguments.graph, arguments.dim, arguments.external_data, arguments.dtype)
        if given.structural_hash != graph.structural_hash:
            raise CommandError(
                f"plan {found.id} was found for {graph.name!r}, which is not what {arguments.graph!r} holds"
            )
    return SimulatedPlan(
        chosen, graph, mesh, arguments.compute_dtype or run.summary.options.compute_dtype, found.key
    )


def _execute(subject: SimulatedPlan, arguments: Namespace, given: GivenTensors) -> Simulated:
    """Run the plan's steps one after the other, then once more on the disturbed mesh that is asked for."""
    disturbance = disturbance_of(arguments, subject.mesh)
    check_processes(arguments, subject.mesh)
    inputs = reference = None
    check_names(subject.graph, arguments)
    check_places(subject.plan, arguments)
    if not arguments.dry:
        inputs, reference = _values(subject, arguments.seed, given.values)
    executions: list[NewExecution] = []
    before = None
    for step in range(arguments.steps):
        if step and inputs is not None and reference is not None:
            inputs, reference = next_step(subject.graph, inputs, reference)
        execution, before = execute_plan(
            subject.plan,
            subject.mesh,
            arguments.seed if given.values is None else None,
            inputs,
            reference,
            subject.compute_dtype,
            trace=arguments.trace is not None,
            after=before,
            backend=arguments.backend,
        )
        executions.append(execution)
    try:
        moves = moves_to(subject.plan, subject.mesh, subject.graph, given.named)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if moves:
        executions[0] = replace(executions[0], counts=with_moves(executions[0].counts, moves))
    disturbed = None
    if disturbance is not None:
        disturbed = run_disturbed(
            subject.plan,
            subject.mesh,
            disturbance,
            inputs,
            reference,
            subject.compute_dtype,
            arrays_named(arguments.backend),
        )
    measured = None
    if arguments.processes is not None and inputs is not None and reference is not None:
        counted = executions[-1].counts["traffic_bytes"]["counted"]
        measured = run_measured(
            subject.plan, subject.mesh, disturbance, inputs, reference, counted, disturbed
        )
    return Simulated(subject, executions, {} if before is None else before.outputs, disturbed, measured)


def _values(
    subject: SimulatedPlan, seed: int, given: Mapping[str, np.ndarray] | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the values of inputs and weights, given or seeded, and the unsharded program's outputs for them."""
    if not fits_in_memory([subject.plan]):
        needed = quantity(subject.plan.cost["total_memory_bytes"], "B")
        raise CommandError(f"the plan's devices hold {needed} in all, too much to compute here; use --dry")
    if given is None:
        return reference_values(subject.graph, seed)
    try:
        found = given_values(subject.graph, given)
    except ArgumentError as error:
        raise CommandError(str(error)) from error
    warn_of_unread(subject.graph, given)
    return found


def _check_trace(path: str) -> None:
    if not path.endswith((".json", ".json.gz")):
        raise CommandError(f"--trace {path!r}: expected a file ending in .json or .json.gz")
    if Path(path).is_dir() or not Path(path).resolve().parent.is_dir():
        raise CommandError(f"--trace {path!r}: it is a folder, or its folder does not exist")


def _write_trace(path: str, trace: Mapping[str, Any] | None) -> None:
    content = json.dumps(trace).encode()
    try:
        Path(path).write_bytes(gzip.compress(content, mtime=0) if path.endswith(".gz") else content)
    except OSError as error:
        raise CommandError(f"cannot write {path!r}: {error.strerror or error}") from error


def _document(simulated: Simulated) -> dict[str, Any]:
    subject, executions, _, disturbed, measured = simulated
    execution = executions[-1]
    steps = [{"counts": dict(e.counts), "verified": dict(e.verified)} for e in executions]
    more = {} if disturbed is None else {"disturbed": disturbed.to_json()}
    more |= {} if measured is None else {"processes": measured.to_json()}
    return {
        "graph": subject.graph.name,
        "mesh": subject.mesh.name,
        "plan": subject.plan.id,
        **cost_model_document(subject.plan.cost_model),
        "is_stored": subject.key is not None,
        "fits": fits(subject.plan.cost, subject.mesh),
        "backend": execution.backend,
        "seed": execution.seed,
        "counts": dict(execution.counts),
        "verified": dict(execution.verified),
        "steps": steps,
        **more,
    }


def _print(subject: SimulatedPlan, executions: Sequence[NewExecution]) -> None:
    execution = executions[-1]
    kind = "stored plan" if subject.key is not None else "abstract plan"
    print(f"{kind} {subject.plan.id} of {subject.graph.name} on {subject.mesh.name}, {execution.backend}\n")
    rows = []
    for name in COUNTED:
        pair = execution.counts[name]
        same = pair["predicted"] == pair["counted"]
        values = [quantity(pair[side], unit_of(name)) for side in ("predicted", "counted")]
        rows.append((title_of(name), *values, verdict(same, "equal", "different")))
    print_table(("", "predicted", "counted", ""), rows, right=(1, 2))
    if len(executions) > 1:
        moved = sum(e.counts["traffic_bytes"]["counted"] for e in executions)
        print(f"\n{len(executions)} steps, the last one shown: {quantity(moved, 'B')} of traffic in all")
    if moves := executions[0].counts.get("moves"):
        costs = f"{quantity(moves['traffic_bytes'], 'B')} of traffic, {quantity(moves['time_s'], 's')}"
        print(f"\nbefore, tensors were brought to their inputs: {costs}")
    if note := cost_model_note(subject.plan.cost_model):
        print(f"{note}: counts that differ from its predictions are no fault of the plan")
    capacity = subject.mesh.device.memory_bytes
    is_held = fits(subject.plan.cost, subject.mesh)
    print(f"\nfits into {quantity(capacity, 'B')} per device: {verdict(is_held, 'yes', 'NO')}")
    print(f"sharding proven: {verdict(execution.verified['sharding']['ok'], 'yes', 'NO')}")
    values = execution.verified["values"]
    if not values["executed"]:
        print("values: not computed")
        return
    for sink, error in values["max_error"].items():
        print(f"output {sink}: max|a-b| = {'inf' if error is None else format(error, '.2e')} max|b|")
    print(f"outputs equal the unsharded reference: {verdict(values['ok'], 'yes', 'NO')}")
