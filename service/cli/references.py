"""Search for the stored runs and plans that the references of a command line name."""

from __future__ import annotations

from tapestry.service.store import Store, StoredPlan, StoredRun, StoreError


def find_run_or_plan(store: Store, reference: str) -> StoredRun | StoredPlan:
    """Find the object that a reference names: a run if there is such a run, else a plan.

    Raises:
        StoreError: there is neither, or the reference is a prefix of several.
    """
    if "/" in reference:
        return store.plans.find(reference)
    try:
        return store.runs.find(reference)
    except StoreError as no_run:
        try:
            return store.plans.find(reference)
        except StoreError as no_plan:
            if "not one" in str(no_run) or "not one" in str(no_plan):
                raise (no_run if "not one" in str(no_run) else no_plan) from None
            raise StoreError(
                f"there is no run and no plan {reference!r}; `tapestry show` lists the runs"
            ) from None
