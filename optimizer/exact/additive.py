"""The additive part of a plan's cost as a pairwise problem: what blocks and copies cost, added up with weights.

Nodes are genes in schedule order, a source just before its first reader; sources and sinks that carry one state are one
node. Labels are strategies, states the specs in which tensors are made and needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel_arrays import (
    BLOCK_ENERGY,
    BLOCK_FLOPS,
    BLOCK_TICKS,
    ORDER,
    PAIR_ENERGY,
    PAIR_QUEUES,
    PAIR_TICKS,
    PAIR_TRAFFIC,
    PLACED,
    RELAYOUT_ENERGY,
    RELAYOUT_TICKS,
    SPEC,
    CompiledSpace,
)
from tapestry.optimizer.exact.loops import least_holding
from tapestry.optimizer.exact.pairwise import Edge, Pairwise, pairwise
from tapestry.optimizer.exact.sharing import holding_specs, sharing_sets


class Weights(NamedTuple):
    """The price of a unit of each cost. Bytes are means over devices.

    `resident` bytes are of sources, `passing` ones of what blocks make, `copied` ones of what copies make. `flops` and
    `amounts` of the program's own resources, all together, are sums over devices. `least_copy_ticks`, `least_traffic`
    and `least_energy` are those of the copy that a reader needs or, where others read the tensor too, of the least copy
    that holds it; of energy they have that of blocks too. Where the reader does not follow the maker at once,
    `least_copy_ticks` are the mean over all communication queues of what each of them is taken.
    """

    compute_ticks: float = 0.0
    copy_ticks: float = 0.0
    traffic: float = 0.0
    energy: float = 0.0
    resident: float = 0.0
    passing: float = 0.0
    copied: float = 0.0
    flops: float = 0.0
    amounts: float = 0.0
    least_copy_ticks: float = 0.0
    least_traffic: float = 0.0
    least_energy: float = 0.0


class Copies(NamedTuple):
    """The copies of a tensor between specs: all arrays are `(made, needed, ...)`, but for the bytes of either."""

    pairs: np.ndarray  # rows of `pair_rows`
    relayouts: np.ndarray | None  # rows of `relayout_rows`
    moved: np.ndarray  # whether there is a copy, and not a view
    made_bytes: np.ndarray  # (made,): means over devices
    needed_bytes: np.ndarray  # (needed,)


class EdgeLayout(NamedTuple):
    """The place of an edge of a plan in the problem; `maker` and `reader` are one node where state passes unchanged."""

    maker: int
    reader: int
    made_map: int
    needed_map: int
    table: int


NEXT = 1  # the distance of a reader that follows the maker at once


class AdditiveCosts:
    """The additive costs of a compiled space; `problem` weighs them.

    Attributes: `nodes` `(genes,)`, the node of each gene; `label_start` `(nodes + 1,)`, their labels; `spans`
    `(edges, 2)`, the slots of each edge's maker (-1 for sources) and reader, ordered by tensor as all that counts edges
    is; `sharing` and `readers` `(edges,)`, the set of edges whose copies may serve each other, and its size; `layouts`,
    their places in the problem.
    """

    def __init__(self, space: CompiledSpace) -> None:
        self.space = space
        self.nodes, self.gene_of_node = _nodes(space)
        counts = space.strategy_count[self.gene_of_node]
        self.label_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._unary = np.zeros((len(Weights._fields), int(self.label_start[-1])))
        self._maps: list[np.ndarray] = []
        self._map_length = 0
        self._known_maps: dict[tuple[int, int, int], int] = {}
        self._tables: list[np.ndarray] = []
        self._known_tables: dict[tuple[int, ...], int] = {}
        self._table_sizes: list[tuple[int, int]] = []
        self._readers = np.diff(space.reader_start)
        self._last: tuple[Weights, np.ndarray] | None = None
        self._fill_unary()
        self.spans = np.stack(
            [np.repeat(space.made_at, self._readers), space.edge_slot[space.reader_edge]], axis=1
        )
        tensors = np.repeat(np.arange(len(space.made_at)), self._readers)
        self.layouts = [self._edge(int(t), int(e)) for t, e in zip(tensors, space.reader_edge, strict=True)]
        self.sharing = sharing_sets(space)
        self.readers = np.bincount(self.sharing)[self.sharing].astype(np.float64)
        self._shape = self._build()

    def problem(
        self,
        weights: Weights,
        *,
        shared: bool | np.ndarray = False,
        slot_shares: np.ndarray | None = None,
        edge_shares: np.ndarray | None = None,
    ) -> Pairwise:
        """Return the problem under some weights; `shared`: each of several readers of a tensor pays its share.

        These are equal, or the given ones `(edges,)`, which add up to at most 1 for each tensor.
        Of the ticks of blocks `slot_shares` `(slots,)` count, and of the costs of edges `edge_shares` `(edges,)`, in
        the order of `spans`; all of them by default.
        """
        unary, tables = self._priced(weights)
        if slot_shares is not None:
            ticks = weights.compute_ticks * self._unary[0]
            unary = unary + np.repeat(self._of_nodes(slot_shares) - 1.0, np.diff(self.label_start)) * ticks
        scale = np.ones(len(self.readers)) if edge_shares is None else edge_shares
        if isinstance(shared, np.ndarray):
            scale = scale * shared
        elif shared:
            scale = scale / self.readers
        for start, stop, table, k in self._own:
            unary[start:stop] += scale[k] * (np.array(weights) @ table)
        return self._shape.with_costs(unary, tables, scale[self._kept])

    def _priced(self, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        """Return the weighted costs of labels, a fresh array, and of all tables."""
        used = np.flatnonzero(weights)
        price = np.array(weights)[used]
        if self._last is None or self._last[0] != weights:
            tables = [price @ table[used] for table in self._priced_tables]
            self._last = (weights, np.concatenate(tables) if tables else np.zeros(0))
        return price @ self._unary[used], self._last[1]

    @property
    def size(self) -> int:
        """The number of pairs of specs that a pass over all edges reads."""
        return int(self._shape.rows @ self._shape.columns)

    def as_shares(self, values: np.ndarray) -> np.ndarray:
        """Return values of edges `(edges,)` over their sum for all that share copies; equal ones if that is 0."""
        total = np.bincount(self.sharing, values)[self.sharing]
        return np.asarray(np.divide(values, total, out=1.0 / self.readers, where=total > 0.0))

    def _of_nodes(self, slot_shares: np.ndarray) -> np.ndarray:
        """Return the share of each node's block, of genes that are slots; a source takes no time."""
        found = np.ones(len(self.gene_of_node))
        slots = self.gene_of_node < self.space.slot_count
        found[slots] = slot_shares[self.gene_of_node[slots]]
        return found

    def genes(self, labels: np.ndarray) -> np.ndarray:
        """Return the strategy genes `(genes,)` of a choice of labels."""
        return np.asarray(labels[self.nodes])

    def bytes_of(self, labels: np.ndarray) -> tuple[float, float]:
        """Return the mean bytes of sources, and of all that blocks make, in a choice of labels."""
        resident, passing = Weights._fields.index("resident"), Weights._fields.index("passing")
        chosen = self._unary[:, self.label_start[:-1] + labels]
        return float(chosen[resident].sum()), float(chosen[passing].sum())

    def ticks_of(self, labels: np.ndarray) -> np.ndarray:
        """Return the ticks of the block in each slot `(slots,)`."""
        space = self.space
        rows = space.block_offset[: space.slot_count] + self.genes(labels)[: space.slot_count]
        ticks = space.repeats[: space.slot_count] * space.block_rows[rows, BLOCK_TICKS]
        return np.asarray(ticks, dtype=np.float64)

    def edge_costs(self, weights: Weights, labels: np.ndarray) -> np.ndarray:
        """Return the weighted costs of each edge `(edges,)`, in the order of `spans`, not shared."""
        found = np.zeros(len(self.readers))
        found[self._kept] = self._shape._replace(tables=self._priced(weights)[1]).edge_costs(labels)
        for start, _, table, k in self._own:
            node = int(np.searchsorted(self.label_start, start))
            found[k] = (np.array(weights) @ table)[labels[node]]
        return found

    @property
    def follows(self) -> np.ndarray:
        """A mask `(edges,)`: the reader follows its maker at once."""
        return np.asarray((self.spans[:, 0] >= 0) & (self.spans[:, 1] - self.spans[:, 0] == NEXT))

    def side_by_side(self) -> np.ndarray:
        """Return how many copies run side by side at most, that of each edge among them, `(edges,)`.

        Where the reader follows the maker at once these are the copies from one to the other, at most one per queue.
        """
        follows = self.follows
        pairs = np.unique(np.stack([self.spans[:, 1], self.sharing], axis=1)[follows], axis=0)
        count = np.bincount(pairs[:, 0], minlength=self.space.slot_count)
        return np.where(follows, np.clip(count[self.spans[:, 1]], 1, self.space.communication_queues), 1)

    def _fill_unary(self) -> None:
        space, names = self.space, Weights._fields
        for g, node in enumerate(self.nodes):
            rows = space.block_offset[g] + np.arange(space.strategy_count[g])
            mine = self._unary[:, self.label_start[node] : self.label_start[node + 1]]
            if g < space.slot_count:
                costs = space.repeats[g] * space.block_rows[rows]
                mine[names.index("compute_ticks")] += costs[:, BLOCK_TICKS]
                for kind in ("energy", "least_energy"):
                    mine[names.index(kind)] += costs[:, BLOCK_ENERGY]
                work = costs[:, BLOCK_FLOPS:].reshape(len(rows), -1, len(space.classes))
                work = work @ space.classes
                mine[names.index("flops")] += work[:, 0]
                mine[names.index("amounts")] += work[:, 1:].sum(axis=1)
        for t in range(len(space.made_at)):
            g = int(space.made_gene[t])
            node, values = self.nodes[g], np.arange(space.strategy_count[g])
            placed = space.spec_ids[space.made_offset[t] + values, PLACED]
            kind = "resident" if space.made_at[t] < 0 else "passing"
            mine = self._unary[:, self.label_start[node] : self.label_start[node + 1]]
            size = self.mean_bytes(int(space.made_bytes_offset[t]) + placed)
            mine[names.index(kind)] += size * (space.repeats[g] if kind == "resident" else 1)

    def mean_bytes(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean over devices of rows of `size_rows`."""
        classes = self.space.classes
        return np.asarray(self.space.size_rows[rows] @ classes / classes.sum())

    def mean_staging(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean over devices of rows of `staging_rows`."""
        classes = self.space.classes
        return np.asarray(self.space.staging_rows[rows] @ classes / classes.sum())

    def _edge(self, t: int, e: int) -> EdgeLayout:
        space = self.space
        maker, slot = int(space.made_gene[t]), int(space.edge_slot[e])
        is_next = space.made_at[t] >= 0 and slot - space.made_at[t] == NEXT
        made = self._map(int(space.made_offset[t]), int(space.strategy_count[maker]), PLACED)
        needed = self._map(int(space.edge_needed[e]), int(space.strategy_count[slot]), PLACED)
        return EdgeLayout(
            int(self.nodes[maker]),
            int(self.nodes[slot]),
            made,
            needed,
            self._table(t, bool(is_next), int(space.repeats[slot]) if space.is_of_round[t] else 1),
        )

    def _map(self, offset: int, count: int, column: int) -> int:
        key = (offset, count, column)
        if key not in self._known_maps:
            self._known_maps[key] = self._map_length
            self._maps.append(self.space.spec_ids[offset : offset + count, column])
            self._map_length += count
        return self._known_maps[key]

    def _table(self, t: int, is_next: bool, repeats: int) -> int:
        """Return the number of the table of a tensor: costs `(kinds, made, needed)` of copies between placed specs.

        `is_next`: for a reader that follows the maker at once. There is a copy in each of `repeats` rounds.
        """
        space = self.space
        maker = int(space.made_gene[t])
        values = int(space.strategy_count[maker])
        key = (
            int(space.pair_offset[t]),
            int(space.relayout_offset[t]),
            int(space.made_offset[t]),
            values,
            int(space.needed_bytes_offset[t]),
            int(space.needed_specs[t]),
            int(space.needed_count[t]),
            int(self._readers[t] > 1),
            int(is_next),
            repeats,
        )
        if key not in self._known_tables:
            self._known_tables[key] = len(self._tables)
            table = self._costs_of_copies(t, is_next, repeats)
            self._table_sizes.append((table.shape[1], table.shape[2]))
            self._tables.append(table.reshape(len(table), -1))
        return self._known_tables[key]

    def copies(self, t: int) -> Copies:
        """Return the copies of a tensor between all specs in which it is made and needed."""
        space = self.space
        values = int(space.strategy_count[space.made_gene[t]])
        made = space.spec_ids[space.made_offset[t] + np.arange(values)]
        count, needed, specs = (
            int(made[:, PLACED].max()) + 1,
            int(space.needed_count[t]),
            int(space.needed_specs[t]),
        )
        spec, order = np.zeros(count, np.int64), np.zeros(count, np.int64)
        spec[made[:, PLACED]], order[made[:, PLACED]] = made[:, SPEC], made[:, ORDER]
        placed = np.arange(needed)
        needed_spec = placed // max(needed // max(specs, 1), 1)
        pairs = space.pair_rows[space.pair_ids[space.pair_offset[t] + spec[:, None] * specs + needed_spec]]
        again = None
        moved = pairs[:, :, PAIR_TICKS] >= 0
        if space.has_dimension_orders:
            again = space.relayout_rows[space.relayout_offset[t] + order[:, None] * needed + placed]
            moved = moved | (again[:, :, RELAYOUT_TICKS] >= 0)
        return Copies(
            pairs,
            again,
            moved,
            self.mean_bytes(int(space.made_bytes_offset[t]) + np.arange(count)),
            self.mean_bytes(int(space.needed_bytes_offset[t]) + placed),
        )

    def _costs_of_copies(self, t: int, is_next: bool, repeats: int) -> np.ndarray:
        pairs, again, moved, _, needed_bytes = self.copies(t)
        found = np.zeros((len(Weights._fields), *moved.shape))
        names = Weights._fields
        found[names.index("copy_ticks")] = np.maximum(pairs[:, :, PAIR_TICKS], 0)
        found[names.index("energy")] = pairs[:, :, PAIR_ENERGY]
        found[names.index("traffic")] = pairs[:, :, PAIR_TRAFFIC]
        if again is not None:
            found[names.index("copy_ticks")] += np.maximum(again[:, :, RELAYOUT_TICKS], 0)
            found[names.index("energy")] += again[:, :, RELAYOUT_ENERGY]
        found[names.index("copied")] = np.where(moved, needed_bytes, 0.0)
        found[:, ~moved] = 0.0
        for kind in ("copy_ticks", "traffic", "energy"):
            costs = found[names.index(kind)]
            if kind == "copy_ticks" and not is_next:
                costs = costs * self._queued_share(pairs[:, :, PAIR_QUEUES])
            found[names.index(f"least_{kind}")] = self.least_holding(t, costs, moved)
        found[[k for k, name in enumerate(names) if name != "copied"]] *= repeats
        return found

    def _queued_share(self, queues: np.ndarray) -> np.ndarray:
        """Return the share of all communication queues that copies take, which name theirs by a bit each."""
        taken = sum((queues >> q) & 1 for q in range(self.space.communication_queues))
        return np.asarray(taken / self.space.communication_queues)

    def least_holding(self, t: int, costs: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """Return for each made and needed spec of a tensor the least cost of a copy that holds what is needed.

        Where a tensor has one reader, that is the cost of the copy itself. Zero where nothing is `moved`.
        """
        if self._readers[t] <= 1:
            return np.where(moved, costs, 0.0)
        orders = max(int(self.space.needed_count[t]) // max(int(self.space.needed_specs[t]), 1), 1)
        found = np.full(costs.shape, np.inf)
        least_holding(holding_specs(self.space, t), orders, costs, moved, found)
        return found

    def _build(self) -> Pairwise:
        maps = self.maps = np.concatenate(self._maps) if self._maps else np.zeros(0, np.int64)
        turned: dict[int, int] = {}
        self._priced_tables = list(self._tables)
        starts = np.concatenate([[0], np.cumsum([table.shape[1] for table in self._tables])]).astype(np.int64)
        edges, kept = list[Edge](), list[int]()
        self._own: list[tuple[int, int, np.ndarray, int]] = []
        for k, layout in enumerate(self.layouts):
            rows, columns = self._table_sizes[layout.table]
            if layout.maker == layout.reader:
                start, stop = self.label_start[layout.maker], self.label_start[layout.maker + 1]
                made, needed = (maps[at : at + stop - start] for at in (layout.made_map, layout.needed_map))
                own = self._tables[layout.table].reshape(-1, rows, columns)[:, made, needed]
                self._own.append((int(start), int(stop), own, k))
                continue
            table, nodes = int(starts[layout.table]), (layout.maker, layout.reader)
            sides = (layout.made_map, layout.needed_map)
            if layout.maker > layout.reader:  # a state that is carried is read by blocks before it is made
                if layout.table not in turned:
                    turned[layout.table] = int(sum(t.shape[1] for t in self._priced_tables))
                    cube = self._tables[layout.table].reshape(-1, rows, columns)
                    self._priced_tables.append(cube.transpose(0, 2, 1).reshape(len(cube), -1))
                table, nodes, sides = turned[layout.table], nodes[::-1], sides[::-1]
                rows, columns = columns, rows
            edges.append(Edge(*nodes, *sides, table, rows, columns))
            kept.append(k)
        self._kept = np.array(kept, dtype=np.int64)
        tables = np.zeros(sum(table.shape[1] for table in self._priced_tables))
        counts = np.diff(self.label_start)
        return pairwise(counts.tolist(), np.zeros(int(self.label_start[-1])), edges, maps, tables)


def _nodes(space: CompiledSpace) -> tuple[np.ndarray, np.ndarray]:
    """Return the node of each gene, and a gene of each node; nodes are in schedule order."""
    genes = len(space.strategy_count)
    place = np.arange(genes, dtype=np.float64)
    for t in range(len(space.made_at)):
        g = int(space.made_gene[t])
        if g >= space.slot_count:
            readers = space.reader_edge[space.reader_start[t] : space.reader_start[t + 1]]
            place[g] = space.edge_slot[readers].min() - 0.5 if len(readers) else genes
    leader = np.arange(genes)
    for g, other in enumerate(space.state_gene):
        if other >= 0 and g < space.slot_count:  # a sink: its source decides
            leader[g] = other
    leaders = np.flatnonzero(leader == np.arange(genes))
    ordered = leaders[np.argsort(place[leaders], kind="stable")]
    number = np.zeros(genes, dtype=np.int64)
    number[ordered] = np.arange(len(ordered))
    return number[leader], ordered.astype(np.int64)
