"""The time of a plan of a space with its error: the blocks and copies that decide it, by what has one error in common.

The simulator finds the same by code of its own (`hardware.simulator.critical_path`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tapestry.costmodel.block_cost import time_class_of
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import EvaluationState, new_state
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.resharding_tables import copy_rounds
from tapestry.costmodel.span_loops import critical_ticks, timeline_of
from tapestry.costmodel.table_rows import CopiedForm, CopyPhases
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import (
    TimeClass,
    TimeEstimate,
    move_class,
    round_weights,
    shared_ticks,
)
from tapestry.hardware.timing.quantiles import quantile_factor
from tapestry.teg.dtypes import item_bytes


def estimate_time(space: PlanSpace, genes: Genes) -> TimeEstimate:
    """Return the median time of a plan with its error, also where the space ranks plans by a quantile of the time."""
    state, cost = new_state(space.space), np.zeros(space.cost_count, dtype=np.int64)
    strategies = space.with_state(genes.strategies)
    evaluate(space.space, state, *space.compiled_genes(genes), cost)
    slot_ticks, copy_ticks = _medians(space, strategies, state)
    timeline = timeline_of(space.space, state, slot_ticks, copy_ticks)
    block_ticks, copies = critical_ticks(timeline, len(slot_ticks), len(copy_ticks))
    found: Counter[TimeClass] = Counter()
    for slot in np.flatnonzero(block_ticks).tolist():
        found[time_class_of_slot(space, slot)] += int(block_ticks[slot])
    for edge in np.flatnonzero(copies).tolist():
        for time_class, ticks in copy_classes(space, strategies, edge, int(copy_ticks[edge])):
            found[time_class] += int(copies[edge]) * ticks
    return TimeEstimate.of({each: ticks for each, ticks in found.items() if ticks})


def _medians(
    space: PlanSpace, strategies: np.ndarray, state: EvaluationState
) -> tuple[np.ndarray, np.ndarray]:
    """Return the medians of the times of blocks `(slots,)` and of copies `(edges,)`, in ticks."""
    slot_ticks, copy_ticks = state.slot_ticks, state.copy_ticks
    if space.mesh.device.quantile is None:
        return slot_ticks, copy_ticks
    blocks = [_block_ticks(space, slot, ticks) for slot, ticks in enumerate(slot_ticks.tolist())]
    made = copy_ticks.copy()
    for edge in copied_edges(space, state):
        made[edge] = _copy_ticks(space, strategies, edge, int(copy_ticks[edge]))
    return np.array(blocks, dtype=np.int64), made


def copied_edges(space: PlanSpace, state: EvaluationState) -> Iterator[int]:
    """Yield the edges that have a copy of their own."""
    lists = [(state.first_due, state.next_due)]
    if space.space.stage_count > 1:
        lists += [(state.first_sent, state.next_sent), (state.first_begun, state.next_sent)]
    for heads, following in lists:
        for first in heads.tolist():
            edge = first
            while edge >= 0:
                yield edge
                edge = int(following[edge])


def _block_ticks(space: PlanSpace, slot: int, ticks: int) -> int:
    """Return the median of the time of a block, given that in the space."""
    return _median(space, time_class_of_slot(space, slot), ticks)


def _copy_ticks(space: PlanSpace, strategies: np.ndarray, edge: int, ticks: int) -> int:
    """Return the median of the time of a copy, given that in the space: rounds beside moves, then other moves."""
    phases = _phases(space, strategies, edge)
    moves = move_class(_mesh_of_copy(space, edge).device)
    return phases.longer_ticks + _median(space, moves, ticks - phases.late_ticks)


def _median(space: PlanSpace, time_class: TimeClass, ticks: int) -> int:
    return round(ticks / quantile_factor(space.mesh.device.quantile, time_class.error))


def copy_classes(
    space: PlanSpace, strategies: np.ndarray, edge: int, ticks: int
) -> Iterator[tuple[TimeClass, int]]:
    """Yield what the time of a copy, `ticks`, has its error in common with, and the ticks of that.

    These are its exchanges, and last what devices move within their own memories.
    """
    phases = _phases(space, strategies, edge)
    shares = shared_ticks(phases.weights, phases.round_ticks)
    yield from shares
    yield move_class(_mesh_of_copy(space, edge).device), ticks - sum(share for _, share in shares)


def _mesh_of_copy(space: PlanSpace, edge: int) -> Mesh:
    """Return the mesh whose figures hold for a copy."""
    return space.meshes.between(*_stages_of_copy(space, edge))


def _stages_of_copy(space: PlanSpace, edge: int) -> tuple[int, int]:
    """Return the stage that has what a copy brings, and the one that reads it."""
    arrays = space.space
    producer = arrays.made_gene[arrays.edge_tensor[edge]]
    source, target = arrays.gene_stage[[producer, arrays.edge_slot[edge]]].tolist()
    return source, target


def time_class_of_slot(space: PlanSpace, slot: int) -> TimeClass:
    """Return the class of the time of the block in a slot."""
    known, key = space.cache.time_classes, space.class_of[slot]
    if key not in known:
        block, graph = space.slots[slot], space.graph
        types = (graph.input_types(block), graph.output_types(block))
        device, time = space.mesh_of(slot).device, space.time
        accumulates = time is not None and bool(time.monoid_of(block))
        known[key] = time_class_of(
            block.definition, *types, device, space.compute_dtype, accumulates=accumulates
        )
    return known[key]


def copied_form(space: PlanSpace, strategies: np.ndarray, edge: int) -> CopiedForm:
    """Return what the copy of an edge brings from which form into which, and on which way."""
    arrays = space.space
    slot, tensor = int(arrays.edge_slot[edge]), int(arrays.edge_tensor[edge])
    producer = int(arrays.made_gene[tensor])
    made = arrays.made_tensor[arrays.made_start[producer] : arrays.made_start[producer + 1]].tolist()
    output, read = made.index(tensor), edge - int(arrays.edge_start[slot])
    kind = space.made_types(space.blocks[producer])[output]
    makes, needs = space.families[producer], space.families[slot]
    specs = (
        makes.made[output][int(strategies[producer]) // len(makes.dimension_orders)],
        needs.needed[read][int(strategies[slot]) // len(needs.dimension_orders)],
    )
    route = None
    if space.pipeline is not None and arrays.edge_number[edge] >= 0:
        route = space.pipeline.layout.route(*_stages_of_copy(space, edge))
    return CopiedForm(kind.shape, item_bytes(kind.dtype), *specs, route)


def _phases(space: PlanSpace, strategies: np.ndarray, edge: int) -> CopyPhases:
    """Return what the time of a copy consists of, apart from moves before and after its rounds."""
    form, stages = copied_form(space, strategies, edge), _stages_of_copy(space, edge)
    known, key = space.cache.phases, (form, *(space.meshes.kind_of[stage] for stage in stages))
    if key not in known:
        what, route = form[:4], form.route
        mesh = _mesh_of_copy(space, edge)
        median = mesh if mesh.device.quantile is None else mesh.at_quantile(0.5)
        rounds, ticks, kept_ticks = copy_rounds(*what, median, space.mesh_shape, route)
        weights = round_weights(median, rounds)
        longer = late = max(ticks, kept_ticks)
        if median is not mesh:
            late = max(copy_rounds(*what, mesh, space.mesh_shape, route)[1:])
        known[key] = CopyPhases(weights, ticks if ticks >= kept_ticks else 0, longer, late)
    return known[key]
