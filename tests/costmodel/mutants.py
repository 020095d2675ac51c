"""Predictors that are wrong on purpose: each omits one effect, as a change to the tables compiled by a PlanSpace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
from pytest import MonkeyPatch

from tapestry.costmodel import resharding_tables, table_rows
from tapestry.costmodel.fetch_loops import fetches
from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import (
    COSTS,
    PAIR_STAGING,
    PAIR_TICKS,
    PAIR_TRAFFIC,
    SPEC,
    CompiledSpace,
    new_state,
)
from tapestry.costmodel.packing_loops import packed
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.reduction_loops import reductions
from tapestry.costmodel.resharding_tables import copy_table
from tapestry.costmodel.table_rows import TableCache
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.spec import Spec, boxes, volumes


def honest(space: PlanSpace) -> CompiledSpace:
    return space.space


def same(genes: Genes) -> Genes:
    return genes


@dataclass(frozen=True)
class Mutant:
    """A wrong predictor, and the costs by which its comparison with the simulator must fail."""

    caught_by: str
    arrays: Callable[[PlanSpace], CompiledSpace] = honest
    genes: Callable[[Genes], Genes] = same

    def predict(self, space: PlanSpace, wrong: CompiledSpace, genes: Genes) -> np.ndarray:
        """Predict the costs by `wrong`, which `arrays` made of `space`."""
        cost = np.zeros(COSTS, np.int64)
        evaluate(wrong, new_state(wrong), *space.compiled_genes(self.genes(genes)), cost)
        return cost


def specs_of(space: PlanSpace, t: int) -> tuple[dict[int, Spec], dict[int, Spec]]:
    """Return the producer and consumer specs of tensor number `t`, by their numbers in its table."""
    a = space.space
    gene = int(a.made_gene[t])
    position = list(a.made_tensor[a.made_start[gene] : a.made_start[gene + 1]]).index(t)
    orders = len(space.families[gene].dimension_orders)
    made = {
        int(a.spec_ids[a.made_offset[t] + s * orders, SPEC]): spec
        for s, spec in enumerate(space.families[gene].made[position])
    }
    needed = {}
    for e in a.reader_edge[a.reader_start[t] : a.reader_start[t + 1]]:
        slot = int(a.edge_slot[e])
        orders = len(space.families[slot].dimension_orders)
        for s, spec in enumerate(space.families[slot].needed[int(e - a.edge_start[slot])]):
            needed[int(a.spec_ids[a.edge_needed[e] + s * orders, SPEC])] = spec
    return made, needed


def with_own_rows(space: CompiledSpace) -> CompiledSpace:
    """Return the space with a row of its own for every pair, so that it can be changed alone."""
    ids = np.arange(len(space.pair_ids), dtype=space.pair_ids.dtype)
    return space._replace(pair_ids=ids, pair_rows=space.pair_rows[space.pair_ids])


def change_pairs(space: PlanSpace, change: Callable[[int, Spec, Spec, np.ndarray], None]) -> CompiledSpace:
    """Return the space with every row of its copy tables changed by `change(tensor, made, needed, row)`."""
    a = with_own_rows(space.space)
    rows = a.pair_rows
    for t in range(len(a.made_at)):
        made, needed = specs_of(space, t)
        for p, spec in made.items():
            for n, other in needed.items():
                change(t, spec, other, rows[a.pair_offset[t] + p * a.needed_specs[t] + n])
    return a


def as_view(row: np.ndarray) -> None:
    row[:] = 0
    row[PAIR_TICKS] = -1


def forgets_staging(space: PlanSpace) -> CompiledSpace:
    rows = space.space.pair_rows.copy()
    rows[:, PAIR_STAGING] = 0
    return space.space._replace(pair_rows=rows)


def forgets_the_second_slice(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a reduce-scatter over two mesh axes keeps one slice instead of two."""
    whole = space.space.staging_rows

    def change(_: int, made: Spec, needed: Spec, row: np.ndarray) -> None:
        scattered = {a for split in needed.dims for a in split.axes} & set(made.partial)
        is_changed = row[PAIR_STAGING] >= len(whole)  # another tensor has the same table
        if row[PAIR_STAGING] and not is_changed and len(space.mesh_shape.by_axis(scattered)) > 1:
            row[PAIR_STAGING] += len(whole)

    return change_pairs(space, change)._replace(staging_rows=np.concatenate([whole, whole // 2]))


def forgets_partials(space: PlanSpace) -> CompiledSpace:
    """Return tables that take partial terms for values: no reduction where the boxes fit."""
    return change_pairs(space, lambda _, made, __, row: as_view(row) if made.partial else None)


def forgets_gathers(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a tensor needed whole is taken to be there already."""

    def change(_: int, made: Spec, needed: Spec, row: np.ndarray) -> None:
        if not made.partial and not any(split.axes for split in needed.dims):
            as_view(row)

    return change_pairs(space, change)


def forgets_exchanges(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a tensor split otherwise is taken to be there already."""

    def change(_: int, made: Spec, needed: Spec, row: np.ndarray) -> None:
        if not made.partial and not needed.is_windowed and any(split.axes for split in needed.dims):
            as_view(row)

    return change_pairs(space, change)


def without_windows(space: PlanSpace, t: int, spec: Spec) -> tuple[tuple[int, ...], int, Spec]:
    site = [s for b in (*space.sources, *space.slots) for s in b.outputs][t]
    tensor = space.graph.tensors[site]
    return tensor.shape, item_bytes(tensor.dtype), Spec(spec.dims)


def forgets_halo_memory(space: PlanSpace) -> CompiledSpace:
    """Return tables in which the buffer of a window is only as large as a plain chunk."""
    a = space.space
    sizes = a.size_rows.copy()
    representative = np.unique(space.device_class, return_index=True)[1]
    for t in range(len(a.made_at)):
        for n, spec in specs_of(space, t)[1].items():
            if spec.is_windowed:
                shape, item, plain = without_windows(space, t, spec)
                chunks = volumes(boxes(plain, shape, space.mesh_shape)) * item
                sizes[a.needed_bytes_offset[t] + n] = chunks[representative]
    return a._replace(size_rows=sizes)


def forgets_halo_traffic(space: PlanSpace) -> CompiledSpace:
    """Return tables in which the part of a window beyond its chunk is taken to be there already."""
    a = with_own_rows(space.space)
    rows = a.pair_rows
    for t in range(len(a.made_at)):
        made, needed = specs_of(space, t)
        windows = {n: without_windows(space, t, spec) for n, spec in needed.items() if spec.is_windowed}
        if not windows:
            continue
        shape, item, _ = next(iter(windows.values()))
        plain = [spec for _, _, spec in windows.values()]
        table = copy_table(shape, item, list(made.values()), plain, space.mesh, space.mesh_shape)
        for i, p in enumerate(made):
            for j, n in enumerate(windows):
                row = rows[a.pair_offset[t] + p * a.needed_specs[t] + n]
                if row[PAIR_TICKS] >= 0:
                    row[PAIR_TRAFFIC] = table.traffic_bytes[i, j]
    return a


def forgets_later_readers(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a tensor and its copies live until their first reader only."""
    a = space.space
    first = [slice(a.reader_start[t], a.reader_start[t + 1]) for t in range(len(a.made_at))]
    kept = [a.reader_edge[s][:1] for s in first]
    starts = np.concatenate([[0], np.cumsum([len(k) for k in kept])]).astype(np.int64)
    return a._replace(reader_start=starts, reader_edge=np.concatenate(kept).astype(np.int64))


def forgets_outputs(space: PlanSpace) -> CompiledSpace:
    return space.space._replace(is_sink=np.zeros_like(space.space.is_sink))


def forgets_parameters(space: PlanSpace) -> CompiledSpace:
    return space.space._replace(is_persistent=np.zeros_like(space.space.is_persistent))


def forgets_replicas(space: PlanSpace) -> CompiledSpace:
    """Return tables that count a tensor replicated on every device once for all of them."""
    a = space.space
    sizes = a.size_rows.copy()
    for t in range(len(a.made_at)):
        for p, spec in specs_of(space, t)[0].items():
            if not spec.partial and not any(split.axes for split in spec.dims):
                row = a.made_bytes_offset[t] + p
                sizes[row] = a.size_rows[row] // space.mesh_shape.device_count
    return a._replace(size_rows=sizes)


def forgets_ragged_devices(space: PlanSpace) -> CompiledSpace:
    """Return tables in which all devices are taken to be like the first."""
    first = int(space.device_class[0])
    sizes = np.repeat(space.space.size_rows[:, [first]], len(space.space.classes), axis=1)
    return space.space._replace(size_rows=sizes)


def forgets_repacking(space: PlanSpace) -> CompiledSpace:
    """Return tables in which what arrives in another order than its reader's is taken to be in place."""
    a = space.space
    staged = a.staging_rows.copy()
    parts = {tuple(row) for row in a.size_rows.tolist()}
    staged[[k for k, row in enumerate(staged.tolist()) if tuple(row) in parts]] = 0
    return a._replace(staging_rows=staged)


def compiled_with(space: PlanSpace, module: ModuleType, **parts: Callable[..., Any]) -> CompiledSpace:
    """Return the tables of the space compiled again, with functions of a module replaced."""
    with MonkeyPatch.context() as patch:
        for name, part in parts.items():
            patch.setattr(module, name, part)
        return PlanSpace(space.graph, space.mesh, cache=TableCache(space.cache.families)).space


def forgets_packing(space: PlanSpace) -> CompiledSpace:
    """Return tables in which pieces of a fetch are sent from where they are, whether they are runs or not."""

    def without_senders(*arguments: Any) -> Any:
        sent, landed = packed(*arguments)
        return np.zeros_like(sent), landed

    return compiled_with(space, resharding_tables, packed=without_senders)


def packs_whole_parts(space: PlanSpace) -> CompiledSpace:
    """Return tables in which devices pack all that they hold, to send a halo of it."""

    def all_of_it(sent: np.ndarray, *arguments: Any) -> np.ndarray:
        return np.where(sent, arguments[-2].max(axis=1, keepdims=True), 0)

    return compiled_with(space, resharding_tables, most_sent=all_of_it)


def forgets_packing_of_terms(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a reduction reads its terms where they are, whether they are runs or not."""

    def without_packing(*arguments: Any) -> Any:
        traffic, staging, moved, meta, terms = reductions(*arguments)
        return traffic, np.maximum(staging - terms[:, :1], 0), moved, meta, np.zeros_like(terms)

    return compiled_with(space, resharding_tables, reductions=without_packing)


def forgets_what_stays(space: PlanSpace) -> CompiledSpace:
    """Return tables in which what a device has already of a copy is there at once."""

    def without_own_parts(*arguments: Any) -> Any:
        *others, kept = fetches(*arguments)
        return (*others, np.zeros_like(kept))

    return compiled_with(space, resharding_tables, fetches=without_own_parts)


def cuts_out_state(space: PlanSpace) -> CompiledSpace:
    """Return tables in which a part of a larger buffer is carried to the next step as it is."""

    def without_exact(*arguments: Any) -> Any:
        *others, needed, mesh, mesh_shape = arguments
        return copy_table(*others, [replace(spec, exact=False) for spec in needed], mesh, mesh_shape)

    return compiled_with(space, table_rows, copy_table=without_exact)


def leaves_state(space: PlanSpace) -> CompiledSpace:
    """Return tables in which carried state may end anywhere: moving it to where it begins is free."""
    a = with_own_rows(space.space)
    rows = a.pair_rows
    for sink in space.graph.carriers:
        for e in range(*a.edge_start[space.gene_of[sink] : space.gene_of[sink] + 2]):
            t = int(a.edge_tensor[e])
            if a.reader_start[t + 1] - a.reader_start[t] == 1:
                first, count = int(a.pair_offset[t]), int(a.needed_specs[t])
                for p in specs_of(space, t)[0]:
                    for row in rows[first + p * count : first + (p + 1) * count]:
                        as_view(row)
    return a


MUTANTS: Mapping[str, Mutant] = {
    "forgets staging": Mutant("peak", forgets_staging),
    "forgets the second slice of a two-step scatter": Mutant("peak", forgets_the_second_slice),
    "forgets partials": Mutant("peak traffic", forgets_partials),
    "forgets gathers": Mutant("peak traffic", forgets_gathers),
    "forgets exchanges": Mutant("peak traffic", forgets_exchanges),
    "forgets the halo's buffer": Mutant("peak", forgets_halo_memory),
    "forgets the halo's traffic": Mutant("traffic", forgets_halo_traffic),
    "never shares a copy": Mutant("traffic", genes=lambda g: replace(g, regather=np.ones_like(g.regather))),
    "never makes a copy again": Mutant(
        "peak traffic", genes=lambda g: replace(g, regather=np.zeros_like(g.regather))
    ),
    "forgets that prefetched copies live longer": Mutant(
        "peak", genes=lambda g: replace(g, prefetch=np.zeros_like(g.prefetch))
    ),
    "forgets later readers": Mutant("peak traffic", forgets_later_readers),
    "frees outputs": Mutant("peak", forgets_outputs),
    "frees parameters": Mutant("peak", forgets_parameters),
    "forgets replicas": Mutant("peak", forgets_replicas),
    "forgets that gathers are repacked": Mutant("peak", forgets_repacking),
    "forgets that pieces are packed where they are sent": Mutant("peak time", forgets_packing),
    "packs whole parts": Mutant("peak", packs_whole_parts),
    "forgets that terms are packed": Mutant("peak time", forgets_packing_of_terms),
    "forgets that what stays is moved too": Mutant("time", forgets_what_stays),
    "lets state end anywhere": Mutant("traffic", leaves_state),
    "lets state end in a larger buffer": Mutant("time", cuts_out_state),
    "never reads a part of a copy": Mutant(
        "peak traffic", lambda s: s.space._replace(inside=np.zeros_like(s.space.inside))
    ),
    "forgets that devices differ": Mutant("total", forgets_ragged_devices),
}
