"""Tests of children: what ends one is known, limits hold for it and its own children, and signals reach its job."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tapestry.service.children import ChildContext, ChildDied, ChildLimits, ChildProcess, TaskOutcome
from tapestry.service.children import child as child_module
from tapestry.service.children.deaths import death_of
from tapestry.service.children.memory import (
    descendants,
    proportional_bytes,
    session_processes,
    tree_bytes,
)
from tests.service.processes import eventually

PRELOAD = ("tapestry.service.api.preload",)
LIMIT_MIB = 600
PATIENCE_S = 60.0
MIB = 2**20


@pytest.fixture(scope="module")
def child() -> Iterator[ChildProcess]:
    limited = ChildProcess("test", PRELOAD, ChildLimits(LIMIT_MIB * MIB, 2.0))
    yield limited
    limited.dismiss()


@pytest.fixture
def without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no control groups, as where the service may make none."""
    monkeypatch.setattr(child_module, "new_group", lambda *_: None)


def outcome_of(child: ChildProcess, task: object, *arguments: object) -> TaskOutcome:
    child.begin(task, arguments)  # type: ignore[arg-type]
    found = child.take(PATIENCE_S)
    assert found is not None, "no outcome came in time"
    return found


@pytest.mark.parametrize(
    ("task", "arguments", "cause", "message"),
    [
        ("_hold", (3 * LIMIT_MIB,), "memory", "more memory than the 600 MiB that are allowed"),
        ("_grow", (), "memory", "600 MiB|want of memory"),
        ("_spin", (), "processor_time", "more processor time than is allowed"),
        ("_crash", (), "crashed", "SIGSEGV"),
        ("_kill", (signal.SIGKILL,), "killed", "not for want of memory"),
        ("_exit", (3,), "exited", "exited with 3"),
    ],
)
def test_what_a_child_died_of_is_known_and_the_next_task_gets_another(
    child: ChildProcess, task: str, arguments: tuple[object, ...], cause: str, message: str
) -> None:
    before = outcome_of(child, os.getpid).result
    with pytest.raises(ChildDied, match=message) as death:
        outcome_of(child, globals()[task], *arguments)
    assert death.value.cause == cause
    assert outcome_of(child, os.getpid).result != before


@pytest.mark.usefixtures("without_groups")
def test_memory_of_its_own_children_counts(tmp_path: Path) -> None:
    child = ChildProcess("test", PRELOAD, ChildLimits(LIMIT_MIB * MIB))
    with pytest.raises(ChildDied, match="MiB of memory, more than") as death:
        outcome_of(child, _spread, str(tmp_path), 4, LIMIT_MIB // 3)
    assert death.value.cause == "memory"
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) >= 2
    eventually(lambda: not any(map(is_alive, pids)), PATIENCE_S, "its own children have ended")


def test_memory_that_it_shares_or_only_reserves_does_not_count(child: ChildProcess) -> None:
    assert outcome_of(child, _reserve, 8 * LIMIT_MIB).result == 8 * LIMIT_MIB * MIB


def test_an_unknown_task_is_an_error_and_no_death(child: ChildProcess) -> None:
    before = outcome_of(child, os.getpid).result
    assert "ZeroDivisionError" in str(outcome_of(child, divmod, 1, 0).error)
    assert outcome_of(child, os.getpid).result == before


def test_a_full_disk_is_an_error_of_its_own_kind(child: ChildProcess) -> None:
    error = outcome_of(child, _fill).error
    assert isinstance(error, OSError) and error.errno == errno.ENOSPC


def test_a_job_reports_and_hears_signals_even_those_that_came_early(child: ChildProcess) -> None:
    child.begin(_job, (), "job")
    child.signal("early")
    assert child.take(PATIENCE_S) == TaskOutcome("begun", None, False)
    child.signal("late")
    assert child.take(PATIENCE_S) == TaskOutcome(["early", "late"], None, True)


def test_who_waits_for_a_child_that_is_ended_gets_to_know(child: ChildProcess) -> None:
    child.begin(time.sleep, (1000,))
    assert child.take(0.01) is None
    threading.Timer(0.2, child.kill).start()
    with pytest.raises(ChildDied) as death:
        child.take(PATIENCE_S)
    assert death.value.cause == "ended"


def test_only_the_process_that_holds_too_much_is_ended_and_only_while_it_works(child: ChildProcess) -> None:
    pid = outcome_of(child, os.getpid).result
    child.exceed(pid, 10**12)  # looked at while the task was under way
    assert outcome_of(child, os.getpid).result == pid
    child.begin(time.sleep, (1000,))
    child.exceed(pid + 1, 10**12)  # of another process
    assert child.take(0.2) is None
    child.exceed(pid, 10**12)
    with pytest.raises(ChildDied, match="MiB of memory") as death:
        child.take(PATIENCE_S)
    assert death.value.cause == "memory"


def test_children_may_begin_at_the_same_time() -> None:
    main, warnings = sys.modules["__main__"], os.environ.get("PYTHONWARNINGS")
    children = [ChildProcess("test", PRELOAD) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda one: outcome_of(one, os.getpid).result, children))
    for one in children:
        one.dismiss()
    assert len(set(found)) == 4
    assert sys.modules["__main__"] is main and os.environ.get("PYTHONWARNINGS") == warnings


def test_a_child_ends_with_its_owner_however_that_dies(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys, time\n"
        "from tapestry.service.children import ChildProcess\n"
        "child = ChildProcess('test', ())\n"
        "child.begin(os.getpid, ())\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.take(60).result))\n"
        "child.begin(time.sleep, (1000,))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False, timeout=PATIENCE_S)
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not is_alive(pid), PATIENCE_S, "the child has ended")


def test_a_kill_by_the_system_differs_from_others() -> None:
    causes = [
        death_of(-signal.SIGKILL, was_ended=False, was_killed_by_system=by_system).cause
        for by_system in (True, False)
    ]
    assert causes == ["memory", "killed"]


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_processes_are_found_by_their_session() -> None:
    assert os.getpid() in session_processes()[os.getsid(0)]


def _fill() -> None:
    Path("/dev/full").write_text("x")


def _hold(mib: int) -> None:
    bytearray(mib * MIB)


def _grow() -> None:
    held = []
    while True:
        held.append(b"x" * (8 * MIB))
        time.sleep(0.005)


def _spin() -> None:
    while True:
        pass


def _crash() -> None:
    ctypes.string_at(0)


def _kill(number: int) -> None:
    os.kill(os.getpid(), number)


def _exit(code: int) -> None:
    os._exit(code)


def _spread(folder: str, count: int, mib: int) -> None:
    """Have so many processes of its own hold so much each."""
    script = (
        "import os, pathlib, time\n"
        f"pathlib.Path({folder!r}, str(os.getpid())).touch()\n"
        f"held = b'x' * ({mib} << 20)\n"
        "time.sleep(1000)\n"
    )
    held = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(count)]
    for one in held:
        one.wait()


def _reserve(mib: int) -> int:
    """Reserve address space without memory behind it, as compilers and allocators do."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    nothing, private, anonymous, no_reserve = 0, 2, 32, 0x4000
    size = mib * MIB
    found = libc.mmap(None, ctypes.c_size_t(size), nothing, private | anonymous | no_reserve, -1, 0)
    return size if found not in (None, ctypes.c_void_p(-1).value) else 0


def _job(context: ChildContext) -> list[str]:
    words: list[str] = []
    is_late = threading.Event()

    def listen(word: str) -> None:
        words.append(word)
        if word == "late":
            is_late.set()

    time.sleep(0.1)
    context.listen(listen)
    context.report("begun")
    is_late.wait(PATIENCE_S)
    return words


def test_all_that_a_process_has_begun_is_found_and_counted(child: ChildProcess) -> None:
    pid = outcome_of(child, os.getpid).result
    found = descendants(os.getpid())
    assert pid in found and len(set(found)) == len(found)
    assert pid not in descendants(os.getpid(), without=frozenset(found))
    assert tree_bytes(os.getpid()) > proportional_bytes(os.getpid()) > 0
