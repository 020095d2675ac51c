"""Copying a whole database into one file, while others read and write it."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import URL

from tapestry.service.store.database import BUSY_TIMEOUT_MS, StoreError, database_url_of, shown
from tapestry.service.store.postgresql_programs import client_program, run_program
from tapestry.service.store.schema import OURS

LOCK_WAIT_S = 30
SUFFIXES = {"sqlite": ".db", "postgresql": ".dump"}
DATED = re.compile(r"tapestry-\d{8}T\d{6}Z\.(db|dump)")


@dataclass(frozen=True)
class Backup:
    """A finished copy: `kind` is the database's, `restore` describes in one line how to restore it."""

    path: Path
    kind: str
    size_bytes: int
    restore: str


def back_up(text: str, target: Path, overwrite: bool, environment: Mapping[str, str]) -> Backup:
    """Copy the database of this URL as it is at one moment; the file appears whole or not at all.

    The copy of a SQLite file is such a file, checked; that of a PostgreSQL database is an archive for
    pg_restore, made by pg_dump, which is searched for on the `PATH` of `environment`.

    Raises:
        StoreError: no database there, a file in the way, no pg_dump, or the copy failed or is damaged.
    """
    url = database_url_of(text)
    if target.exists() and not overwrite:
        raise StoreError(f"{str(target)!r} exists already; name another file, or say --force to replace it")
    if url.get_backend_name() == "sqlite":
        source = _existing_file(url)
        if target.exists() and target.samefile(source):
            raise StoreError(f"{str(target)!r} is the database itself; name another file")
        with appearing(target, overwrite) as partial:
            copy_file(source, partial)
    else:
        task = f"back up {shown(url)}"
        program = client_program("pg_dump", task, environment)
        with appearing(target, overwrite) as partial:
            options = ("--format=custom", f"--lock-wait-timeout={LOCK_WAIT_S}s", f"--file={partial}")
            run_program(program, url, options, task, environment)
    restore = f"tapestry restore {target} --database-url DATABASE"
    return Backup(target, url.get_backend_name(), target.stat().st_size, restore)


def dated_file(text: str, folder: Path, now: datetime) -> Path:
    """Return the file of a copy of the database of this URL in a folder of such copies; `now` is in UTC.

    Raises:
        StoreError: not a URL of a database that is supported.
    """
    suffix = SUFFIXES[database_url_of(text).get_backend_name()]
    return folder / f"tapestry-{now:%Y%m%dT%H%M%SZ}{suffix}"


def prune(folder: Path, keep: int) -> tuple[Path, ...]:
    """Delete all dated copies of a folder but the newest `keep`, and return those that were deleted.

    Raises:
        StoreError: a copy cannot be deleted.
    """
    copies = sorted(path for path in folder.iterdir() if DATED.fullmatch(path.name))
    old = tuple(copies[: max(len(copies) - keep, 0)])
    for path in old:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot delete the old copy {str(path)!r}: {error.strerror}") from error
    return old


def _existing_file(url: URL) -> Path:
    path = Path(url.database or "")
    if not path.is_file():
        raise StoreError(f"there is no database {str(path)!r} to back up")
    return path


@contextmanager
def appearing(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary file beside `target`, renamed to it once it is complete and on the disk."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StoreError(f"cannot write {str(target)!r}: {error.strerror}") from error
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        if overwrite:
            partial.replace(target)
        else:
            os.link(partial, target)  # unlike a renaming, this never replaces a file made in the meantime
    except OSError as error:
        raise StoreError(f"cannot write {str(target)!r}: {error.strerror}") from error
    finally:
        for left in (partial, Path(f"{name}-journal"), Path(f"{name}-wal"), Path(f"{name}-shm")):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()


def copy_file(source: Path, partial: Path) -> None:
    """Copy a SQLite file by its online backup: one snapshot, whoever writes to the source, checked page by page."""
    try:
        with (
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as original,
            closing(sqlite3.connect(partial)) as copy,
        ):
            original.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            original.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
            tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if OURS not in tables:
                raise StoreError(f"{str(source)!r} is not a database of Tapestry")
            faults = [text for (text,) in copy.execute("PRAGMA integrity_check(3)") if text != "ok"]
    except sqlite3.Error as error:
        raise StoreError(f"cannot back up {str(source)!r}: {error}") from error
    if faults:
        raise StoreError(f"database {str(source)!r} is damaged; nothing was kept: {'; '.join(faults)}")
