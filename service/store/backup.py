"""Copying a whole database into one file, while others read and write it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from tapestry.service.store.database import (
    BUSY_TIMEOUT_MS,
    POSTGRESQL_HINT,
    StoreError,
    database_url_of,
    shown,
)
from tapestry.service.store.schema import OURS

LOCK_WAIT_S = 30
PROGRAM = "pg_dump"


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
        with _appearing(target, overwrite) as partial:
            _copy_file(source, partial)
        restore = f"stop what uses the database, then copy {target} to its place (without its -wal and -shm)"
    else:
        program = shutil.which(PROGRAM, path=environment.get("PATH", os.defpath))
        if program is None:
            raise StoreError(
                f"{PROGRAM} is needed to back up {shown(url)} and is not on the PATH; install PostgreSQL's "
                "client programs of the server's version, on Debian: apt-get install postgresql-client"
            )
        with _appearing(target, overwrite) as partial:
            _dump(program, url, partial, environment)
        restore = f"pg_restore --clean --if-exists --no-owner --dbname=DATABASE {target}"
    return Backup(target, url.get_backend_name(), target.stat().st_size, restore)


def _existing_file(url: URL) -> Path:
    path = Path(url.database or "")
    if not path.is_file():
        raise StoreError(f"there is no database {str(path)!r} to back up")
    return path


@contextmanager
def _appearing(target: Path, overwrite: bool) -> Iterator[Path]:
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


def _copy_file(source: Path, partial: Path) -> None:
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


def _dump(program: str, url: URL, partial: Path, environment: Mapping[str, str]) -> None:
    """Dump one snapshot with pg_dump; the password is in the environment, since anyone can read command lines."""
    try:
        from psycopg.conninfo import make_conninfo
    except ImportError:
        raise StoreError(f"cannot back up {shown(url)} without psycopg: {POSTGRESQL_HINT}") from None
    parameters = dict(url.get_dialect()().create_connect_args(url)[1])
    password = parameters.pop("password", None)
    command = [
        program,
        "--format=custom",
        "--no-password",
        f"--lock-wait-timeout={LOCK_WAIT_S}s",
        f"--file={partial}",
        f"--dbname={make_conninfo(**parameters)}",
    ]
    given = {"PGPASSWORD": str(password)} if password is not None else {}
    answer = subprocess.run(
        command,
        check=False,
        env={**environment, **given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if answer.returncode:
        message = " ".join(answer.stderr.split()) or f"it ended with {answer.returncode}"
        raise StoreError(f"cannot back up {shown(url)}: {message}")
