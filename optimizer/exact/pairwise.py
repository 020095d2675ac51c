"""Pairwise problems: one label per node, and the least sum of costs of nodes and of edges between them.

An edge does not see the labels of its two nodes but the *states* they map to, such as the specs in which a tensor is
made and needed: many labels share a state, and equal edges share a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Pairwise(NamedTuple):
    """A pairwise problem in flat arrays. Nodes are in the order in which a solver passes over them.

    Edge `e` joins nodes `first[e] < second[e]`; label `x` of its first node has state `maps[first_map[e] + x]`, a row
    of the edge's table, and of its second node likewise, a column. Tables are row-major in `tables`; an edge costs
    `scale[e]` times what its table says, so that equal tables are stored once.
    """

    label_start: np.ndarray  # (nodes + 1,): into `unary`
    unary: np.ndarray  # (labels,) float64
    first: np.ndarray  # (edges,)
    second: np.ndarray
    first_map: np.ndarray  # (edges,): into `maps`
    second_map: np.ndarray
    maps: np.ndarray
    table_start: np.ndarray  # (edges,): into `tables`
    rows: np.ndarray  # (edges,)
    columns: np.ndarray
    scale: np.ndarray  # (edges,) float64, not negative
    tables: np.ndarray  # float64
    later_start: np.ndarray  # (nodes + 1,): edges whose first node this is
    later: np.ndarray
    earlier_start: np.ndarray  # (nodes + 1,): edges whose second node this is
    earlier: np.ndarray

    @property
    def node_count(self) -> int:
        return len(self.label_start) - 1

    @property
    def edge_count(self) -> int:
        return len(self.first)

    def with_costs(self, unary: np.ndarray, tables: np.ndarray, scale: np.ndarray) -> Pairwise:
        """Return the problem with other costs: `unary` `(labels,)`, `tables` in the same layout, `scale` `(edges,)`."""
        return self._replace(unary=_floats(unary), tables=_floats(tables), scale=_floats(scale))

    def edge_costs(self, labels: np.ndarray) -> np.ndarray:
        """Return what the table of each edge says of a choice of labels `(edges,)`, before it is scaled."""
        row = self.maps[self.first_map + labels[self.first]]
        column = self.maps[self.second_map + labels[self.second]]
        return np.asarray(self.tables[self.table_start + row * self.columns + column])

    def energy(self, labels: np.ndarray) -> float:
        """Compute the sum of costs of a choice of labels `(nodes,)`."""
        nodes = self.unary[self.label_start[:-1] + labels]
        return float(np.sum(nodes) + self.scale @ self.edge_costs(labels))


class Edge(NamedTuple):
    """An edge: its nodes, where their maps from labels to states start, and its table."""

    first: int
    second: int
    first_map: int
    second_map: int
    table_start: int
    rows: int
    columns: int


def pairwise(
    label_counts: Sequence[int],
    unary: np.ndarray,
    edges: Sequence[Edge],
    maps: np.ndarray,
    tables: np.ndarray,
) -> Pairwise:
    """Build a problem of nodes with `label_counts` labels and costs `unary`, one node after the other.

    Raises:
        ValueError: an edge whose first node is not before its second, or costs that are not finite.
    """
    if not np.isfinite(unary).all() or not np.isfinite(tables).all():
        raise ValueError("costs of a pairwise problem must be finite")
    columns = np.array(edges, dtype=np.int64).reshape(len(edges), len(Edge._fields)).T.copy()
    first, second, first_map, second_map, table_start, rows, row_columns = columns
    if (first >= second).any():
        raise ValueError("an edge of a pairwise problem joins a node and a later one")
    nodes = len(label_counts)
    later, earlier = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    return Pairwise(
        np.concatenate([[0], np.cumsum(np.asarray(label_counts, dtype=np.int64))]).astype(np.int64),
        _floats(unary),
        first,
        second,
        first_map,
        second_map,
        np.ascontiguousarray(maps, dtype=np.int64),
        table_start,
        rows,
        row_columns,
        np.ones(len(edges)),
        _floats(tables),
        np.searchsorted(first[later], np.arange(nodes + 1)).astype(np.int64),
        later.astype(np.int64),
        np.searchsorted(second[earlier], np.arange(nodes + 1)).astype(np.int64),
        earlier.astype(np.int64),
    )


def _floats(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64)
