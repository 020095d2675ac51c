"""Initialization of a search: its first variant, with the first plans, or resumption from a checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version

import numpy as np

from tapestry.costmodel.objective import Objective
from tapestry.costmodel.view import view_with
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.fronts import set_parent_weights
from tapestry.optimizer.archive.rows import FRONT_FIELDS, POOL_FIELDS
from tapestry.optimizer.run.checkpoint import (
    Checkpoint,
    SavedVariant,
    StaleCheckpoint,
)
from tapestry.optimizer.run.clock import OutOfTime
from tapestry.optimizer.run.first_plans import insert_abstract, insert_seeds
from tapestry.optimizer.run.options import LIMITS
from tapestry.optimizer.run.plan import Plan
from tapestry.optimizer.run.relatives import RelatedPlan, plant
from tapestry.optimizer.run.release import sources_digest
from tapestry.optimizer.run.starts import begin, first_starts
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.stopping import StopRequested
from tapestry.optimizer.run.variants import (
    SubMesh,
    Variant,
    keeps_pins,
    new_variant,
    structure_of,
)
from tapestry.optimizer.run.warm_start import start_from_plans
from tapestry.rewrites import Move, RuleError, StaleMove, replay
from tapestry.rewrites.rules import plug_ins as rules
from tapestry.teg.graph import Graph
from tapestry.teg.operators import plug_ins as operators
from tapestry.teg.sharding.rounds import can_run_in
from tapestry.teg.stopping import CheckStop, never_stop

Report = Callable[[str], None]

# Rounds in which nothing new comes that a search on one device has left, once all that promised something is tried.
ROUNDS_WITHOUT_PROGRESS = 6
# Options that do not change the rounds of a search, or are in the fingerprint with the value they came to.
NOT_IN_THE_SEARCH = {*LIMITS, "gap", "worth", "search_price", "islands", "constraints", "rules", "start_from"}
NOT_IN_THE_SEARCH |= {"verify", "execution_seconds", "prior"}
LIBRARIES = ("numpy", "numba", "moocore", "deap")


def initialize(
    state: SearchState,
    limit: int | None,
    plans: Sequence[Plan],
    report: Report,
    check_stop: CheckStop = never_stop,
    relatives: Sequence[RelatedPlan] = (),
) -> None:
    """Compile the simplified program for the whole mesh, insert its first plans, and note what is to begin next.

    `limit` bounds the evaluations spent on that. `check_stop` is called between units of work; once there is a plan, a
    stop that it requests leaves the further seeds out. On a mesh of one device, where there is nothing to place, all
    that a search begins with is begun here.

    Raises:
        StopRequested: the search is to stop, and has no plan yet.
        ValueError: there are `plans` to start from, but none is of this program.
    """
    began = time.perf_counter()
    report("compiling")
    check_stop()
    first = _first_variant(state, check_stop)
    is_alone = state.submeshes[0].mesh.device_count == 1
    state.evaluations += sum(insert_abstract(first, is_given=True))
    state.starts = first_starts(state)
    if plans:
        start_from_plans(state, plans, check_stop)
    state.started_from += plant(state, relatives)
    state.timings["compile_s"] += time.perf_counter() - began
    began = time.perf_counter()
    report("seeding")
    check_stop()
    if state.parts.propagation and first.has_choice:
        _insert_seeds(state, first, limit, check_stop)
    if is_alone:
        _begin_all(state, limit, check_stop)
    state.tighten()
    state.fix_corner(state.all_values()[0])
    for variant in state.variants:
        set_parent_weights(variant.archive)
    if state.parts.presearch and is_alone:
        state.shorten_patience(ROUNDS_WITHOUT_PROGRESS)
    state.timings["seeds_s"] += time.perf_counter() - began


def _first_variant(state: SearchState, check_stop: CheckStop) -> Variant:
    """Compile the program for the whole mesh, simplified unless there is no time for it, or pins or rounds are lost."""
    graph, structural = state.graph, state.structural
    structural.start(graph)
    simple, moves = graph, tuple[Move, ...]()
    with suppress(OutOfTime):
        simple, moves = structural.simplified(graph, state.clock.check_preparation(check_stop))
    rounds = state.submeshes[0].rounds
    is_possible = rounds is None or can_run_in(simple, rounds)
    if not (is_possible and keeps_pins(simple, state.options.pins)):
        simple, moves = graph, ()
    structural.known.update({graph.structural_hash, simple.structural_hash})
    number = state.new_number()
    state.variants.append(new_variant(number, state.submeshes[0], simple, moves, state.options, check_stop))
    return state.variants[0]


def _begin_all(state: SearchState, limit: int | None, check_stop: CheckStop) -> None:
    """Begin all that there is to begin, as long as there is time."""
    check = state.clock.check(check_stop)
    with suppress(OutOfTime):
        while state.starts:
            for child in begin(state, state.starts[0], limit, check):
                state.variants.append(child.variant)
                if child.rule:
                    state.structural.improve(child.rule, child.variant.moves)


def _insert_seeds(state: SearchState, first: Variant, limit: int | None, check_stop: CheckStop) -> None:
    """Insert the plans of propagation into the first variant, until a stop is requested or the deadline is near.

    A deadline that is further away than what the search has taken leaves the first batch of them: the search has
    little to vary without.
    """
    clock = state.clock
    if clock.deadline is not None and clock.deadline.left_s < clock.spent_s:
        return
    check_time = check_stop if clock.deadline is None else clock.check(check_stop)
    with suppress(StopRequested):
        left = None if limit is None else max(0, limit - state.evaluations)
        for count in insert_seeds(first, left):
            state.evaluations += count
            check_time()


def restore(
    saved: Checkpoint,
    state: SearchState,
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
    state.clock.spent_before_s = saved.spent_s
    state.submeshes = _on_views(state.submeshes, saved.views)
    state.starts, state.proven = list(saved.starts), dict(saved.proven)
    for submesh, epsilon in zip(state.submeshes, saved.epsilons, strict=True):
        submesh.goal.epsilon[:] = epsilon
        submesh.goal.best[:] = saved.best
    state.variants = [_restored(state, variant, check_stop) for variant in saved.variants]
    state.numbered = saved.numbered
    structural = state.structural
    structural.start(state.graph)
    structural.refused = dict(saved.refused)
    for name, (applied, improved) in saved.structural.items():
        structural.applied[name], structural.improved[name] = applied, improved
    structural.credits.restore(saved.credits)
    structural.known = set(saved.known)
    structural.taken = {variant.number: list(variant.taken) for variant in saved.variants}
    state.rng.bit_generator.state = dict(saved.rng)
    state.statistics.add(saved.statistics)
    state.recent.add(saved.recent)
    state.varied = saved.varied
    state.evaluations, state.rounds = saved.evaluations, saved.rounds
    state.history, state.base = list(saved.history), saved.base
    state.reference, state.anchors = saved.reference, saved.anchors
    state.best_volume, state.stale_rounds = saved.best_volume, saved.stale_rounds
    state.started_from, state.stopped = saved.started_from, saved.stopped
    state.timings["compile_s"] += time.perf_counter() - began


def _on_views(submeshes: Sequence[SubMesh], cuts: Sequence[Sequence[int]]) -> tuple[SubMesh, ...]:
    """Return the submeshes on views with these cuts; what there are more of are further views of the first one."""
    first = submeshes[0]
    views = [view_with(submesh.view.mesh_shape, each) for submesh, each in zip(submeshes, cuts, strict=False)]
    begun = [replace(submesh, view=view) for submesh, view in zip(submeshes, views, strict=True)]
    further = cuts[len(submeshes) :]
    return (*begun, *(first.on_view(view_with(first.view.mesh_shape, each)) for each in further))


def _restored(state: SearchState, saved: SavedVariant, check_stop: CheckStop) -> Variant:
    check_stop()
    try:
        program = replay(state.graph, saved.moves)
    except (StaleMove, RuleError) as error:
        raise StaleCheckpoint(
            f"the checkpoint's variant {saved.number} cannot be rewritten: {error}"
        ) from error
    submesh = state.submeshes[saved.submesh]
    variant = new_variant(saved.number, submesh, program, saved.moves, state.options, check_stop)
    if variant.structure != saved.structure or not _fits(variant, saved.archive):
        raise StaleCheckpoint(f"the checkpoint's variant {saved.number} is another program here")
    variant.probation, variant.spent, variant.gained = saved.probation, saved.spent, saved.gained
    variant.origins.update(saved.origins)
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
    snapshot: int,
) -> dict[str, str]:
    """Collect everything that a checkpoint of this search depends on, by readable names.

    `snapshot` is the number of what earlier searches have learned: the option may only say "the newest".
    """
    request = {
        "objectives": [(o.name, o.expression) for o in objectives],
        "constraints": [(c.objective, c.bound, c.unit) for c in constraints],
        "options": {n: v for n, v in asdict(state.options).items() if n not in NOT_IN_THE_SEARCH},
        "rules": [rule.name for rule in state.structural.rules],
        "plug_ins": [(str(p), p.members) for loaded in (operators(), rules()) for p in loaded.plug_ins],
        "parts": list(dict.fromkeys(submesh.devices for submesh in state.submeshes)),
        "islands": state.islands,
        "toolbox": dict(toolbox),
        "prior": snapshot,
        "seed": state.seed,
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
    return _digest([sources_digest(), *(version(name) for name in LIBRARIES)])


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]
