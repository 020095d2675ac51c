"""The origin of a plan: a seed, the exact solver, an earlier run, or the search itself.

A plan is known by its genes' hash. So an origin needs no place in archives and epochs, and a plan that the search finds
again keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.placement.variation import hash_plans

SEED, EXACT, EARLIER_RUN, SEARCH = "seed", "exact", "earlier_run", "search"
# What a plan's origin means, by the word for it.
ORIGINS: Mapping[str, str] = {
    SEED: "a first plan, placed by propagation or whole on every device",
    EXACT: "a plan of least weighted cost, by the exact solver",
    EARLIER_RUN: "a plan of an earlier run, as far as this program and mesh have it",
    SEARCH: "found by the search, presearch included",
}


@dataclass(frozen=True)
class PlanOrigin:
    """The first source that had a plan, one of `ORIGINS`; of a seed also its `name`, such as `data parallel 8`."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.kind.replace("_", " "), self.name)))

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> PlanOrigin:
        return PlanOrigin(str(document["kind"]), str(document["name"]))


def note_origins(
    known: dict[int, str],
    kind: str,
    archive: Archive,
    genes: np.ndarray,
    prefetch: np.ndarray,
    regather: np.ndarray,
) -> None:
    """Note where those of the plans, given as rows, come from that are in an archive; what is known of one stays."""
    digests = np.zeros(len(genes), np.uint64)
    hash_plans(genes, prefetch, regather, digests)
    front, pool = (int(n) for n in archive.size)
    kept = set(archive.digest[:front].tolist()) | set(archive.pool_digest[:pool].tolist())
    for digest in digests.tolist():
        if digest in kept:
            known.setdefault(digest, kind)
