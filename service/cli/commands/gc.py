"""`tapestry gc`: what has ended long ago, or exceeds a size, is deleted."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import closing
from datetime import UTC, datetime, timedelta

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.repeating import repeat
from tapestry.service.retention import Collected, Retention, collect
from tapestry.service.settings import database_url
from tapestry.service.store import Store, StoreError
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Delete what is not to be kept, and print how much that was; repeat it if so requested."""
    kept = Retention(arguments.older_than, arguments.keep_size)
    if kept == Retention() and not arguments.compact and arguments.audit_older_than is None:
        raise CommandError(
            "say what is to be kept: --older-than 30d, --keep-size 10GB, --audit-older-than 400d, or --compact alone"
        )

    def collect_once() -> None:
        _collect(arguments, kept)

    if arguments.every is not None:
        repeat(collect_once, arguments.every)
        return OK
    try:
        collect_once()
    except StoreError as error:
        raise CommandError(str(error)) from error
    return OK


def _collect(arguments: Namespace, kept: Retention) -> None:
    forgotten = 0
    with closing(Store(database_url(os.environ, arguments.database_url))) as store:
        now = datetime.now(UTC)
        found = collect(store, kept, now, dry=arguments.dry_run)
        if arguments.audit_older_than is not None:
            until = now - timedelta(seconds=arguments.audit_older_than)
            forgotten = store.audit.forget(until, dry=arguments.dry_run)
        is_changed = any((found.batches, found.runs, found.graphs, found.imports, forgotten))
        if is_changed and not arguments.dry_run:
            lines = f"{counted(forgotten, 'line')} of the audit log"
            store.audit.note_command("gc", f"{', '.join(_counts(found))}, {lines}", now)
        if arguments.compact and not arguments.dry_run:
            store.deletions.compact()
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, **found.to_json(), "audit_lines": forgotten})
    else:
        print(_sentence(found, arguments.dry_run))
        if arguments.audit_older_than is not None:
            verb = "would be deleted" if arguments.dry_run else "deleted"
            print(f"{counted(forgotten, 'line')} of the audit log {verb}")


def _counts(found: Collected) -> tuple[str, ...]:
    """Return how many were collected of each kind."""
    batches = f"{len(found.batches):,} batch{'' if len(found.batches) == 1 else 'es'}"
    return (
        batches,
        counted(len(found.runs), "run"),
        counted(len(found.graphs), "program"),
        counted(len(found.imports), "import"),
    )


def _sentence(found: Collected, dry: bool) -> str:
    verb = "would be deleted" if dry else "deleted"
    left = f"{quantity(found.left_bytes, 'B')} {'would be' if dry else 'are'} left"
    return f"{', '.join(_counts(found))} {verb}: about {quantity(found.size_bytes, 'B')}; {left}"
