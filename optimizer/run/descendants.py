"""Descendants of a variant: another form of its program, or other rounds, with plans of its parent's and of its own.

Imported by what begins them: `micro_batches`, `pipelines`, `recomputed` and `starts`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapestry.costmodel.plan_space import Genes
from tapestry.costmodel.strategies import PinError
from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.placement.host_copies import in_time, with_state_on_host
from tapestry.optimizer.placement.island import insert_all
from tapestry.optimizer.run.first_plans import insert_abstract, insert_exact, insert_seeds
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import (
    Begun,
    Child,
    Variant,
    inherit,
    new_variant,
)
from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import RoundsError
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop

# Plans of a variant that use the host, and how much slower than its blocks their clocks are (`host_copies.in_time`).
MOST_ON_HOST, SLOWNESS = 6, (1.0, 4.0)


def descendant(
    state: SearchState,
    parent: Variant,
    submesh: int,
    graph: Graph,
    moves: tuple[Move, ...],
    limit: int | None,
    check_stop: CheckStop,
) -> Variant | None:
    """Build a variant on a submesh, with plans of its parent's and of its own; None if it cannot be counted or run so.

    The search evaluates at most `limit` plans in all.
    """
    try:
        variant = new_variant(
            state.new_number(), state.submeshes[submesh], graph, moves, state.options, check_stop
        )
    except (OutOfRange, PinError, RoundsError, ScheduleError):
        return None
    state.evaluations += sum(insert_abstract(variant))
    if not variant.has_choice:
        state.evaluations += insert_on_host(variant, _left(state, limit))
        return variant
    left = _left(state, limit)
    state.evaluations += inherit(variant, parent, left)
    state.evaluations += insert_on_host(variant, _left(state, limit))
    check_stop()
    # What a parent in other rounds, or on other devices, splits, this variant may be unable to.
    is_other = (variant.space.rounds, variant.space.mesh_shape) != (
        parent.space.rounds,
        parent.space.mesh_shape,
    )
    own = {insert_seeds: state.parts.propagation and is_other, insert_exact: state.parts.exact}
    for insert in (insert for insert, is_part in own.items() if is_part):
        for count in insert(variant, _left(state, limit)):
            state.evaluations += count
            check_stop()
    return variant


def begin_rewritten(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Compile a program that some variant's becomes by further moves, and insert its first plans."""
    graph, own = state.graph_of(start.moves), state.submeshes[start.submesh]
    parent = max(
        (v for v in state.variants if _is_before(v, start.moves) and v.submesh.stages == own.stages),
        key=lambda v: (len(v.moves), v.submesh is own, v.submesh.devices == state.submeshes[0].devices),
        default=None,
    )
    if parent is None:  # it was given up since
        return []
    made = descendant(state, parent, start.submesh, graph, start.moves, limit, check_stop)
    return [] if made is None else [Child(made, state.structural.rule_behind(start.moves))]


def _is_before(variant: Variant, moves: tuple[Move, ...]) -> bool:
    """Return whether moves go on from a variant's."""
    return variant.moves == moves[: len(variant.moves)]


def _left(state: SearchState, limit: int | None) -> int | None:
    """Return how many plans may still be evaluated."""
    return None if limit is None else max(0, limit - state.evaluations)


def insert_on_host(variant: Variant, limit: int | None) -> int:
    """Insert plans whose copies to and from the host are in time, with state on the devices and with state there.

    Returns: plans evaluated, at most `limit`; none where nothing may lie on the host.
    """
    space, archive = variant.space, variant.archive
    if not space.space.has_host:
        return 0
    order = np.argsort(-archive.weight[: int(archive.size[0])], kind="stable")[:MOST_ON_HOST]
    plans: list[Genes] = []
    for i in order:
        genes = Genes(*(v[i].astype(np.int64) for v in (archive.genes, archive.prefetch, archive.regather)))
        moved = replace(genes, strategies=with_state_on_host(space, genes.strategies))
        plans += [in_time(space, plan, slowness) for plan in (genes, moved) for slowness in SLOWNESS]
    plans = plans[:limit]
    if plans:
        rows = (
            np.array([plan.strategies for plan in plans], archive.genes.dtype),
            np.array([plan.prefetch for plan in plans], archive.prefetch.dtype),
            np.array([plan.regather for plan in plans], archive.regather.dtype),
        )
        insert_all(space.space, space.state, archive, variant.submesh.goal, *rows)
    return len(plans)
