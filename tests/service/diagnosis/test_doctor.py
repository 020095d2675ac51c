"""Tests of `tapestry doctor`: each check finds what it is for, names a remedy, and changes nothing."""

from __future__ import annotations

import shutil
import socket
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from tapestry.costmodel.compiled import cache_folder
from tapestry.service.cli.options.service import CHECKS
from tapestry.service.diagnosis import service_checks
from tapestry.service.diagnosis.findings import Finding
from tapestry.service.diagnosis.host_checks import (
    check_compiled,
    check_disk,
    check_libraries,
    check_memory,
    check_python,
    check_tracing,
)
from tapestry.service.diagnosis.service_checks import check_database, check_port, check_settings
from tapestry.service.store import Store
from tapestry.service.store.migrations import HEAD
from tapestry.service.store.migrations.upgrade import upgrade
from tests.service.api.conftest import serving
from tests.service.conftest import Run
from tests.service.programs import NOON, finished_run, two_layers

Usage = namedtuple("Usage", "total used free")
GIB = 2**30


@pytest.fixture(autouse=True)
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_checks, "LOOK_S", 0.2)


def of_database(url: str) -> dict[str, Finding]:
    return {finding.check: finding for finding in check_database({}, url)}


@pytest.fixture
def beating(store_url: str) -> Iterator[Store]:
    """Yield a store whose worker `ada` lives, with a clock 9 s ahead of PostgreSQL's."""
    store, ending = Store(store_url), threading.Event()

    def beat() -> None:
        while not ending.wait(0.05):
            now = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 9, UTC)
            store.workers.beat("ada", now, host="h", pid=1, status="idle", subject=None)

    thread = threading.Thread(target=beat)
    thread.start()
    yield store
    ending.set()
    thread.join()
    store.close()


def test_this_installation_is_in_order(tapestry: Run, home: Path) -> None:
    answer = tapestry("doctor", "--json", "--database-url", f"sqlite:///{home / 'none.db'}")
    found = {finding["check"]: finding["verdict"] for finding in answer.json["findings"]}
    assert (answer.code, answer.json["ok"]) == (0, True)
    assert {found[name] for name in ("python", "libraries", "settings", "tracing", "database")} == {"ok"}
    assert not home.exists()
    answer = tapestry("doctor", "--only", "python")
    assert answer.out.startswith("ok    python: Python 3.") and len(answer.out.splitlines()) == 1


def test_a_failed_check_shows_in_the_exit_code_and_has_a_remedy(
    tapestry: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPESTRY_API_KEY", "short")
    answer = tapestry("doctor", "--only", "settings")
    assert answer.code == 1
    first, second = answer.out.splitlines()
    assert first.startswith("fail  settings: TAPESTRY_API_KEY is too short")
    assert second.strip()


def test_libraries_outside_their_bounds_are_named() -> None:
    assert check_python().verdict == "ok"
    found = check_libraries(["numpy<2,>=1", "nonesuch>=1", "torch==1; extra == 'torch'", "sqlalchemy>=2.0"])
    assert found.verdict == "fail"
    assert "numpy is 2." in found.message and "and < 2 is needed" in found.message
    assert "nonesuch is missing" in found.message and "sqlalchemy" not in found.message
    assert "torch" not in found.message


def test_compiled_loops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAPESTRY_CACHE", str(tmp_path))
    assert check_compiled().verdict == "warn" and "minutes" in check_compiled().message
    (cache_folder() / "a.nbi").touch()
    assert check_compiled().message.startswith("1 compiled loops")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAPESTRY_CACHE", str(tmp_path / "file"))
    assert "cannot be kept" in check_compiled().message


@pytest.mark.parametrize(("free", "verdict"), [(10 * GIB, "ok"), (2 * GIB, "warn"), (GIB // 4, "fail")])
def test_the_fullest_disk_decides(
    free: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {str(tmp_path / "full"): free}

    def usage(path: Path) -> Usage:
        return Usage(100 * GIB, 0, sizes.get(str(path), 50 * GIB))

    (tmp_path / "full").mkdir()
    monkeypatch.setattr(shutil, "disk_usage", usage)
    found = check_disk({"temporary files": tmp_path, "the database": tmp_path / "full"})
    assert (found.verdict, "the database" in found.message) == (verdict, True)
    assert bool(found.hint) == (verdict != "ok")


@pytest.mark.parametrize(
    ("files", "verdict", "source"),
    [
        ({"memory.max": "max"}, "ok", "machine"),
        ({"memory.max": str(4 * GIB), "memory.current": str(GIB)}, "ok", "control group"),
        ({"memory.max": str(4 * GIB), "memory.current": str(3 * GIB)}, "warn", "control group"),
        ({"memory.max": str(GIB // 2), "memory.current": "0"}, "fail", "control group"),
        (
            {"memory/memory.limit_in_bytes": str(3 * GIB), "memory/memory.usage_in_bytes": "0"},
            "ok",
            "control group",
        ),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, "ok", "machine"),
    ],
)
def test_memory_is_that_of_the_group_that_limits_it(
    files: dict[str, str], verdict: str, source: str, tmp_path: Path
) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: {16 * 2**20} kB\nMemFree: 1 kB\nMemAvailable: {8 * 2**20} kB\n")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    found = check_memory(tmp_path, meminfo)
    assert (found.verdict, source in found.message) == (verdict, True), found
    assert check_memory(tmp_path, tmp_path / "none").verdict == "warn"


def test_traces_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapestry.service.diagnosis.host_checks._has_sdk", lambda: False)
    assert check_tracing({}).verdict == "ok"
    found = check_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"})
    assert (found.verdict, found.hint) == ("warn", "pip install 'tapestry[otel]'")


def test_settings_and_the_port(tmp_path: Path) -> None:
    assert check_settings({"TAPESTRY_API_KEY": "short"}).verdict == "fail"
    others = check_settings({"TAPESTRY_HOST": "0.0.0.0"})
    assert others.verdict == "warn" and "tapestry keys add" in others.hint
    secret = {"TAPESTRY_HOST": "0.0.0.0", "TAPESTRY_API_KEY": "x" * 20}
    assert check_settings(secret).message.endswith("for others, with a key")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        found = check_port({"TAPESTRY_PORT": port})
        assert found.verdict == "fail" and "no service answers there" in found.message
    assert check_port({"TAPESTRY_PORT": port}).message.endswith("is free")
    with serving(tmp_path) as service:
        found = check_port({"TAPESTRY_PORT": service.address.rpartition(":")[2]})
        assert (found.verdict, "a service answers" in found.message) == ("ok", True)


def test_a_database_of_this_release_with_a_worker_is_in_order(beating: Store, store_url: str) -> None:
    found = of_database(store_url)
    verdicts = {name: finding.verdict for name, finding in found.items() if name != "database"}
    is_skewed = "postgresql" in store_url
    assert verdicts == {
        **dict.fromkeys(("migrations", "writes", "workers", "queue", "keys"), "ok"),
        "clock": "warn" if is_skewed else "ok",
    }
    assert found["workers"].message == "1 alive, on h"
    if is_skewed:
        assert "9.0 s" in found["clock"].message


def test_jobs_that_wait_without_a_worker_are_a_failure(store_url: str) -> None:
    store = Store(store_url)
    assert of_database(store_url)["workers"].verdict == "warn"
    request = store.runs.request(store.runs.save_finished(finished_run(two_layers())))
    store.runs.submit(request, NOON)
    store.workers.beat("ada", NOON, host="h", pid=1, status="idle", subject=None)
    found = of_database(store_url)
    assert found["workers"].verdict == "fail"
    assert found["workers"].message == "none is alive, though 1 did not sign off; 1 jobs wait"
    assert found["queue"].verdict == "warn"
    store.close()


def test_databases_that_cannot_be_used(empty_url: str, tmp_path: Path) -> None:
    (found,) = check_database({}, "mysql://x")
    assert found.verdict == "fail" and "not supported" in found.message
    (found,) = check_database({}, "postgresql://anna:hunter2@127.0.0.1:1/none")
    assert found.verdict == "fail" and "hunter2" not in found.message and found.hint
    (tmp_path / "letter.db").write_text("a letter to my aunt\n" * 100)
    (found,) = check_database({}, f"sqlite:///{tmp_path / 'letter.db'}")
    assert found.verdict == "fail"
    engine = create_engine(empty_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE aunts (name TEXT)"))
    (found,) = check_database({}, empty_url)
    assert "tables of another program" in found.message
    assert inspect(engine).get_table_names() == ["aunts"]
    engine.dispose()


def test_older_tables_are_reported_and_left(new_database: Callable[[], str]) -> None:
    url = new_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        upgrade(connection, None, "0020")
    found = of_database(url)
    assert found["migrations"].verdict == "warn"
    assert f"version 0020, and {HEAD} is this release's" in found["migrations"].message
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0020"
    engine.dispose()


def test_every_check_is_documented(root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text()
    section = page[page.index("## tapestry doctor") : page.index("## tapestry keys add")]
    assert all(f"`{name}`" in section for name in (*CHECKS, "migrations", "writes", "clock", "workers"))
