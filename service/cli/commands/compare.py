"""`tapestry compare`: two to four stored runs, or plans, side by side."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from tapestry.service.cli.compared_plans import compare_plans
from tapestry.service.cli.compared_runs import compare_runs
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.references import find_run_or_plan
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoredPlan, StoredRun, StoreError
from tapestry.teg.brief import enumerated

LEAST, MOST = 2, 4


def run(arguments: Namespace) -> int:
    """Compare the frontiers of runs over the objectives they have in common, or the costs and decisions of plans."""
    references = arguments.references
    if not LEAST <= len(references) <= MOST:
        raise CommandError(f"compare takes {LEAST} to {MOST} runs or plans, not {len(references)}")
    store = open_store(arguments.database_url)
    try:
        found = [find_run_or_plan(store, reference) for reference in references]
        runs = [each for each in found if isinstance(each, StoredRun)]
        plans = [each for each in found if isinstance(each, StoredPlan)]
        if runs and plans:
            raise CommandError(_mixture(references, found))
        if runs:
            compare_runs(store, runs, as_json=arguments.json)
        else:
            compare_plans(store, plans, as_json=arguments.json)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    return OK


def _mixture(references: Sequence[str], found: Sequence[StoredRun | StoredPlan]) -> str:
    kinds = ["a run" if isinstance(each, StoredRun) else "a plan" for each in found]
    named = enumerated([f"{name} is {kind}" for name, kind in zip(references, kinds, strict=True)])
    return f"compare takes either runs or plans: {named}"
