"""Tied classes, in which equal layers share genes: blocks whose neighborhoods look alike form a class.

Also finds dimension groups: index dimensions of different blocks that run along the same tensor dimensions
(a model's sequence, its heads, its hidden width), by union over edges rather than by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.teg.sharding.strategy import read_of
from tapestry.teg.signature import rows_of

ROUNDS = 3


@dataclass(frozen=True)
class Ties:
    """The members of every class as ranges of `members`: class c holds `members[start[c]:start[c + 1]]`."""

    label: np.ndarray
    start: np.ndarray
    members: np.ndarray


def ties_from_labels(label: np.ndarray) -> Ties:
    """Group equal labels into classes, members in ascending order."""
    _, dense = np.unique(label, return_inverse=True)
    dense = dense.reshape(-1).astype(np.int64)
    members = np.argsort(dense, kind="stable").astype(np.int64)
    count = int(dense.max(initial=-1)) + 1
    start = np.searchsorted(dense[members], np.arange(count + 1)).astype(np.int64)
    return Ties(dense, start, members)


def gene_ties(space: PlanSpace) -> Ties:
    """Tie genes with equal definitions whose neighborhoods agree to a few steps (color refinement)."""
    colors = _numbered(space.class_of)
    arrays = space.space
    edge_slot = np.repeat(np.arange(len(space.slots)), np.diff(arrays.edge_start))
    producer = arrays.made_gene[arrays.edge_tensor]
    position = np.arange(len(edge_slot)) - arrays.edge_start[edge_slot]
    for _ in range(ROUNDS):
        seen: list[list[tuple[int, int, int]]] = [[] for _ in space.blocks]
        for s, m, k in zip(edge_slot, producer, position, strict=True):
            seen[s].append((0, int(k), int(colors[m])))
            seen[m].append((1, int(k), int(colors[s])))
        colors = _numbered([(int(c), tuple(sorted(n))) for c, n in zip(colors, seen, strict=True)])
    return ties_from_labels(colors)


def edge_ties(space: PlanSpace, genes: Ties) -> Ties:
    """Tie the edges into the same input of tied blocks."""
    arrays = space.space
    edge_slot = np.repeat(np.arange(len(space.slots)), np.diff(arrays.edge_start))
    position = np.arange(len(edge_slot)) - arrays.edge_start[edge_slot]
    pairs = [(int(genes.label[s]), int(k)) for s, k in zip(edge_slot, position, strict=True)]
    return ties_from_labels(_numbered(pairs))


def _numbered(values: Sequence[Hashable]) -> np.ndarray:
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(v, len(known)) for v in values], dtype=np.int64)


def dimension_groups(space: PlanSpace) -> tuple[np.ndarray, np.ndarray]:
    """Find the group of each index dimension of every block class.

    Returns: `(block classes, groups)` dimension per class and group or -1 (the first one where a block has
    two), and the block class of each gene `(genes,)`. Groups are ordered by the flops they split.
    """
    class_of = _numbered(space.class_of)
    links = nx.Graph()
    _link_edges(links, space, class_of)
    group_of: dict[tuple[int, int], Hashable] = {}
    for part in nx.connected_components(links):
        group_of.update(dict.fromkeys(part, min(part, key=repr)))
    flops = _flops_per_gene(space)
    weight: dict[Hashable, float] = {}
    found: dict[tuple[int, int], Hashable] = {}
    for g, block in enumerate(space.blocks):
        for d in range(len(block.signature.dims) if block.signature is not None else 0):
            if block.signature is None or block.signature.dims[d].size < 2:
                continue
            place = (int(class_of[g]), d)
            group = found[place] = group_of.get(place, place)
            weight[group] = weight.get(group, 0.0) + flops[g] + 1.0
    order = {group: k for k, group in enumerate(sorted(weight, key=lambda x: (-weight[x], repr(x))))}
    table = np.full((int(class_of.max()) + 1, max(len(order), 1)), -1, dtype=np.int64)
    for (c, d), group in sorted(found.items(), reverse=True):
        table[c, order[group]] = d
    return table, class_of


def _link(
    links: nx.Graph,
    space: PlanSpace,
    class_of: np.ndarray,
    gene: int,
    maker_site: str,
    root: str,
    dims: list[int],
) -> None:
    maker_gene = space.gene_of[maker_site]
    producer = space.blocks[maker_gene]
    if producer.signature is None:
        return
    written = rows_of(producer.signature.outputs[producer.outputs.index(root)])
    for reads, row in zip(dims, written, strict=True):
        if reads >= 0 and row is not None and row.dim >= 0:
            links.add_edge((int(class_of[gene]), reads), (int(class_of[maker_gene]), row.dim))


def _link_edges(links: nx.Graph, space: PlanSpace, class_of: np.ndarray) -> None:
    """Join dimensions that run along the same tensor dimension; every kind of edge once."""
    seen: set[tuple[int, int, int]] = set()
    for g, block in enumerate(space.slots):
        for k in range(len(block.inputs)):
            read = read_of(space.graph, block.site, k)
            producer = space.graph.producers[read.root]
            key = (int(class_of[g]), k, int(class_of[space.gene_of[producer.site]]))
            if block.signature is None or key in seen:
                continue
            seen.add(key)
            _link(links, space, class_of, g, producer.site, read.root, [r.dim for r in read.rows])


def _flops_per_gene(space: PlanSpace) -> np.ndarray:
    arrays = space.space
    return np.asarray(arrays.block_rows[arrays.block_offset, 2], dtype=np.float64)
