"""Checks of a service's settings, address, database, workers and queue."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from sqlalchemy.exc import SQLAlchemyError

from tapestry.service.diagnosis.findings import Finding, broken, doubtful, fine
from tapestry.service.settings import API_KEY, SettingsError, database_url, service_settings
from tapestry.service.store import Store, StoreError
from tapestry.service.store.database import connect, database_url_of, reason, shown
from tapestry.service.store.migrations import HEAD
from tapestry.service.store.schema import UnusableTables, revision_of

LOOK_S = 2.5  # a worker that lives counts its heartbeats up within this time
OLD_S = 1800.0
SKEW_S = 5.0
SLOW_S = 0.25
ANSWER_S = 3.0
NO_WORKER_HINT = "start one: tapestry worker"


def database_folder(environment: Mapping[str, str], given: str | None) -> Path | None:
    """Return the folder of the database if that is a file here; None if it is elsewhere, or no such URL."""
    try:
        url = database_url_of(database_url(environment, given))
    except StoreError:
        return None
    return Path(url.database or "").absolute().parent if url.get_backend_name() == "sqlite" else None


def check_settings(environment: Mapping[str, str]) -> Finding:
    """Check the settings that a server would start with: off loopback it needs a key."""
    try:
        found = service_settings(environment)
    except SettingsError as error:
        return broken("settings", str(error), "set the variable, or unset it for the default")
    try:
        found.require_key(False)
    except SettingsError as error:
        hint = f"set {API_KEY}, or make a key with a name: tapestry keys add NAME; one of them is enough"
        return doubtful("settings", str(error), hint)
    who = "this machine alone" if found.is_loopback else "others, with a key"
    return fine("settings", f"a server listens on {found.host}:{found.port}, for {who}")


def check_port(environment: Mapping[str, str]) -> Finding:
    """Check that the port of a server is free, or that a service of ours has it."""
    try:
        found = service_settings(environment)
    except SettingsError as error:
        return doubtful("port", f"not looked at: {error}", "see settings")
    if found.port == 0:
        return fine("port", "any free one is taken")
    name = f"{found.host}:{found.port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in found.host else socket.AF_INET) as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind((found.host, found.port))
        return fine("port", f"{name} is free")
    except OSError as error:
        if _answers(found.port):
            return fine("port", f"a service answers on {name}")
        hint = "end what has it, or choose another: tapestry serve --port 0, or $TAPESTRY_PORT"
        return broken("port", f"{name} cannot be taken: {error.strerror}, and no service answers there", hint)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=ANSWER_S) as answer:
            return b'"ok"' in cast("bytes", answer.read(1000))
    except (OSError, ValueError):
        return False


def check_database(environment: Mapping[str, str], given: str | None) -> Iterator[Finding]:
    """Check the database, and if it answers and has our tables, its clock, keys, workers and queue.

    Nothing is created and no tables are upgraded.
    """
    text = database_url(environment, given)
    try:
        url = database_url_of(text)
    except StoreError as error:
        yield broken("database", str(error), "set TAPESTRY_DATABASE_URL, or say --database-url")
        return
    name = shown(url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        message = f"{name} is not there yet: the first process that needs it makes it"
        yield fine("database", message)
        return
    try:
        engine = connect(url)
        began_s = time.perf_counter()
        with engine.connect() as connection:
            took_s = time.perf_counter() - began_s
            found = revision_of(connection)
        engine.dispose()
    except UnusableTables as error:
        yield broken("database", f"{name} {error}", "give Tapestry a database of its own")
        return
    except (SQLAlchemyError, StoreError) as error:
        why = reason(error) if isinstance(error, SQLAlchemyError) else str(error)
        hint = "start the database, and check host, name and password of the URL"
        yield broken("database", f"{name} cannot be reached: {why}", hint)
        return
    message = f"{name} answers in {took_s * 1e3:.0f} ms"
    if took_s > SLOW_S:
        yield doubtful("database", message, "look at its load, its disk, and the network between")
    else:
        yield fine("database", message)
    if found != HEAD:
        before = (
            "has no tables"
            if found is None
            else f"has tables of version {found}, and {HEAD} is this release's"
        )
        hint = "make a copy (tapestry backup); the next process that opens it upgrades the tables"
        yield doubtful("migrations", f"it {before}", hint)
        return
    yield fine("migrations", f"tables of version {found}, as this release has them")
    yield from _of_store(text)


def _of_store(text: str) -> Iterator[Finding]:
    store = Store(text)
    try:
        yield _writes(store)
        first = store.workers.alive(LOOK_S)
        time.sleep(LOOK_S)
        counters = {worker.name: worker.beat for worker in first}
        alive = [one for one in store.workers.alive(LOOK_S) if one.beat != counters.get(one.name)]
        yield _clock([worker.ahead_s for worker in alive])
        counts = store.jobs.counts()
        yield _workers([worker.host for worker in alive], len(first), counts["queued"])
        yield _queue(counts["queued"], counts["oldest"])
        yield _keys(store)
    except StoreError as error:
        yield broken("database", str(error), "see the message; the database answered before")
    finally:
        store.close()


def _writes(store: Store) -> Finding:
    try:
        store.check_writes()
    except StoreError as error:
        hint = "free space on its disk; or end the process that holds it, or see its rights"
        return broken("writes", f"it takes no writes: {error}", hint)
    return fine("writes", "a row came and went")


def _clock(ahead_s: list[float | None]) -> Finding:
    known = [abs(seconds) for seconds in ahead_s if seconds is not None]
    if not known:
        return fine("clock", "nothing to compare: no worker has compared its clock with the database's")
    message = f"workers' clocks are {max(known):.1f} s off the database's at most"
    if max(known) > SKEW_S:
        hint = "let NTP set the clocks; nothing depends on them but the times that people read"
        return doubtful("clock", message, hint)
    return fine("clock", message)


def _workers(hosts: list[str], listed: int, queued: int) -> Finding:
    if hosts:
        return fine("workers", f"{len(hosts)} alive, on {', '.join(sorted(set(hosts)))}")
    message = f"none is alive{f', though {listed} did not sign off' if listed else ''}"
    if queued:
        return broken("workers", f"{message}; {queued} jobs wait", NO_WORKER_HINT)
    return doubtful("workers", message, NO_WORKER_HINT)


def _queue(queued: int, oldest: Mapping[str, datetime]) -> Finding:
    if not oldest:
        return fine("queue", "no job waits")
    age_s = (datetime.now(UTC) - min(oldest.values())).total_seconds()
    message = f"{queued} jobs wait, the first for {age_s:.0f} s"
    if age_s > OLD_S:
        return doubtful("queue", message, "start more workers, or lower the budgets of runs")
    return fine("queue", message)


def _keys(store: Store) -> Finding:
    now = datetime.now(UTC)
    keys = store.keys.all()
    valid = [key for key in keys if key.is_valid(now)]
    if keys and not valid:
        message = f"none of {len(keys)} keys with names is valid any more"
        return doubtful("keys", message, "make one: tapestry keys add NAME")
    return fine("keys", f"{len(valid)} valid keys with names" if valid else "no keys with names")
