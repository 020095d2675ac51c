"""The rates of moves that stored runs have learned, as JSON: the command line prints it, and a page shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tapestry.service.store import TenantStore


def learned_document(store: TenantStore) -> dict[str, Any]:
    """Return the rates of all runs of this release together, and those of the last runs one by one.

    `rate` is the credit of a thousand applied moves, `volume` the mean share of the hypervolume of a run's last front
    that is due to such moves. `prior` is the number of the newest snapshot, 0 if there is none.
    """
    rules = []
    for found in store.learning.rates():
        rate, volume = 1000.0 * found.credit / max(found.applied, 1), found.volume / found.snapshots
        rules.append({**asdict(found), "rate": rate, "volume": volume})
    return {"prior": store.learning.newest(), "rules": rules, "snapshots": list(store.learning.over_time())}
