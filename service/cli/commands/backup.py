"""`tapestry backup`: the whole database in one file, while others use it, once or again and again."""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, quantity
from tapestry.service.settings import database_url
from tapestry.service.store import StoreError
from tapestry.service.store.backup import Backup, back_up, dated_file, prune

RETRY_S = 60.0  # after a copy that failed, unless copies are made more often


def run(arguments: Namespace) -> int:
    """Write the copy, and print how to restore it; into a folder also delete old ones, and repeat if so requested."""
    url, target = database_url(os.environ, arguments.database_url), Path(arguments.file)
    is_folder = target.is_dir()
    if not is_folder and (arguments.every is not None or arguments.keep is not None):
        raise CommandError(f"--every and --keep need a folder for the copies, and {str(target)!r} is none")
    if arguments.every is not None:
        _repeat(arguments, url, target)
        return OK
    try:
        made, deleted = _copy(arguments, url, target)
    except StoreError as error:
        raise CommandError(str(error)) from error
    _report(arguments, made, deleted)
    return OK


def _copy(arguments: Namespace, url: str, target: Path) -> tuple[Backup, Sequence[Path]]:
    is_folder = target.is_dir()
    file = dated_file(url, target, datetime.now(UTC)) if is_folder else target
    made = back_up(url, file, arguments.force, os.environ)
    return made, () if arguments.keep is None else prune(target, arguments.keep)


def _repeat(arguments: Namespace, url: str, folder: Path) -> None:
    """Make a copy now and after every interval until SIGTERM or Ctrl-C; a failure is reported, and tried again."""
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    pause_s = 0.0
    while not ending.wait(pause_s):
        try:
            _report(arguments, *_copy(arguments, url, folder))
            pause_s = arguments.every
        except StoreError as error:
            pause_s = min(arguments.every, RETRY_S)
            print(f"tapestry: {error}; tried again in {pause_s:g} s", file=sys.stderr, flush=True)


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
    sys.stdout.flush()
