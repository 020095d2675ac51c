"""The decisions of a variant as vectors of small integers, and their evaluation by the loops of the search."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit
from tapestry.costmodel.kernel import evaluate
from tapestry.optimizer.archive.goal import insert_one, objective_values
from tapestry.optimizer.placement.variation import LONGEST_PREFETCH, hash_plan
from tapestry.optimizer.run.variants import Variant

TINY = 1e-9  # zeros have a logarithm too


class TiedEncoding:
    """The variables of a variant: a strategy per class of tied genes, then prefetch and regather per class of edges.

    Variable v is one of `choices[v]` values, `(variables,)`. Genes of equal layers are tied, as in most of our own
    moves: there are fewer variables, and every library does better with fewer.
    """

    def __init__(self, variant: Variant) -> None:
        self.variant, search = variant, variant.search
        classes = np.concatenate([search.slot_classes, search.source_classes]).astype(np.int64)
        self._members, self._variable = _scattered(classes, search.gene_start, search.gene_members)
        edges = np.arange(len(search.edge_start) - 1)
        self._edges, self._edge_variable = _scattered(edges, search.edge_start, search.edge_members)
        self._genes, self._classes = len(classes), len(edges)
        firsts = search.gene_members[search.gene_start[classes]]
        counts = variant.space.space.strategy_count[firsts]
        distances, flags = np.full(len(edges), LONGEST_PREFETCH + 1), np.full(len(edges), 2)
        self.choices = np.concatenate([counts, distances, flags]).astype(np.int64)
        self._first_gene, self._first_edge = firsts, search.edge_members[search.edge_start[:-1]]

    def decode(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the genes, prefetches and regathers of vectors `(n, variables)`, in the archive's types."""
        space = self.variant.space
        genes = np.tile(space.abstract_genes().strategies, (len(rows), 1))
        genes[:, self._members] = rows[:, self._variable]
        edges = np.zeros((2, len(rows), space.edge_count), np.int8)
        for k, values in enumerate(edges):
            values[:, self._edges] = rows[:, self._genes + k * self._classes + self._edge_variable]
        return space.with_state(genes).astype(np.int16), edges[0], edges[1]

    def encode(self, genes: np.ndarray, prefetch: np.ndarray, regather: np.ndarray) -> np.ndarray:
        """Return the vectors `(n, variables)` of plans; of tied genes that differ the first one counts."""
        parts = (genes[:, self._first_gene], prefetch[:, self._first_edge], regather[:, self._first_edge])
        return np.concatenate(parts, axis=1).astype(np.int64)

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate vectors and insert them into the archive; return log objectives `(n, m)` and violations `(n,)`."""
        variant = self.variant
        goal, space = variant.submesh.goal, variant.space
        values, violations = np.zeros((len(rows), len(goal.epsilon))), np.zeros(len(rows))
        evaluate_all(space.space, space.state, variant.archive, goal, *self.decode(rows), values, violations)
        return np.log(values + TINY), violations

    def front(self) -> np.ndarray:
        """Return the vectors of the plans in the archive's front."""
        archive = variant_front(self.variant)
        return self.encode(*archive)

    def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw vectors evenly, `(count, variables)`."""
        return rng.integers(0, self.choices, (count, len(self.choices)))


def variant_front(variant: Variant) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the genes, prefetches and regathers of the plans in a variant's front."""
    archive, count = variant.archive, int(variant.archive.size[0])
    return archive.genes[:count], archive.prefetch[:count], archive.regather[:count]


def _scattered(classes: np.ndarray, start: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the members of the classes, one after the other, and for each member the place of its class."""
    parts = [members[start[c] : start[c + 1]] for c in classes]
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *parts]), np.repeat(np.arange(len(classes)), [len(p) for p in parts])


@njit()
def evaluate_all(space, state, archive, goal, genes, prefetch, regather, values, violations):
    """Evaluate rows of genes, fill their objectives and violations, and insert them into the archive."""
    raw, value = np.zeros(goal.weights.shape[1], np.int64), np.zeros(goal.epsilon.shape[0])
    for i in range(genes.shape[0]):
        evaluate(space, state, genes[i], prefetch[i], regather[i], raw)
        violations[i] = objective_values(goal, raw, values[i])
        digest = hash_plan(genes[i], prefetch[i], regather[i])
        insert_one(archive, goal, raw, value, genes[i], prefetch[i], regather[i], digest)
