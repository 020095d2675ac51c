"""The databases of a soak, on a disk of their own that can be full, and what is checked of them in the end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from sqlalchemy import create_engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from tapestry.service.store.tables import Base
from tests.service.databases import Postgres

DISK_BYTES = 448 * 2**20  # more than the service keeps free on the disk of a file
WAL_MB = 64
NO_AMCHECK = re.compile(
    r'extension "amcheck" is not available|: amcheck is not installed$'
    r'|could not open extension control file ".*/amcheck\.control"',
    re.MULTILINE,
)


class Disk:
    """A small file system in memory; `is_small` is False where none can be mounted, and then it is never full."""

    def __init__(self, size_bytes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tapestry-soak-"))
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(self.folder)]
        try:
            self.is_small = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            self.is_small = False
        self.folder.chmod(0o755)
        self._filler = self.folder / "filler"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for block in (2**20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(block))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def remove(self) -> None:
        if self.is_small:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class SqliteUnderTest:
    """A database file."""

    kind = "sqlite"

    def __init__(self, disk: Disk) -> None:
        self._path = disk.folder / "soak.db"
        self.url = f"sqlite:///{self._path}"

    def restart(self) -> bool:
        """Return False: there is no server."""
        return False

    def takes_writes(self) -> bool:
        """Return whether nobody holds the file for long."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=2.0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
        return True

    def faults(self) -> list[str]:
        """Return what the file's own checks find."""
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
            found += [
                f"rows without what they name: {row}"
                for row in connection.execute("PRAGMA foreign_key_check")
            ]
        return found

    def stop(self) -> None:
        pass


class PostgresUnderTest:
    """A database of a PostgreSQL server that can be restarted, as after a crash."""

    kind = "postgresql"

    def __init__(self, disk: Disk) -> None:
        self._folder = disk.folder / "pg"
        self._folder.mkdir()
        self._server = Postgres(self._folder)
        self._server.execute(f"ALTER SYSTEM SET max_wal_size = '{WAL_MB}MB'")
        self._server.execute("ALTER SYSTEM SET synchronous_commit = on")  # what is committed outlives a crash
        self._server.execute("SELECT pg_reload_conf()")
        self.url = self._server.create()

    def restart(self) -> bool:
        """Restart the server without letting it finish anything, or start it where it has ended itself."""
        command = [str(self._server.programs / "pg_ctl"), "-w", "-t", "60", "-D", str(self._folder)]
        command += ["-l", str(self._folder / "log"), "-m", "immediate", "restart"]
        user = self._server.system_user if os.geteuid() == 0 else None
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=user, cwd="/")
        return True

    def takes_writes(self) -> bool:
        """Return True: rows of others can be written whatever somebody holds."""
        return True

    def is_up(self) -> bool:
        """Return whether the server answers."""
        try:
            self._server.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def faults(self) -> list[str]:
        """Return the rows whose references lead nowhere, and what amcheck finds where it is installed."""
        found = list(_orphans(self.url))
        command = [
            str(self._server.programs / "pg_amcheck"),
            "--all",
            "--heapallindexed",
            "--install-missing",
        ]
        command += ["-h", str(self._server.socket), "-U", "postgres"]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        return found + amcheck_faults(checked.returncode, checked.stdout, checked.stderr)

    def stop(self) -> None:
        self._server.stop()


def amcheck_faults(code: int, output: str, errors: str) -> list[str]:
    """Return what a run of pg_amcheck found or failed by; nothing where only its extension is not there."""
    if not code or (NO_AMCHECK.search(errors) and not output.strip()):
        return []
    return [f"pg_amcheck ended with {code}: {output}{errors}"]


def _orphans(url: str) -> Iterator[str]:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            for table in Base.metadata.sorted_tables:
                for key in table.foreign_key_constraints:
                    target = key.referred_table.alias("target")
                    pairs = [(e.parent, target.c[e.column.name]) for e in key.elements]
                    missing = (
                        select(func.count()).select_from(table).where(*(own.is_not(None) for own, _ in pairs))
                    )
                    there = select(target).where(*(own == other for own, other in pairs)).exists()
                    if count := connection.scalar(missing.where(~there)):
                        yield f"{count} rows of {table.name} name rows of {key.referred_table.name} that are not there"
    except SQLAlchemyError as error:
        yield f"the database cannot be read: {error}"
    finally:
        engine.dispose()
