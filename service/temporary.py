"""A process's folder for its temporary files: deleted when it ends, or by the next process if it was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "tapestry-tmp-"
LOCK = "lock"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a folder for this process's temporary files and delete it afterwards. Its owner holds a lock in it until
    it ends, however it dies; folders without a lock are abandoned.
    """
    _remove_abandoned()
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


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is in use, another user's, or only just being made
            continue
        shutil.rmtree(folder, ignore_errors=True)
