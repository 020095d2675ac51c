"""`tapestry downgrade`: the tables of an earlier release, unless that would lose something."""

from __future__ import annotations

import os
from argparse import Namespace
from dataclasses import asdict

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.settings import database_url
from tapestry.service.store import StoreError
from tapestry.service.store.downgrade import downgrade
from tapestry.teg.brief import counted


def run(arguments: Namespace) -> int:
    """Take the tables back, and print their version and what was lost."""
    url = database_url(os.environ, arguments.database_url)
    try:
        done = downgrade(url, arguments.version, arguments.lose)
    except StoreError as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        print_json(asdict(done))
        return OK
    change = f"{done.before} -> {done.after}" if done.before != done.after else f"{done.after} already"
    print(f"{done.database}: tables of version {change}")
    for loss in done.lost:
        print(f"lost: {loss.name} ({counted(loss.rows, 'row')})")
    return OK
