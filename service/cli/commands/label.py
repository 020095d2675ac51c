"""`tapestry label`: tags and notes of stored runs."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.searching import open_store
from tapestry.service.run_tags import checked_notes, checked_tags
from tapestry.service.store import StoreError


def run(arguments: Namespace) -> int:
    """Add and remove tags of runs, and replace their notes, up to the first run that there is none of."""
    if not arguments.tag and not arguments.untag and arguments.notes is None:
        raise CommandError("say what to change: --tag TAG, --untag TAG or --notes TEXT")
    store, changed = open_store(arguments.database_url), list[dict[str, object]]()
    try:
        notes = None if arguments.notes is None else checked_notes(arguments.notes)
        for reference in arguments.runs:
            known = store.runs.get(reference).tags
            tags = checked_tags(sorted({*known, *arguments.tag} - {*arguments.untag}))
            found = store.runs.change(reference, tags=tags, notes=notes)
            changed.append({"run": found.id, "tags": list(found.tags), "notes": found.notes})
            store.audit.note_command("label run", reference, datetime.now(UTC))
    except (StoreError, ValueError) as error:
        done = f"; changed before: {', '.join(str(each['run']) for each in changed)}" if changed else ""
        raise CommandError(f"{error}{done}") from error
    finally:
        store.close()
    if arguments.json:
        print_json({"runs": changed})
    else:
        for each in changed:
            print(f"{each['run']}: {', '.join(each['tags']) or 'no tags'}")  # type: ignore[arg-type]
    return OK
