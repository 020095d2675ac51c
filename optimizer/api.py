"""The public functions `tapestry.optimize`, `verify` and `simulate`: names and files become checked values.

The search and the checks below take checked values only; what a user may write instead is understood here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from difflib import get_close_matches
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from deap.base import Toolbox

from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.simulator import Execution
from tapestry.hardware.simulator import simulate as simulate_program
from tapestry.optimizer.analysis.affordability import fits_in_memory, is_affordable
from tapestry.optimizer.analysis.verification import Verification, verify_plan
from tapestry.optimizer.archive.report import representative_plans
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.optimize import optimize as search
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.plan import Plan, Result
from tapestry.teg.brief import brief
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.programs.program import Program
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

LISTS = ("objectives", "constraints", "rules", "start_from")
WHOLE = ("seed", "islands", "evaluations")

ProgramLike = Graph | Program | str | PathLike[str]
MeshLike = Mesh | str | PathLike[str]


def optimize(
    program: ProgramLike,
    mesh: MeshLike,
    objectives: Sequence[str] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    external_data: str | PathLike[str] | None = None,
    **options: Any,
) -> Result:
    """Search the plans of a program on a mesh; return the frontier over `objectives`.

    `program` is a graph, a program of the builder (its pins hold), or the path of a file: ONNX, StableHLO, PyTorch,
    a TEG document (`dims` and `external_data` are for reading it, see `read_program`). `mesh` is a mesh, a name of the
    catalog or the path of a TOML file. `options` are those of a run (`optimizer.run.options.RunOptions`: `seconds`,
    `evaluations`, `seed`, `constraints`, ...; after ten seconds without a limit) and the other keywords of
    `tapestry.optimizer.optimize`, which also says what it computes.

    >>> import tapestry
    >>> result = tapestry.optimize("model.onnx", "dgx-h100", seconds=10)  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or an unknown option; near ones are named.
        ValueError: a name, file, bound or option that does not fit, with near names: a `GraphFileError` for
            the program, a `CatalogError` for the mesh.
    """
    _check_types({"objectives": objectives, **options})
    graph, pins = _program(program, dims, external_data)
    pins |= options.pop("pins", None) or {}
    return search(graph, _mesh(mesh), objectives, pins=pins, **options)


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
    that takes seconds and fits in memory, always or never with `execute`. `inputs` are whole arrays by the program's
    input names; without them they are drawn by `seed`.

    >>> import tapestry
    >>> assert tapestry.verify(result, "fastest").ok  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or a plan without its mesh.
        ValueError: no such plan, inputs that do not fit, or values that do not fit in memory.
    """
    subject = _subject(found, plan, program, mesh, compute_dtype)
    if subject.program is None and (execute or inputs is not None):
        raise TypeError(
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
    sites = {source.site for source in subject.plan.graph.sources}
    return verify_plan(
        subject.plan,
        subject.mesh,
        inputs={site: value for site, value in values.items() if site in sites},
        execute=True,
        reference=evaluate(subject.program, values),
        compute_dtype=subject.compute_dtype,
    )


def simulate(
    found: Result | Plan,
    plan: Plan | str = "knee",
    *,
    mesh: MeshLike | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    trace: bool = False,
    compute_dtype: str | None = None,
) -> Execution:
    """Run a plan on the device simulator: count memory, bytes and time, and compute its outputs where there are inputs.

    `found`, `plan` and `mesh` are those of `verify`. `inputs` are whole arrays by input name, in the shapes of the
    program as it was given; so are the outputs. `trace` keeps the events (`tapestry.hardware.simulator.to_perfetto`).

    >>> import tapestry
    >>> run = tapestry.simulate(result, "fastest")  # doctest: +SKIP

    Raises:
        TypeError: an argument of another type, or a plan without its mesh.
        ValueError: no such plan, or inputs that do not fit.
    """
    subject = _subject(found, plan, None, mesh, compute_dtype)
    graph = subject.plan.graph
    explicit = expand(graph, subject.plan.placements, MeshShape(subject.mesh.axis_sizes))
    if inputs is not None:
        _check_memory(subject.plan, "no inputs")
    execution = simulate_program(
        explicit,
        subject.mesh.part(explicit.mesh_shape.axes),
        None if inputs is None else pack_inputs(graph, inputs),
        dry=inputs is None,
        capacity_check=False,
        trace=trace,
        compute_dtype=subject.compute_dtype,
    )
    return replace(execution, outputs=unpack_outputs(graph, execution.outputs))


class _Subject(NamedTuple):
    """A plan to check, the program it came from (None: not known), and its mesh."""

    plan: Plan
    program: Graph | None
    mesh: Mesh
    compute_dtype: str | None


def _subject(
    found: Result | Plan,
    plan: Plan | str,
    program: ProgramLike | None,
    mesh: MeshLike | None,
    compute_dtype: str | None,
) -> _Subject:
    if isinstance(found, Result):
        if program is not None or mesh is not None:
            raise TypeError("a result knows its program and its mesh; leave program= and mesh= out")
        return _Subject(_plan(found, plan), found.graph, found.mesh, compute_dtype or found.compute_dtype)
    if not isinstance(found, Plan):
        raise TypeError(
            f"expected the result of optimize(), or a plan of its frontier, not {_kind_of(found)}"
        )
    if mesh is None:
        raise TypeError("a plan does not say where it runs: give the result with it, or mesh=")
    graph = None if program is None else canonicalize(_program(program, None, None)[0])
    return _Subject(found, graph, _mesh(mesh), compute_dtype)


def _plan(result: Result, wanted: Plan | str) -> Plan:
    """Return the plan of a result that a plan, the first digits of an id or a role names."""
    if isinstance(wanted, Plan):
        return wanted
    if not isinstance(wanted, str):
        raise TypeError(f"expected a plan, the first digits of its id, or its role, not {_kind_of(wanted)}")
    if not result.frontier:
        raise ValueError(f"the frontier is empty: {result.shortfall or 'the search found no plan'}")
    roles = representative_plans(result.frontier, result.objectives)
    if wanted in roles:
        return roles[wanted]
    named = [plan for plan in result.frontier if plan.id.startswith(wanted)] if wanted else []
    if len(named) == 1:
        return named[0]
    if named:
        raise ValueError(
            f"plan {wanted!r} could be {', '.join(plan.id for plan in named[:4])}; write more of its id"
        )
    known = [*roles, *(plan.id for plan in result.frontier)]
    raise ValueError(f"the frontier has no plan {wanted!r}{_near(wanted, known, roles)}")


def _inputs(graph: Graph, given: Mapping[str, np.ndarray] | None, seed: int) -> dict[str, np.ndarray]:
    """Return the values of a program's sources: those given, or drawn ones."""
    return random_inputs(graph, np.random.default_rng(seed)) if given is None else pack_inputs(graph, given)


def _check_memory(plan: Plan, hint: str) -> None:
    if not fits_in_memory([plan]):
        needed = plan.cost["total_memory_bytes"]
        raise ValueError(
            f"the plan's devices hold {needed / 2**30:,.1f} GiB in all, too much to compute here; {hint} only counts"
        )


def _program(
    given: ProgramLike, dims: Mapping[str, int] | None, external_data: str | PathLike[str] | None
) -> tuple[Graph, dict[str, str]]:
    """Return the graph of a program, and the pins that it brings along."""
    if isinstance(given, str | PathLike):
        return read_program(given, dims=dims, external_data=external_data), {}
    if dims or external_data is not None:
        raise TypeError("dims= and external_data= are for reading a file; the program is a value already")
    if isinstance(given, Program):
        return given.graph, given.pins
    if isinstance(given, Graph):
        return given, {}
    raise TypeError(
        f"expected a program as a graph, a program of the builder or a file's path, not {_kind_of(given)}; "
        "import others by from_onnx, from_stablehlo, from_jax or from_torch"
    )


def _mesh(given: MeshLike) -> Mesh:
    if isinstance(given, Mesh):
        return given
    if isinstance(given, str | PathLike):
        return load_mesh(given)
    raise TypeError(
        f"expected a mesh, a name such as 'dgx-h100' or the path of a TOML file, not {_kind_of(given)}"
    )


def _check_types(given: Mapping[str, Any]) -> None:
    """Check options that would be misread: a text is a sequence of letters to a search."""
    for name, kind in (("options", RunOptions), ("executor", Executor), ("toolbox", Toolbox)):
        if not isinstance(given.get(name), kind | None):
            raise TypeError(f"{name} is a {kind.__name__}, not {_kind_of(given[name])}")
    for name in ("should_stop", "on_progress", "on_checkpoint"):
        if given.get(name) is not None and not callable(given[name]):
            raise TypeError(f"{name} is a function, not {_kind_of(given[name])}")
    for name in LISTS:
        value = given.get(name)
        if isinstance(value, str):
            items = ", ".join(repr(part.strip()) for part in value.split(","))
            raise TypeError(f"{name} is a list; write {name}=[{items}]")
        if value is not None and not isinstance(value, Sequence):
            raise TypeError(f"{name} is a list, not {_kind_of(value)}")
    for name in WHOLE:
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
            raise TypeError(f"{name} is a whole number, not {_kind_of(value)}")
    seconds, pins = given.get("seconds"), given.get("pins")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise TypeError(f"seconds is a number, not {_kind_of(seconds)}")
    if pins is not None and not isinstance(pins, Mapping):
        raise TypeError(f"pins map sites to specs, such as {{'linear': '[gpu.0, -]'}}; not {_kind_of(pins)}")


def _near(name: str, known: Sequence[str], shown: Sequence[str] | Mapping[str, Any]) -> str:
    near = get_close_matches(name, known, n=2)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; known are {', '.join(shown)}"


def _kind_of(value: object) -> str:
    text = brief(repr(value))
    return text if text.startswith(type(value).__name__) else f"{type(value).__name__} {text}"
