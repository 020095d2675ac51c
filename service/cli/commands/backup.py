"""`tapestry backup`: the whole database in one file, while others use it, once or again and again."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json
from tapestry.service.cli.repeating import repeat
from tapestry.service.settings import database_url
from tapestry.service.store import StoreError
from tapestry.service.store.backup import Backup, back_up, dated_file, prune
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Write the copy, and print how to restore it; into a folder also delete old ones, and repeat if so requested."""
    url, target = database_url(os.environ, arguments.database_url), Path(arguments.file)
    is_folder = target.is_dir()
    if not is_folder and (arguments.every is not None or arguments.keep is not None):
        raise CommandError(f"--every and --keep need a folder for the copies, and {str(target)!r} is none")

    def copy() -> None:
        _report(arguments, *_copy(arguments, url, target))

    if arguments.every is not None:
        repeat(copy, arguments.every)
        return OK
    try:
        copy()
    except StoreError as error:
        raise CommandError(str(error)) from error
    return OK


def _copy(arguments: Namespace, url: str, target: Path) -> tuple[Backup, Sequence[Path]]:
    is_folder = target.is_dir()
    file = dated_file(url, target, datetime.now(UTC)) if is_folder else target
    made = back_up(url, file, arguments.force, os.environ)
    return made, () if arguments.keep is None else prune(target, arguments.keep)


def _report(arguments: Namespace, made: Backup, deleted: Sequence[Path]) -> None:
    if arguments.json:
        print_json(
            {
                "file": str(made.path),
                "kind": made.kind,
                "size_bytes": made.size_bytes,
                "restore": made.restore,
                "deleted": [str(path) for path in deleted],
            }
        )
    else:
        print(f"{made.path}: {quantity(made.size_bytes, 'B')}, complete")
        for path in deleted:
            print(f"{path}: deleted, as newer ones are kept")
        print(f"restore: {made.restore}")
