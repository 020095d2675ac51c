"""`tapestry backup`: the whole database in one file, while others use it."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, quantity
from tapestry.service.settings import database_url
from tapestry.service.store import StoreError
from tapestry.service.store.backup import back_up


def run(arguments: Namespace) -> int:
    """Write the copy, and print how to restore it."""
    url = database_url(os.environ, arguments.database_url)
    try:
        made = back_up(url, Path(arguments.file), arguments.force, os.environ)
    except StoreError as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        print_json(
            {
                "file": str(made.path),
                "kind": made.kind,
                "size_bytes": made.size_bytes,
                "restore": made.restore,
            }
        )
    else:
        print(f"{made.path}: {quantity(made.size_bytes, 'B')}, complete")
        print(f"restore: {made.restore}")
    return OK
