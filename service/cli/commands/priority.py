"""`tapestry priority`: which of the waiting runs goes first."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.searching import open_store
from tapestry.service.store import StoreError


def run(arguments: Namespace) -> int:
    """Set the priority of runs, up to the first that has none any more, and print what was changed."""
    store, changed = open_store(arguments.database_url), list[str]()
    try:
        for reference in arguments.runs:
            store.runs.change(reference, priority=arguments.priority)
            changed.append(reference)
            subject = f"{reference} {arguments.priority}"
            store.audit.note_command("set priority", subject, datetime.now(UTC))
    except StoreError as error:
        done = f"; changed before: {', '.join(changed)}" if changed else ""
        raise CommandError(f"{error}{done}") from error
    finally:
        store.close()
    if arguments.json:
        print_json({"priority": arguments.priority, "runs": changed})
    else:
        print(f"priority {arguments.priority}: {', '.join(changed)}")
    return OK
