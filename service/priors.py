"""The prior of a run: what earlier runs of the store have learned of moves. Used by workers and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.optimizer import RunOptions
from tapestry.optimizer.run.learning import NO_PRIOR, Prior
from tapestry.optimizer.run.options import LATEST, NO_SNAPSHOT
from tapestry.service.store import TenantStore


def prior_for(store: TenantStore, options: RunOptions, mesh: Mapping[str, Any]) -> Prior:
    """Return the prior that a run asks for, on the mesh of this document.

    Unless it says so itself a run begins with the newest one; with none if it is limited by evaluations, so that it
    repeats.

    Raises:
        UnknownId: there is no such snapshot, or it is of another release.
    """
    wanted = options.prior or (LATEST if options.evaluations is None else NO_SNAPSHOT)
    if wanted == NO_SNAPSHOT:
        return NO_PRIOR
    number = store.learning.newest() if wanted == LATEST else int(wanted)
    return store.learning.prior(number, mesh, options.objectives)


def prior_text(prior: Prior) -> str:
    """Return what a run records of its prior: the number of the snapshot, or that there was none."""
    return str(prior.snapshot) if prior.snapshot else NO_SNAPSHOT
