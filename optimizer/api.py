"""The public functions `tapestry.optimize`, `verify` and `simulate`: names and files become checked values.

`optimizer.run.search` and the checks take checked values only; what a user may write instead is understood here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from deap.base import Toolbox

from tapestry.hardware.simulator import Execution
from tapestry.hardware.simulator import simulate as simulate_program
from tapestry.optimizer.analysis.affordability import fits_in_memory, is_affordable
from tapestry.optimizer.analysis.verification import Verification, reference_outputs, verify_plan
from tapestry.optimizer.checked_plans import subject_of
from tapestry.optimizer.placement.toolbox import toolbox_faults
from tapestry.optimizer.requests import MeshLike, ProgramLike, read_request
from tapestry.optimizer.run.checkpoint import Checkpoint
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.options import (
    INSTEAD,
    NO_SNAPSHOT,
    OPTIONS,
    OptionError,
    RunOptions,
    fault_line,
    options_and_faults,
)
from tapestry.optimizer.run.plan import Plan, Result
from tapestry.optimizer.run.search import search
from tapestry.teg.arguments import (
    FLAG,
    FUNCTION,
    NUMBER,
    ArgumentKind,
    a_value_of,
    argument_faults,
    optional,
)
from tapestry.teg.arrays import arrays_named
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.exporters.tables.build import sharding_table as table_of_plan
from tapestry.teg.exporters.tables.table import ShardingTable
from tapestry.teg.faults import ArgumentError, Fault
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

BY_NAME = {option.name: option for option in OPTIONS}
# The arguments of `optimize` that are no options of the run; the other ones are for reading the program.
PARAMETERS = {
    "executor": optional(a_value_of(Executor, "an executor of concurrent.futures")),
    "search": FLAG,
    "seeds": FLAG,
    "start_from": ArgumentKind(
        "plans of an earlier search",
        lambda value: isinstance(value, (list, tuple)) and all(isinstance(plan, Plan) for plan in value),
        "write start_from=result.frontier",
    ),
    "resume": optional(a_value_of(Checkpoint, "a checkpoint")),
    "on_progress": optional(FUNCTION),
    "on_checkpoint": optional(FUNCTION),
    "checkpoint_s": NUMBER,
    "should_stop": optional(FUNCTION),
    "toolbox": optional(a_value_of(Toolbox, "a deap.base.Toolbox")),
}


def optimize(
    program: ProgramLike,
    mesh: MeshLike,
    objectives: Sequence[str] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    external_data: str | PathLike[str] | None = None,
    pins_from: str | PathLike[str] | None = None,
    **options: Any,
) -> Result:
    """Search the plans of a program on a mesh; return the frontier over `objectives`.

    `program` is a graph, a program of the builder (its pins hold), or the path of a file: ONNX, StableHLO, PyTorch,
    a TEG document (`dims` and `external_data` are for reading it, see `read_program`). `mesh` is a mesh, a name of the
    catalog or the path of a TOML file. `options` are those of a run (`optimizer.run.options.RunOptions`: `seconds`,
    `evaluations`, `seed`, `constraints`, ...; after twenty seconds without a limit), and:

    - `pins_from` is a file of shardings, whose tensors are pinned as it states: a table in JSON, a Python module of
      PartitionSpecs, DTensor placements or mesh mappers of ttnn, a StableHLO module with Shardy attributes, or tensors
      with a metal_layout.
    - `executor` runs the islands; by default several have a process each. Any `concurrent.futures.Executor` will do
      that runs one task of a process at a time; that of a Dask cluster is `optimizer.ClusterIslands`.
    - `search=False` returns the frontier of the first plans; these come from propagation, with `seeds=False` from the
      abstract plan alone.
    - `start_from` are plans of an earlier search of the same program, perhaps on another mesh; choices that this mesh
      lacks become the nearest that it has.
    - `on_progress` is called after every phase and round. `should_stop` is asked between units of work, also
      while graphs are compiled; once it is true the search ends (`stopped` is "cancelled") with the frontier found,
      which is empty before the first plan. Ctrl-C keeps the frontier found (`stopped` is "interrupted").
    - `on_checkpoint` is called about every `checkpoint_s` seconds with the state between two rounds, and once at the
      end; an exception it raises ends the search. `resume` continues from such a state as if it had never stopped.
    - `toolbox` holds operators of selection and variation (see `tapestry.default_toolbox`).

    The result is determined by `seed`, `islands` (default: one per core) and the evaluations done. `seconds` are those
    of preparation and rounds, without reading the program; a search stops between epochs. `deadline_seconds` are those
    of the whole call: near its end the search stops (`stopped` is "deadline"), and with little time it prepares less,
    so that evaluations alone do not repeat it. Of an explicit graph the program that it shards is searched; unobserved
    values are pruned.

    >>> import tapestry
    >>> result = tapestry.optimize("model.onnx", "dgx-h100", seconds=10)  # doctest: +SKIP

    Raises:
        OptionError: arguments of another type, unknown options or names (near ones are named), a file, bound or value
            that does not fit; `faults` are all of them. It is a `TypeError` and a `ValueError`.
        ValueError: both `resume` and `start_from`, no plan of this program in `start_from`, or shards that do not
            verify.
        StaleCheckpoint: `resume` is of another search or release.
        InvalidGraphError: the graph breaks a rule of the language.
    """
    began_s = time.perf_counter()
    keywords = options if objectives is None else {"objectives": objectives, **options}
    parameters = {name: keywords.pop(name) for name in PARAMETERS.keys() & keywords.keys()}
    run_options, faults = options_and_faults(
        keywords.pop("options", None),
        keywords,
        ("options", "dims", "external_data", "pins_from", *PARAMETERS),
    )
    request = read_request(program, mesh, run_options, dims, external_data, pins_from)
    lines = [fault_line(fault) for fault in (*request.faults, *faults, *_not_here(run_options))]
    lines += argument_faults(PARAMETERS, parameters)
    if isinstance(toolbox := parameters.get("toolbox"), Toolbox):
        lines += toolbox_faults(toolbox)
    if lines or request.graph is None or request.mesh is None:
        raise OptionError(*lines)
    seconds = request.options.deadline_seconds
    deadline = None if seconds is None else Deadline(began_s + seconds)
    return search(request.graph, request.mesh, options=request.options, deadline=deadline, **parameters)


def verify(
    found: Result | Plan,
    plan: Plan | str = "knee",
    *,
    program: ProgramLike | None = None,
    mesh: MeshLike | None = None,
    execute: bool | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    compute_dtype: str | None = None,
) -> Verification:
    """Prove a plan's sharding, count its memory and traffic on the device simulator, and compare its values.

    `found` is a result and `plan` one of its plans, the first digits of an id, or a role: "knee", "fastest", "smallest
    peak". Or `found` is a plan; then `mesh` is where it runs, and `program` the program to compare with.

    Values are computed on all simulated devices and compared with those of the unsharded program: by default where
    that is estimated to take no more than a minute and fits in memory, always or never with `execute`. `inputs` are
    whole arrays by the program's input names; without them they are drawn by `seed`.

    >>> import tapestry
    >>> assert tapestry.verify(result, "fastest").ok  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or a plan without its mesh.
        ValueError: no such plan, inputs that do not fit, or values that do not fit in memory.
    """
    given = {"execute": execute, "inputs": inputs, "seed": seed, "compute_dtype": compute_dtype}
    subject = subject_of(found, plan, program, mesh, given)
    if subject.program is None and (execute or inputs is not None):
        raise ArgumentError(
            "values are compared with those of the program: give program=, or the result with the plan"
        )
    compared = subject.program is not None and (
        is_affordable(subject.program, [subject.plan])
        if execute is None and inputs is None
        else execute is not False
    )
    if subject.program is None or not compared:
        return verify_plan(subject.plan, subject.mesh, compute_dtype=subject.compute_dtype)
    _check_memory(subject.plan, "execute=False")
    values = _inputs(subject.program, inputs, seed)
    return verify_plan(
        subject.plan,
        subject.mesh,
        inputs=_of_sources(subject.plan.graph, values),
        execute=True,
        reference=reference_outputs(subject.program, values),
        compute_dtype=subject.compute_dtype,
    )


def simulate(
    found: Result | Plan,
    plan: Plan | str = "knee",
    *,
    mesh: MeshLike | None = None,
    execute: bool | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
    trace: bool = False,
    compute_dtype: str | None = None,
    backend: str = "numpy",
) -> Execution:
    """Run a plan on the device simulator: count memory, bytes and time, and compute its outputs.

    `found`, `plan`, `mesh` and `execute` are those of `verify`. `inputs` are whole arrays by input name, in the shapes
    of the program as it was given; so are the outputs. Without them inputs are drawn by `seed`, which the execution
    states. `trace` keeps the events (`tapestry.hardware.simulator.to_perfetto`). "numpy" computes, or with
    `backend="torch"` torch, on a GPU where it finds one.

    >>> import tapestry
    >>> run = tapestry.simulate(result, "fastest")  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or a plan without its mesh.
        ValueError: no such plan, inputs that do not fit, or values that do not fit in memory.
    """
    given = {
        "execute": execute,
        "inputs": inputs,
        "seed": seed,
        "trace": trace,
        "compute_dtype": compute_dtype,
        "backend": backend,
    }
    subject = subject_of(found, plan, None, mesh, given)
    graph = subject.plan.graph
    explicit = expand(graph, subject.plan.placements, MeshShape(subject.mesh.axis_sizes))
    computed = execute is not False
    if execute is None and inputs is None:
        computed = is_affordable(graph, [subject.plan])
    values = None
    if computed:
        _check_memory(subject.plan, "execute=False")
        values = _of_sources(graph, _inputs(graph if inputs else subject.program or graph, inputs, seed))
    execution = simulate_program(
        explicit,
        subject.mesh.part(explicit.axes),
        values,
        dry=not computed,
        capacity_check=False,
        trace=trace,
        compute_dtype=subject.compute_dtype,
        xp=arrays_named(backend),
    )
    drawn = seed if computed and inputs is None else None
    return replace(execution, outputs=unpack_outputs(graph, execution.outputs), seed=drawn)


def sharding_table(
    found: Result | Plan,
    plan: Plan | str = "knee",
    *,
    program: ProgramLike | None = None,
    mesh: MeshLike | None = None,
) -> ShardingTable:
    """Return where a plan places the program's tensors, by the program's names and over its dimensions.

    `found` and `plan` are those of `verify`; a plan without its result needs `program` and `mesh`.
    `tapestry.teg.exporters.tables` writes the table as JSON and for JAX, PyTorch and Shardy.

    >>> import tapestry
    >>> table = tapestry.sharding_table(result, "fastest")  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or a plan without its program or mesh.
        ValueError: no such plan, program or mesh.
    """
    subject = subject_of(found, plan, program, mesh, {"compute_dtype": None})
    if subject.program is None:
        raise ArgumentError("a plan does not say what it is for: give the result with it, or program=")
    placed, shape = subject.plan, MeshShape(subject.mesh.axis_sizes)
    return table_of_plan(subject.program, placed.graph, placed.placements, shape, placed.id)


def _not_here(options: RunOptions) -> Iterator[Fault]:
    """Yield the options that the service and the command line carry out, and this interface does not."""
    for name, instead in INSTEAD.items():
        if getattr(options, name) != BY_NAME[name].default:
            yield Fault(f"/{name}", instead)
    if options.start_from is not None:
        yield Fault(
            "/start_from", "stored runs are for the service; give plans, as start_from=result.frontier"
        )
    if options.prior not in (None, NO_SNAPSHOT):
        yield Fault("/prior", "what runs have learned is in a store; use the service or the command line")


def _inputs(graph: Graph, given: Mapping[str, np.ndarray] | None, seed: int) -> dict[str, np.ndarray]:
    """Return the values of a program's sources: those given, or drawn ones."""
    return random_inputs(graph, np.random.default_rng(seed)) if given is None else pack_inputs(graph, given)


def _of_sources(graph: Graph, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of those sources that a graph still has."""
    sites = {source.site for source in graph.sources}
    return {site: value for site, value in values.items() if site in sites}


def _check_memory(plan: Plan, hint: str) -> None:
    if not fits_in_memory([plan]):
        needed = plan.cost["total_memory_bytes"]
        raise ArgumentError(
            f"the plan's devices hold {needed / 2**30:,.1f} GiB in all, too much to compute here; {hint} only counts"
        )
