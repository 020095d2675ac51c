"""`tapestry delete`: stored runs, batches, programs, executions or imports, one after the other."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoreError


def run(arguments: Namespace) -> int:
    """Delete what is named, up to the first that cannot be, and print what was deleted."""
    if arguments.with_runs and arguments.kind != "batch":
        raise CommandError("--with-runs is for batches")
    store, deleted = open_store(arguments.database_url), list[str]()
    try:
        deletions = store.deletions
        by_kind: dict[str, Callable[[str], None]] = {
            "run": deletions.run,
            "batch": partial(deletions.batch, with_runs=arguments.with_runs),
            "graph": deletions.graph,
            "execution": deletions.execution,
            "import": store.imports.delete,
        }
        for reference in arguments.ids:
            by_kind[arguments.kind](reference)
            deleted.append(reference)
            store.audit.note_command(f"delete {arguments.kind}", reference, datetime.now(UTC))
    except StoreError as error:
        done = f"; deleted before: {', '.join(deleted)}" if deleted else ""
        raise CommandError(f"{error}{done}") from error
    finally:
        store.close()
    if arguments.json:
        print_json({"kind": arguments.kind, "deleted": deleted})
    else:
        print(f"deleted: {', '.join(deleted)}")
    return OK
