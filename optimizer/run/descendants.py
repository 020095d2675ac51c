"""Descendants of a variant: another form of its program, or other rounds, with plans of its parent's and of its own.

Imported by what begins them: `micro_batches`, `pipelines` and `recomputed`.
"""

from __future__ import annotations

from tapestry.costmodel.strategies import PinError
from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import (
    Variant,
    inherit,
    insert_abstract,
    insert_exact,
    insert_seeds,
    new_variant,
)
from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import RoundsError
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop


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
        return variant
    left = None if limit is None else max(0, limit - state.evaluations)
    state.evaluations += inherit(variant, parent, left)
    check_stop()
    # What a parent in other rounds, or on other devices, splits, this variant may be unable to.
    is_other = (variant.space.rounds, variant.space.mesh_shape) != (
        parent.space.rounds,
        parent.space.mesh_shape,
    )
    own = {insert_seeds: state.parts.propagation and is_other, insert_exact: state.parts.exact}
    for insert in (insert for insert, is_part in own.items() if is_part):
        for count in insert(variant, None if limit is None else max(0, limit - state.evaluations)):
            state.evaluations += count
            check_stop()
    return variant
