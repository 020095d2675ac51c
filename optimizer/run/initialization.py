"""Initialization of a search: compilation for every submesh, with the first plans, or resumption from a checkpoint."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tapestry.costmodel.objective import Objective
from tapestry.costmodel.view import view_with
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.fronts import set_parent_weights
from tapestry.optimizer.run.checkpoint import (
    FRONT_FIELDS,
    POOL_FIELDS,
    Checkpoint,
    SavedVariant,
    StaleCheckpoint,
)
from tapestry.optimizer.run.clock import OutOfTime
from tapestry.optimizer.run.options import LIMITS
from tapestry.optimizer.run.plan import Plan
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.stopping import StopRequested
from tapestry.optimizer.run.variants import (
    SubMesh,
    Variant,
    insert_exact,
    insert_plans,
    insert_seeds,
    keeps_pins,
    new_variant,
    structure_of,
)
from tapestry.optimizer.run.view_choice import ranked_views
from tapestry.optimizer.run.warm_start import start_from_plans
from tapestry.optimizer.structure.criteria import Criteria
from tapestry.optimizer.structure.evaluation import EvaluatedGraph
from tapestry.rewrites import Move, RuleError, StaleMove, replay
from tapestry.rewrites.rules import plug_ins as rules
from tapestry.teg.graph import Graph
from tapestry.teg.operators import plug_ins as operators
from tapestry.teg.stopping import CheckStop, never_stop

Report = Callable[[str], None]

PACKAGES = ("teg", "hardware", "rewrites", "costmodel", "optimizer")
# Rewritten graphs that a search begins with: on one device, and beside what is placed on several, for which so much
# of the effort is spent and so many graphs are evaluated.
MOST_REWRITTEN, MOST_JOINING, ALONE_EFFORT, SHARED_EFFORT, MOST_EVALUATED = 12, 2, 10.0, 0.2, 160
# Rounds in which nothing new comes that a search on one device has left, once all that promised something is tried.
ROUNDS_WITHOUT_PROGRESS = 6
# Options that do not change the rounds of a search, or are in the fingerprint with the value they came to.
NOT_IN_THE_SEARCH = {*LIMITS, "islands", "constraints", "rules", "start_from", "verify", "execution_seconds"}
LIBRARIES = ("numpy", "numba", "moocore", "deap")


def initialize(
    state: SearchState,
    graph: Graph,
    criteria: Criteria,
    seeds: bool,
    limit: int | None,
    plans: Sequence[Plan],
    report: Report,
    check_stop: CheckStop = never_stop,
) -> None:
    """Compile the simplified graph for every submesh, the original for the whole mesh; insert the first plans.

    Presearch compares graphs by `criteria`, and `limit` bounds the evaluations spent on it and on seeds. `check_stop`
    is called between units of work; once every variant has a plan, a stop it requests leaves the further seeds out.
    Where the time of `state.clock` is over before, the search has the variants that were compiled by then.

    Raises:
        StopRequested: the search is to stop, and has no plan yet.
        ValueError: there are `plans` to start from, but none is of this program.
    """
    began = time.perf_counter()
    report("compiling")
    check_stop()
    first_s = _compile_variants(state, graph, criteria, seeds, limit, check_stop)
    ours = list(state.variants)
    if plans:
        start_from_plans(state, graph, plans, check_stop)
    state.timings["compile_s"] += time.perf_counter() - began
    began = time.perf_counter()
    report("seeding")
    check_stop()
    for variant in ours:
        state.evaluations += _seed_abstract(variant)
    if seeds:
        _insert_seeds(state, ours, limit, check_stop, first_s)
    state.tighten()
    for variant in state.variants:
        set_parent_weights(variant.archive)
    if seeds and _is_alone(state):
        state.shorten_patience(ROUNDS_WITHOUT_PROGRESS)
    state.timings["seeds_s"] += time.perf_counter() - began


def _compile_variants(
    state: SearchState,
    graph: Graph,
    criteria: Criteria,
    seeds: bool,
    limit: int | None,
    check_stop: CheckStop,
) -> float:
    """Compile the program for every submesh, and the best of its rewritten graphs where seeds are wanted.

    Return the seconds that the first variant took.

    Simplifying the program and what follows the first variant make the search better, and are left out where there is
    no time for them.
    """
    state.structural.start(graph)
    simple, moves = graph, tuple[Move, ...]()
    with suppress(OutOfTime):
        simple, moves = state.structural.simplified(graph, state.clock.check_preparation(check_stop))
    if not keeps_pins(simple, state.options.pins):
        simple, moves = graph, ()
    state.structural.known.update({graph.structural_hash, simple.structural_hash})
    with suppress(OutOfTime):
        if state.parts.views:
            check = state.clock.check_preparation(check_stop)
            views, evaluated = ranked_views(state.submeshes[0], simple, state.options, check)
            state.evaluations += evaluated
            state.use_views(views)
    starts = [(submesh, simple, moves) for submesh in state.begun]
    if moves:
        starts.append((state.submeshes[0], graph, ()))
    before_s = state.clock.spent_s
    state.variants.append(new_variant(0, *starts[0], state.options, check_stop))
    first_s, check = state.clock.spent_s - before_s, state.clock.check_preparation(check_stop)
    with suppress(OutOfTime):
        for number, start in enumerate(starts[1:], start=1):
            state.variants.append(new_variant(number, *start, state.options, check))
        is_rewritten = seeds and state.parts.presearch
        rewritten = _rewritten(state, criteria, simple, moves, limit, check_stop) if is_rewritten else ()
        for submesh, found in rewritten:
            checked = check_stop if _is_alone(state) else check
            state.variants.append(_joining(state, submesh, found, checked))
    return first_s


def _insert_seeds(
    state: SearchState,
    variants: Sequence[Variant],
    limit: int | None,
    check_stop: CheckStop,
    first_s: float,
) -> None:
    """Insert the plans of propagation, and exact ones, into variants until a stop is requested.

    In this order, whatever the limit: a search that is given as many evaluations as another spent repeats it. Without
    seeds of the first variant the search has nothing to vary, so a deadline leaves the first batch of them, unless it
    passes within the time `first_s` that compiling this variant took: its seeds take about as long.
    """
    deadline = state.clock.deadline
    if deadline is not None and deadline.left_s < first_s:
        return
    check_time = check_stop if deadline is None else state.clock.check(check_stop)
    propagated, exact = state.parts.propagation, state.parts.exact
    kinds = (*(insert_seeds,) * propagated, *(insert_exact,) * exact)
    with suppress(StopRequested):
        for variant in variants:
            (check_stop if variant is variants[0] else check_time)()
            for insert in kinds if variant.has_choice else ():
                left = None if limit is None else max(0, limit - state.evaluations)
                for count in insert(variant, left):
                    state.evaluations += count
                    check_time()


def _is_alone(state: SearchState) -> bool:
    """Return whether the mesh is one device: there is nothing to place, and presearch is most of the search."""
    return state.submeshes[0].mesh.device_count == 1


def _seed_abstract(variant: Variant) -> int:
    """Insert the plan in which every device does everything; return the number of plans evaluated, one."""
    insert_plans(variant, variant.space.abstract_genes().strategies[None, :])
    return 1


def _rewritten(
    state: SearchState,
    criteria: Criteria,
    graph: Graph,
    moves: tuple[Move, ...],
    limit: int | None,
    check_stop: CheckStop,
) -> list[tuple[SubMesh, EvaluatedGraph]]:
    """Return the best of many rewritten graphs, evaluated on one device of the mesh; the search starts from them too.

    On one device, be it a submesh, there is nothing to place, and that is most of the search. Where there are
    more, the evaluation ignores sharding and communication, so only a few spread over the front join the
    original program, on the whole mesh only: on every submesh they would take the evaluations of others.
    """
    whole, structural = state.submeshes[0], state.structural
    is_alone = _is_alone(state)
    evaluated = [n for n in (limit, None if is_alone else MOST_EVALUATED) if n is not None]
    effort = ALONE_EFFORT if is_alone else SHARED_EFFORT
    ordered = {m.schedule_order: m for m in state.begun if m.devices == whole.devices}
    presearch = structural.presearch(
        graph, moves, criteria, state.options, min(evaluated, default=None), effort, tuple(ordered)
    )
    if is_alone:
        found = presearch.run(time.perf_counter() + state.clock.left_s, check_stop)
    else:
        found = presearch.run(math.inf, state.clock.check_preparation(check_stop))
    front = [s for s in found if s.graph.structural_hash not in structural.known]
    state.evaluations += presearch.evaluated
    joining = _spread(front, MOST_REWRITTEN if is_alone else MOST_JOINING)
    for evaluated_graph in joining:
        structural.known.add(evaluated_graph.graph.structural_hash)
        structural.improved[evaluated_graph.moves[-1].rule] += 1
    alone = [m for m in state.submeshes[1:] if m.mesh.device_count == 1 and not is_alone]
    parts = [(m, s) for m in alone for s in _spread(front, MOST_REWRITTEN)]
    return [(ordered[s.schedule_order], s) for s in joining] + parts


def _spread(front: Sequence[EvaluatedGraph], most: int) -> list[EvaluatedGraph]:
    """Select the best graph of a front by every criterion, then others evenly along it, up to `most`."""
    if not front:
        return []
    places, last = range(len(front)), len(front) - 1
    chosen = {min(places, key=lambda i: front[i].values[k]) for k in range(len(front[0].values))}
    if len(chosen) < most:
        others = most - len(chosen - {0, last})
        chosen.update(np.linspace(0, last, min(len(front), others)).astype(int).tolist())
    return [front[k] for k in sorted(chosen)]


def _joining(
    state: SearchState, submesh: SubMesh, evaluated_graph: EvaluatedGraph, check_stop: CheckStop
) -> Variant:
    """Build a variant of the search from a rewritten graph on a mesh."""
    number = 1 + max(v.number for v in state.variants)
    return new_variant(
        number, submesh, evaluated_graph.graph, evaluated_graph.moves, state.options, check_stop
    )


def restore(
    saved: Checkpoint,
    state: SearchState,
    graph: Graph,
    report: Report,
    check_stop: CheckStop = never_stop,
) -> None:
    """Restore the state that was saved; rewrite and compile the variants again.

    `check_stop` is called between units of work; what it raises ends the restoration.

    Raises:
        StaleCheckpoint: it is of another search, or of another release.
    """
    other = [name for name, value in state.fingerprint.items() if saved.fingerprint.get(name) != value]
    if other:
        raise StaleCheckpoint(
            f"the checkpoint is of another {' and another '.join(other)}: start anew, from its plans"
        )
    began = time.perf_counter()
    report("compiling")
    state.timings.update(saved.timings)
    state.clock.spent_before_s = sum(saved.timings.values())
    first, *_ = state.submeshes
    cuts = (saved.views[0], *saved.views[len(state.submeshes) :])
    state.use_views([view_with(first.view.mesh_shape, each) for each in cuts])
    state.views_left = saved.views_left
    for submesh, epsilon in zip(state.submeshes, saved.epsilons, strict=True):
        submesh.goal.epsilon[:] = epsilon
        submesh.goal.best[:] = saved.best
    state.variants = [_restored(state, graph, variant, check_stop) for variant in saved.variants]
    structural = state.structural
    structural.start(graph)
    structural.refused = dict(saved.refused)
    for name, (applied, improved) in saved.structural.items():
        structural.applied[name], structural.improved[name] = applied, improved
    structural.known = set(saved.known)
    structural.taken = {variant.number: list(variant.taken) for variant in saved.variants}
    state.rng.bit_generator.state = dict(saved.rng)
    state.statistics.applied[:] = saved.applied
    state.statistics.improved[:] = saved.improved
    state.varied = saved.varied
    state.evaluations, state.rounds = saved.evaluations, saved.rounds
    state.history = list(saved.history)
    state.reference, state.anchors = saved.reference, saved.anchors
    state.best_volume, state.stale_rounds = saved.best_volume, saved.stale_rounds
    state.started_from, state.stopped = saved.started_from, saved.stopped
    state.timings["compile_s"] += time.perf_counter() - began


def _restored(state: SearchState, graph: Graph, saved: SavedVariant, check_stop: CheckStop) -> Variant:
    check_stop()
    try:
        program = replay(graph, saved.moves)
    except (StaleMove, RuleError) as error:
        raise StaleCheckpoint(
            f"the checkpoint's variant {saved.number} cannot be rewritten: {error}"
        ) from error
    submesh = state.submeshes[saved.submesh]
    variant = new_variant(saved.number, submesh, program, saved.moves, state.options, check_stop)
    if variant.structure != saved.structure or not _fits(variant, saved.archive):
        raise StaleCheckpoint(f"the checkpoint's variant {saved.number} is another program here")
    variant.archive.size[:] = saved.archive.size
    for names, count in zip((FRONT_FIELDS, POOL_FIELDS), saved.archive.size, strict=True):
        for name in names:
            getattr(variant.archive, name)[:count] = getattr(saved.archive, name)
    return variant


def _fits(variant: Variant, saved: Archive) -> bool:
    """Return whether saved rows have the form of the variant's, and genes that compiled code may use as indices."""
    for names, count in zip((FRONT_FIELDS, POOL_FIELDS), saved.size, strict=True):
        for name in names:
            own, rows = getattr(variant.archive, name), getattr(saved, name)
            if not 0 <= count <= len(own) or rows.shape != (count, *own.shape[1:]) or rows.dtype != own.dtype:
                return False
    most = variant.space.space.strategy_count
    genes = np.concatenate([saved.genes, saved.pool_genes])
    edges = np.concatenate([saved.prefetch, saved.regather, saved.pool_prefetch, saved.pool_regather])
    return bool((genes >= 0).all() and (genes < most).all() and (edges >= 0).all())


def fingerprint_of(
    state: SearchState,
    graph: Graph,
    mesh: Mesh,
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    toolbox: Mapping[str, str],
) -> dict[str, str]:
    """Collect everything that a checkpoint of this search depends on, by readable names."""
    request = {
        "objectives": [(o.name, o.expression) for o in objectives],
        "constraints": [(c.objective, c.bound, c.unit) for c in constraints],
        "options": {n: v for n, v in asdict(state.options).items() if n not in NOT_IN_THE_SEARCH},
        "rules": [rule.name for rule in state.structural.rules],
        "plug_ins": [(str(p), p.members) for loaded in (operators(), rules()) for p in loaded.plug_ins],
        "parts": list(dict.fromkeys(submesh.devices for submesh in state.submeshes)),
        "islands": state.islands,
        "toolbox": dict(toolbox),
        "seed": state.seed,
        "search_parts": asdict(state.parts),
    }
    return {
        "release": _release(),
        "program": structure_of(graph)[:32],
        "mesh": _digest(asdict(mesh)),
        "request": _digest(request),
    }


@cache
def _release() -> str:
    """Compute a digest of all code whose change would change a search."""
    sources = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((Path(__file__).resolve().parents[2] / package).rglob("*.py")):
            sources.update(path.name.encode() + path.read_bytes())
    return _digest([sources.hexdigest(), *(version(name) for name in LIBRARIES)])


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]
