"""A process's folder for its temporary files: deleted when it ends, or by the next process if it was killed."""

from __future__ import annotations

import errno
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path

PREFIX = "tapestry-tmp-"
LOCK = "lock"
FULL = (errno.ENOSPC, errno.EDQUOT)
SOCKETS = "pymp-"  # the prefix of the folder in which `multiprocessing` keeps its sockets
LAST = -1000  # behind the end of `multiprocessing`'s own folder


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
            _remove(folder)


def is_full(error: BaseException) -> bool:
    """Return whether an error says that there is no space for a file: nothing is wrong with what was to be written."""
    return isinstance(error, OSError) and error.errno in FULL


def _remove(folder: Path) -> None:
    """Remove a folder now, but for what `multiprocessing` still needs until this process ends."""
    needed = list(folder.glob(f"{SOCKETS}*"))
    for path in set(folder.iterdir()) - set(needed):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if needed:
        Finalize(None, shutil.rmtree, (folder, True), exitpriority=LAST)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is in use, another user's, or only just being made
            continue
        shutil.rmtree(folder, ignore_errors=True)
