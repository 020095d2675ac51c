"""A process's folder for its temporary files: gone when it ends, removed by the next one if it was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "tapestry-scratch-"
LOCK = "lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder in which this process's temporary files lie meanwhile. Its owner holds a lock in it for as long
    as it lives, however it dies; folders without one are nobody's."""
    _remove_those_of_the_dead()
    before = tempfile.tempdir
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tempfile.tempdir = str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = before
            shutil.rmtree(folder, ignore_errors=True)


def _remove_those_of_the_dead() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is in use, another user's, or only just being made
            continue
        shutil.rmtree(folder, ignore_errors=True)
