"""PostgreSQL's own client programs, which copy and restore databases."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from sqlalchemy import URL

from tapestry.service.store.database import POSTGRESQL_HINT, StoreError


def client_program(name: str, task: str, environment: Mapping[str, str]) -> str:
    """Find a client program on the `PATH` of `environment`; `task` is what it is needed for.

    Raises:
        StoreError: it is not there.
    """
    program = shutil.which(name, path=environment.get("PATH", os.defpath))
    if program is None:
        raise StoreError(
            f"{name} is needed to {task} and is not on the PATH; install PostgreSQL's client programs of the "
            "server's version, on Debian: apt-get install postgresql-client"
        )
    return program


def run_program(
    program: str, url: URL, options: Sequence[str], task: str, environment: Mapping[str, str]
) -> None:
    """Run a client program on a database; the password is in the environment, since anyone can read command lines.

    Raises:
        StoreError: psycopg is missing, or the program failed; the message is the program's.
    """
    try:
        from psycopg.conninfo import make_conninfo
    except ImportError:
        raise StoreError(f"cannot {task} without psycopg: {POSTGRESQL_HINT}") from None
    parameters = dict(url.get_dialect()().create_connect_args(url)[1])
    password = parameters.pop("password", None)
    command = [program, "--no-password", f"--dbname={make_conninfo(**parameters)}", *options]
    known = {"PGPASSWORD": str(password)} if password is not None else {}
    answer = subprocess.run(
        command,
        check=False,
        env={**environment, **known},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if answer.returncode:
        message = " ".join(answer.stderr.split()) or f"it ended with {answer.returncode}"
        raise StoreError(f"cannot {task}: {message}")
