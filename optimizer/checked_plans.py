"""Plans to verify and simulate: which plan a result, a plan, a role or the digits of an id mean, and on which mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tapestry.hardware import Mesh
from tapestry.hardware.simulator.backend import BACKENDS
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.requests import MeshLike, ProgramLike, mesh_of, program_of
from tapestry.optimizer.run.canonicalization import canonicalize
from tapestry.optimizer.run.plan import Plan, Result
from tapestry.teg.arguments import ARRAYS_BY_NAME, FLAG, SEED, TEXT, ArgumentKind, argument_faults, optional
from tapestry.teg.faults import ArgumentError, near_hint, one_of, refuse
from tapestry.teg.graph import Graph

# The arguments of `verify` and `simulate` beside plan, program and mesh.
CHECKING = {
    "execute": optional(FLAG),
    "inputs": optional(ARRAYS_BY_NAME),
    "seed": SEED,
    "trace": FLAG,
    "compute_dtype": optional(TEXT),
    "backend": ArgumentKind(one_of(BACKENDS), lambda value: value in BACKENDS),
}


class Subject(NamedTuple):
    """A plan to check, the program it came from (None: not known), and its mesh."""

    plan: Plan
    program: Graph | None
    mesh: Mesh
    compute_dtype: str | None


def subject_of(
    found: Result | Plan,
    plan: Plan | str,
    program: ProgramLike | None,
    mesh: MeshLike | None,
    given: Mapping[str, Any],
) -> Subject:
    """Return what is to be checked; `given` are the other arguments, whose faults are reported with its own.

    Raises:
        ArgumentError: arguments that do not fit, all of them.
        ValueError: no such plan, program or mesh.
    """
    faults = argument_faults(CHECKING, given)
    try:
        subject = _found(found, plan, program, mesh, given["compute_dtype"])
    except ValueError as error:
        if not faults:
            raise
        raise ArgumentError(*getattr(error, "faults", (str(error),)), *faults) from error
    if faults:
        raise ArgumentError(*faults)
    return subject


def _found(
    found: Result | Plan,
    plan: Plan | str,
    program: ProgramLike | None,
    mesh: MeshLike | None,
    compute_dtype: str | None,
) -> Subject:
    if isinstance(found, Result):
        if program is not None or mesh is not None:
            raise ArgumentError("a result knows its program and its mesh; leave program= and mesh= out")
        return Subject(_plan(found, plan), found.graph, found.mesh, compute_dtype or found.compute_dtype)
    if not isinstance(found, Plan):
        refuse("found", "the result of optimize(), or a plan of its frontier", found)
    if mesh is None:
        raise ArgumentError("a plan does not say where it runs: give the result with it, or mesh=")
    graph = None if program is None else canonicalize(program_of(program, None, None)[0])
    return Subject(found, graph, mesh_of(mesh), compute_dtype)


def _plan(result: Result, wanted: Plan | str) -> Plan:
    """Return the plan of a result that a plan, the first digits of an id or a role names."""
    if isinstance(wanted, Plan):
        return wanted
    if not isinstance(wanted, str):
        refuse("plan", "a plan, the first digits of its id, or its role", wanted)
    if not result.frontier:
        raise ArgumentError(f"the frontier is empty: {result.shortfall or 'the search found no plan'}")
    roles = representative_plans(result.frontier, result.objectives)
    if wanted in roles:
        return roles[wanted]
    named = [plan for plan in result.frontier if plan.id.startswith(wanted)] if wanted else []
    if len(named) == 1:
        return named[0]
    if named:
        raise ArgumentError(
            f"plan {wanted!r} could be {', '.join(plan.id for plan in named[:4])}; write more of its id"
        )
    known = [*roles, *(plan.id for plan in result.frontier)]
    raise ArgumentError(f"the frontier has no plan {wanted!r}; {near_hint(wanted, known, roles)}")
