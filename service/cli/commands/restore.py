"""`tapestry restore`: a copy that `tapestry backup` made, in an empty database."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.settings import database_url
from tapestry.service.store import StoreError
from tapestry.service.store.restore import restore
from tapestry.teg.brief import counted


def run(arguments: Namespace) -> int:
    """Restore the copy, and print what is in the database now."""
    url = database_url(os.environ, arguments.database_url)
    try:
        found = restore(url, Path(arguments.file), os.environ)
    except StoreError as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        print_json(asdict(found))
        return OK
    parts = (counted(found.runs, "run"), counted(found.plans, "plan"), counted(found.graphs, "program"))
    print(f"{found.database}: {', '.join(parts)} restored")
    if found.unfinished:
        print(f"{counted(found.unfinished, 'job')} had not ended; the next worker goes on with it")
    return OK
