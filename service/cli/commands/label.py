"""`tapestry label`: tags and notes of stored runs."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.searching import open_store
from tapestry.service.run_tags import checked_notes, checked_tags
from tapestry.service.store import RunSummary, StoreError


def run(arguments: Namespace) -> int:
    """Add and remove tags of runs, and replace their notes, up to the first run that there is none of."""
    if not arguments.tag and not arguments.untag and arguments.notes is None:
        raise CommandError("say what to change: --tag TAG, --untag TAG or --notes TEXT")
    store, changed = open_store(arguments.database_url), list[RunSummary]()
    try:
        notes = None if arguments.notes is None else checked_notes(arguments.notes)
        for reference in arguments.runs:
            known = store.runs.get(reference).tags
            tags = checked_tags(sorted({*known, *arguments.tag} - {*arguments.untag}))
            changed.append(store.runs.change(reference, tags=tags, notes=notes))
            store.audit.note_command("label run", reference, datetime.now(UTC))
    except (StoreError, ValueError) as error:
        done = f"; changed before: {', '.join(each.id for each in changed)}" if changed else ""
        raise CommandError(f"{error}{done}") from error
    finally:
        store.close()
    if arguments.json:
        print_json(
            {"runs": [{"run": each.id, "tags": list(each.tags), "notes": each.notes} for each in changed]}
        )
    else:
        for each in changed:
            print(f"{each.id}: {', '.join(each.tags) or 'no tags'}")
    return OK
