"""The first plans of a variant, by source: whole tensors everywhere, seeds by propagation, exact ones.

Of those that enter its archive the variant notes the origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.archive.origin import EXACT, SEARCH, SEED, note_origins
from tapestry.optimizer.exact.scalarizations import ExactPlacement
from tapestry.optimizer.placement.island import insert_all
from tapestry.optimizer.placement.seeds import genes_rows, seed_plans, stored_seeds
from tapestry.optimizer.run.variants import Variant

SEED_BATCH = 256
MOST_SEEDED = 20_000_000  # blocks that are costed for the seeds of a program
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def insert_abstract(variant: Variant, limit: int | None = None, *, is_given: bool = False) -> Iterator[int]:
    """Insert the plan in which every device does everything; yield how many plans were evaluated, one.

    Where nothing is to be placed, it is the plan of its program, and a seed only if that `is_given`, not found.
    """
    strategies = variant.space.abstract_genes().strategies[None, :]
    insert_plans(variant, strategies, SEED if is_given or variant.has_choice else SEARCH)
    yield 1


def insert_seeds(variant: Variant, limit: int | None) -> Iterator[int]:
    """Insert the seeds by propagation, at most `limit`, batch by batch; yield how many plans each batch evaluated.

    Of a large program some of the seeds, evenly among all.
    """
    most = max(SEED_BATCH, MOST_SEEDED // max(1, variant.space.gene_count))
    rows = stored_seeds(seed_plans(variant.space, variant.search), variant.search)[:limit]
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    for start in range(0, len(rows), SEED_BATCH):
        batch = rows[start : start + SEED_BATCH]
        insert_plans(variant, batch, SEED)
        yield len(batch)


def insert_exact(variant: Variant, limit: int | None) -> Iterator[int]:
    """Insert the plans of least additive cost, at most `limit`, one after the other; yield how many were evaluated."""
    space, goal = variant.space.space, variant.submesh.goal
    for plan in islice(ExactPlacement(space, variant.space.state, goal).plans(), limit):
        genes, prefetch, regather = genes_rows(plan.strategies[None, :], space)
        insert_rows(variant, (genes, prefetch + np.int8(plan.prefetch), regather), EXACT)
        yield 1


def insert_plans(variant: Variant, strategies: np.ndarray, origin: str = SEARCH) -> int:
    """Evaluate and insert plans given as strategy rows `(n, genes)`; return how many entered the front."""
    space = variant.space
    return insert_rows(variant, genes_rows(space.with_state(strategies), space.space), origin)


def insert_rows(
    variant: Variant, rows: Rows, origin: str, archive: Archive | None = None, goal: Goal | None = None
) -> int:
    """Evaluate and insert plans given as rows of strategies, prefetch and regather; return how many entered the front.

    They are inserted into the variant's archive by its goal, unless there are others for an epoch apart.
    """
    space = variant.space
    archive, goal = archive or variant.archive, goal or variant.submesh.goal
    entered = int(insert_all(space.space, space.state, archive, goal, *rows))
    if origin != SEARCH:
        note_origins(variant.origins, origin, archive, *rows)
    return entered
