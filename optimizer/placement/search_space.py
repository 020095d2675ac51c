"""The search's view of a PlanSpace for mutation, as arrays: strategies by digit, groups, ties, best fits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel_arrays import ORDER, PAIR_TICKS, PLACED, RELAYOUT_TICKS, SPEC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.strategies import StrategyFamily
from tapestry.optimizer.placement.layout_policies import dimension_order_policies
from tapestry.optimizer.placement.ties import Ties, dimension_groups, edge_ties, gene_ties, ties_from_labels
from tapestry.teg.operators.block_class import class_of_block
from tapestry.teg.operators.kernel_classes import OPERATOR_CLASSES

# Classes of the places of moves: operators, sources, and the whole program.
PLACE_CLASSES = (*OPERATOR_CLASSES, "source", "program")


class SearchSpace(NamedTuple):
    """The arrays of the search that complement `costmodel.kernel_arrays.Space`.

    A gene value's digits give, per logical axis, the index dimension it splits (-1: none); `lookup` finds the
    strategy of given digits, apart from the choice of orders. `fit[key]` is the producer's gene value that provides
    the consumer spec most tightly without a copy, for the shared-copy keys of `Space` (-1: none).
    """

    axes: int
    digits: np.ndarray  # (block rows, axes)
    aligned: np.ndarray  # (block rows,)
    dim_count: np.ndarray  # (genes,)
    choices: np.ndarray  # (genes,): choices of orders; gene values run through them fastest
    policies: np.ndarray  # (policies, genes): choices of orders that fit each other; row 0 is zero
    lookup_offset: np.ndarray  # (genes,)
    lookup: np.ndarray
    class_of: np.ndarray  # (genes,)
    group_dim: np.ndarray  # (block classes, groups)
    fit: np.ndarray  # (keys,)
    reader_start: np.ndarray  # (tensors + 1,): edges that read a tensor
    reader_edge: np.ndarray
    edge_slot: np.ndarray
    gene_start: np.ndarray  # tied genes
    gene_members: np.ndarray
    slot_classes: np.ndarray  # tied classes of slots with a choice
    source_classes: np.ndarray
    edge_start: np.ndarray  # tied edges
    edge_members: np.ndarray
    place_class: np.ndarray  # (genes,): which of `PLACE_CLASSES`


def search_space(space: PlanSpace, *, tied: bool = True) -> SearchSpace:
    """Compile the search's view of `space`; `tied=False` puts every gene into a class of its own."""
    arrays = space.space
    genes = gene_ties(space) if tied else ties_from_labels(np.arange(space.gene_count))
    edges = edge_ties(space, genes) if tied else ties_from_labels(np.arange(space.edge_count))
    digits = np.full((len(arrays.block_rows), len(space.view.axes)), -1, dtype=np.int64)
    aligned = np.zeros(len(arrays.block_rows), dtype=np.bool_)
    lookups: list[np.ndarray] = []
    lookup_offset = np.zeros(space.gene_count, dtype=np.int64)
    dim_count = np.zeros(space.gene_count, dtype=np.int64)
    known: dict[int, int] = {}
    length = 0
    for g, family in enumerate(space.families):
        dims = len(family.definition.signature.dims) if family.definition.signature is not None else 0
        dim_count[g] = dims
        if id(family) not in known:
            rows = int(arrays.block_offset[g])
            table = _digits(family, dims, digits[rows:], aligned[rows:])
            known[id(family)] = length
            lookups.append(table)
            length += len(table)
        lookup_offset[g] = known[id(family)]
    group_dim, class_of = dimension_groups(space)
    order = np.argsort(arrays.edge_tensor, kind="stable")
    reader_start = np.searchsorted(arrays.edge_tensor[order], np.arange(len(arrays.made_at) + 1))
    slot_classes, source_classes = _choosable(space, genes)
    return SearchSpace(
        axes=len(space.view.axes),
        digits=digits,
        aligned=aligned,
        dim_count=dim_count,
        choices=np.array([len(f.dimension_orders) for f in space.families], dtype=np.int64),
        policies=dimension_order_policies(space),
        lookup_offset=lookup_offset,
        lookup=np.concatenate(lookups),
        class_of=class_of,
        group_dim=group_dim,
        fit=_fits(space),
        reader_start=reader_start.astype(np.int64),
        reader_edge=order.astype(np.int64),
        edge_slot=np.repeat(np.arange(len(space.slots)), np.diff(arrays.edge_start)).astype(np.int64),
        gene_start=genes.start,
        gene_members=genes.members,
        slot_classes=slot_classes,
        source_classes=source_classes,
        edge_start=edges.start,
        edge_members=edges.members,
        place_class=_place_classes(space),
    )


def _place_classes(space: PlanSpace) -> np.ndarray:
    """Find the class of each gene's block as the place of a move."""
    sources = np.full(space.gene_count, PLACE_CLASSES.index("source"), dtype=np.int64)
    known: dict[int, int] = {}
    for g, block in enumerate(space.slots):
        key = id(space.families[g])
        if key not in known:
            known[key] = OPERATOR_CLASSES.index(class_of_block(space.graph, block))
        sources[g] = known[key]
    return sources


def _digits(family: StrategyFamily, dims: int, digits: np.ndarray, aligned: np.ndarray) -> np.ndarray:
    """Fill the rows of a family; return its lookup from code to strategy."""
    laid, granular = family.laid
    base, axes, choices = dims + 1, laid.shape[1], len(family.dimension_orders)
    digits[: family.count] = np.repeat(laid, choices, axis=0)
    aligned[: family.count] = np.repeat(granular, choices)
    count = base**axes
    table = np.full(2 * count, -1, dtype=np.int64)
    codes = (laid + 1) @ base ** np.arange(axes - 1, -1, -1, dtype=np.int64)
    table[codes + count * granular] = np.arange(len(laid))
    return table


def _choosable(space: PlanSpace, genes: Ties) -> tuple[np.ndarray, np.ndarray]:
    slots: list[int] = []
    sources: list[int] = []
    for c in range(len(genes.start) - 1):
        g = int(genes.members[genes.start[c]])
        if space.space.strategy_count[g] > 1:
            (slots if g < len(space.slots) else sources).append(c)
    return np.array(slots, dtype=np.int64), np.array(sources, dtype=np.int64)


def _fits(space: PlanSpace) -> np.ndarray:
    """Find per shared-copy key the producer's value whose spec and order serve as a view with the smallest buffer."""
    arrays = space.space
    fit = np.full(int((arrays.key_offset + arrays.needed_count).max(initial=0)), -1, dtype=np.int64)
    known: dict[tuple[int, int, int, int], np.ndarray] = {}
    for t in range(len(arrays.made_at)):
        n = int(arrays.needed_count[t])
        values = int(arrays.strategy_count[int(arrays.made_gene[t])])
        key = (int(arrays.pair_offset[t]), int(arrays.relayout_offset[t]), int(arrays.made_offset[t]), values)
        if key not in known:
            known[key] = _fit(space, t, values)
        fit[arrays.key_offset[t] : arrays.key_offset[t] + n] = known[key]
    return fit


def _fit(space: PlanSpace, t: int, values: int) -> np.ndarray:
    """Compute `_fits` for the keys of one tensor, whose producer's gene has `values` values."""
    arrays = space.space
    n, specs = int(arrays.needed_count[t]), int(arrays.needed_specs[t])
    if n == 0:
        return np.full(n, -1, dtype=np.int64)
    made = arrays.spec_ids[arrays.made_offset[t] : arrays.made_offset[t] + values]
    placed, first = np.unique(made[:, PLACED], return_index=True)
    spec, order = made[first, SPEC], made[first, ORDER]
    pairs = arrays.pair_offset[t] + spec[:, None] * specs + np.arange(specs)
    views = np.repeat(arrays.pair_rows[arrays.pair_ids[pairs], PAIR_TICKS] < 0, n // specs, axis=1)
    if arrays.has_dimension_orders:
        rows = arrays.relayout_offset[t] + order[:, None] * n + np.arange(n)
        views &= arrays.relayout_rows[rows, RELAYOUT_TICKS] < 0
    sizes = arrays.size_rows[arrays.made_bytes_offset[t] + placed].max(axis=1)
    least = np.where(views, sizes[:, None], np.iinfo(np.int64).max).argmin(axis=0)
    return np.where(views[least, np.arange(n)], first[least], -1)
