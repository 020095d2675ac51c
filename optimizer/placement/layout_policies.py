"""Whole-program choices of physical layouts, found by agreement: neighbors converge on orders that fit each other.

A layout pays only if the blocks around a tensor share it, so single changes rarely help. A policy starts from a
preferred order for every tensor and lets blocks and tensors follow each other until they agree. Used by seeds and by
the search's own moves.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tapestry.costmodel.layout_choices import DimensionOrders
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware.layouts.native import candidate_dimension_orders
from tapestry.teg.sharding.strategy import read_of

ROUNDS = 6
POLICIES = 3  # policies that start from the first, second and third order offered


def dimension_order_policies(space: PlanSpace) -> np.ndarray:
    """Compute each policy's choice of orders per gene, `(policies, genes)`; the first is the program's own order."""
    rows = [np.zeros(space.gene_count, dtype=np.int64)]
    if any(len(family.dimension_orders) > 1 for family in space.families):
        rows += [_Agreement(space, preference).settle() for preference in range(1, POLICIES + 1)]
    return np.unique(np.array(rows), axis=0)


class _Agreement:
    """The preferred orders of tensors, and the orders chosen by blocks."""

    def __init__(self, space: PlanSpace, preference: int) -> None:
        self.space = space
        graph = space.graph
        self.reads = [
            tuple(read_of(graph, b.site, k).root for k in range(len(b.inputs))) for b in space.blocks
        ]
        self.wanted: dict[str, str] = {}
        self.weight: dict[str, int] = {}
        for tensor in (t for b in space.blocks for t in b.outputs):
            kind = graph.tensors[tensor]
            candidates = candidate_dimension_orders(space.storage.native, kind.shape, kind.dtype)
            self.wanted[tensor] = candidates[min(preference, len(candidates) - 1)]
            self.weight[tensor] = kind.type.size_bytes
        self.known: dict[object, int] = {}

    def settle(self) -> np.ndarray:
        """Iterate the blocks' choices until they agree, or for some rounds; return them."""
        chosen = self._choices()
        for _ in range(ROUNDS):
            self._follow(chosen)
            again = self._choices()
            if (again == chosen).all():
                break
            chosen = again
        return chosen

    def _choices(self) -> np.ndarray:
        """Choose for each gene the orders that meet most of the preferred ones, by bytes."""
        chosen = np.zeros(self.space.gene_count, dtype=np.int64)
        for g, (block, family) in enumerate(zip(self.space.blocks, self.space.families, strict=True)):
            if len(family.dimension_orders) == 1:
                continue
            tensors = (*self.reads[g], *block.outputs)
            wanted = tuple(self.wanted[t] for t in tensors)
            key = (id(family), wanted)
            if key not in self.known:
                weights = [self.weight[t] for t in tensors]
                met = [_met(orders, wanted, weights) for orders in family.dimension_orders]
                self.known[key] = int(np.argmax(met))
            chosen[g] = self.known[key]
        return chosen

    def _follow(self, chosen: np.ndarray) -> None:
        """Set every tensor's preferred order to the one that most of its producer and readers chose."""
        votes: dict[str, Counter[str]] = {tensor: Counter() for tensor in self.wanted}
        for g, (block, family) in enumerate(zip(self.space.blocks, self.space.families, strict=True)):
            orders = family.dimension_orders[chosen[g]]
            for tensor, order in zip(self.reads[g], orders.reads, strict=True):
                votes[tensor][order] += 1
            if block.operator != "source":
                for tensor, order in zip(block.outputs, orders.makes, strict=True):
                    votes[tensor][order] += 1
        for tensor, counts in votes.items():
            if counts:
                most = max(counts.values())
                best = [order for order, count in counts.items() if count == most]
                self.wanted[tensor] = self.wanted[tensor] if self.wanted[tensor] in best else best[0]


def _met(orders: DimensionOrders, wanted: tuple[str, ...], weights: list[int]) -> int:
    """Compute the bytes of the tensors that a choice stores in the preferred order."""
    return sum(w for o, t, w in zip((*orders.reads, *orders.makes), wanted, weights, strict=True) if o == t)
