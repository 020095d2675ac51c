"""Tests of events: reported from the first or after the last one seen, as they come, until the run ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from tapestry.service.api import event_feed as feed_module
from tapestry.service.api import events as events_module
from tapestry.service.api import holders as holders_module
from tapestry.service.store import Job, StoreError
from tapestry.service.store.keys import Keys
from tapestry.service.store.run_watch import RunWatch
from tapestry.service.store.tables import RunRow
from tests.service.api.conftest import Service, complaint, serving
from tests.service.processes import eventually
from tests.service.store.submissions import plans, update_of

SOON_S = 10.0


def reported(text: str) -> list[tuple[int, str, Any]]:
    """Parse the events of an event feed's text: number, kind, data."""
    found = []
    for portion in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in portion.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


class Watch:
    """A viewer on a thread of its own that keeps the events it receives."""

    def __init__(
        self, service: Service, run_id: str, after: int = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        self._path = f"{service.address}/v1/runs/{run_id}/events"
        self._headers = {**({"Last-Event-ID": str(after)} if after else {}), **(headers or {})}
        self.text, self.has_ended = "", False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with httpx.stream("GET", self._path, headers=self._headers, timeout=60, trust_env=False) as answer:
            for text in answer.iter_text():
                self.text += text
        self.has_ended = True

    def numbers(self) -> list[int]:
        return [number for number, _, _ in reported(self.text)]


def claimed(service: Service) -> Job:
    """Submit a run and claim it for a worker."""
    service.submit(objectives=["time_s", "peak_memory_bytes"])
    job = service.store.jobs.claim("ada", datetime.now(UTC), 600.0)
    assert job is not None
    return job


def find_plans(service: Service, job: Job, *costs: tuple[float, int]) -> None:
    service.store.jobs.checkpoint(job, datetime.now(UTC), 600.0, update_of(plans(*costs)))


def finish(service: Service, job: Job) -> None:
    service.store.jobs.end_run(job, datetime.now(UTC), "finished", stopped="budget")


def test_a_run_that_is_over_is_reported_from_the_first_event(service: Service) -> None:
    job = claimed(service)
    find_plans(service, job, (1e-3, 2**20))
    finish(service, job)
    answer = service.http.get(f"/v1/runs/{job.subject}/events")

    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.startswith("retry: 2000\n\n")
    events = reported(answer.text)
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    assert events[0][1:] == ("status", {"status": "queued", "phase": "queued", "attempt": 0, "problem": None})
    assert events[-1][2]["status"] == "succeeded"
    added = next(data for _, kind, data in events if kind == "frontier")["added"]
    shown = service.http.get(f"/v1/runs/{job.subject}/frontier").json()["plans"]
    assert all("lead" in plan for plan in shown), "what depends on all plans is known only at the end"
    assert [{name: plan[name] for name in plan if name != "lead"} for plan in shown] == added


def test_events_are_taken_up_after_the_last_one_seen(service: Service) -> None:
    job = claimed(service)
    finish(service, job)
    path = f"/v1/runs/{job.subject}/events"
    numbers = [number for number, _, _ in reported(service.http.get(path).text)]
    assert numbers == [1, 2, 3]

    def after(**given: Any) -> list[int]:
        return [number for number, _, _ in reported(service.http.get(path, **given).text)]

    assert after(headers={"Last-Event-ID": "1"}) == after(params={"after": 1}) == [2, 3]
    assert after(headers={"Last-Event-ID": "2"}, params={"after": "0"}) == [3]
    ended = service.http.get(path, headers={"Last-Event-ID": "3"})
    assert (ended.status_code, ended.content) == (204, b"")


def test_events_are_reported_as_they_come_and_the_stream_ends_with_the_run(service: Service) -> None:
    job = claimed(service)
    early, late = Watch(service, job.subject), Watch(service, job.subject, after=1)
    eventually(lambda: early.numbers() == [1, 2], SOON_S, "what was there already")
    find_plans(service, job, (1e-3, 2**20))
    eventually(lambda: len(early.numbers()) > 3, SOON_S, "plans that were found")
    assert not early.has_ended
    finish(service, job)
    for watch in (early, late):
        eventually(lambda watch=watch: watch.has_ended, SOON_S, "the end")
    assert early.numbers() == list(range(1, len(early.numbers()) + 1))
    assert late.numbers() == early.numbers()[1:]


def test_a_viewer_of_the_future_gets_everything(service: Service) -> None:
    job = claimed(service)
    watch, other = Watch(service, job.subject, after=999), Watch(service, job.subject)
    eventually(lambda: watch.numbers() == other.numbers() == [1, 2], SOON_S, "both received everything")
    finish(service, job)
    eventually(lambda: watch.has_ended and other.has_ended, SOON_S, "the end")
    assert watch.numbers() == other.numbers() == [1, 2, 3]


def test_events_are_read_and_encoded_once_for_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [claimed(service), claimed(service)]
    read, encoded = [], []
    events, encode = RunWatch.events, feed_module.encoded

    def counted(self: RunWatch, run_id: str, after: int, limit: int) -> Any:
        read.append((run_id, after))
        return events(self, run_id, after, limit)

    def counting(data: Any) -> bytes:
        encoded.append(data)
        return encode(data)

    watches = [Watch(service, job.subject) for job in jobs for _ in range(5)]
    eventually(lambda: all(watch.numbers() == [1, 2] for watch in watches), SOON_S, "ten viewers")
    monkeypatch.setattr(RunWatch, "events", counted)
    monkeypatch.setattr(feed_module, "encoded", counting)
    for job in jobs:
        find_plans(service, job, (1e-3, 2**20))
        finish(service, job)
    eventually(lambda: all(watch.has_ended for watch in watches), SOON_S, "their end")
    numbers = [len(watch.numbers()) for watch in watches]
    assert len(encoded) == sum(numbers[::5]) - 4, "all but the first two of each run, once"
    assert len(read) <= 2 * 5, "at most once per run and write, whoever watches"
    assert len({tuple(watch.numbers()) for watch in watches}) == 1


def test_a_late_viewer_gets_what_is_kept_no_more(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "AT_ONCE", 3)
    monkeypatch.setattr(feed_module, "KEPT_BYTES", 500)
    job = claimed(service)
    early = Watch(service, job.subject)
    for count in range(1, 6):
        find_plans(service, job, (count * 1e-3, 2**20 - count))
    late = Watch(service, job.subject)
    eventually(lambda: len(late.numbers()) > 10, SOON_S, "all so far")
    finish(service, job)
    for watch in (early, late):
        eventually(lambda watch=watch: watch.has_ended, SOON_S, "the end")
    assert early.text == late.text
    assert late.numbers() == list(range(1, len(late.numbers()) + 1))


def test_a_run_that_is_deleted_ends_its_streams(service: Service) -> None:
    job = claimed(service)
    finish(service, job)
    other = claimed(service)
    watch = Watch(service, other.subject)
    eventually(lambda: watch.numbers() == [1, 2], SOON_S, "a viewer")
    with service.store._database.writing() as connection:
        connection.execute(delete(RunRow).where(RunRow.id == other.subject))
    eventually(lambda: watch.has_ended, SOON_S, "the end")


def test_silence_is_filled_with_comments(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    watch = Watch(service, claimed(service).subject)
    eventually(lambda: watch.text.count(": still there\n\n") >= 3, SOON_S, "three heartbeats")
    assert watch.numbers() == [1, 2]


def viewers(service: Service) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("tapestry_event_viewers ")))


def test_a_viewer_who_leaves_is_forgotten(service: Service) -> None:
    job = claimed(service)
    with service.http.stream("GET", f"/v1/runs/{job.subject}/events") as answer:
        texts = answer.iter_text()
        next(texts)
        eventually(lambda: viewers(service) == 1, SOON_S, "one viewer")
    eventually(lambda: viewers(service) == 0, SOON_S, "nobody")


def test_streams_end_when_the_server_does(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        watch = Watch(service, claimed(service).subject)
        eventually(lambda: watch.numbers() == [1, 2], SOON_S, "a viewer")
        began = time.monotonic()
    eventually(lambda: watch.has_ended, 1.0, "a whole stream, ended")
    assert time.monotonic() - began < 9.0  # uvicorn's patience is ten seconds


@pytest.fixture(scope="module")
def waiting(shared: Service) -> Iterator[str]:
    yield f"/v1/runs/{shared.submit().json()['id']}/events"


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "", "9" * 30, "\u0661".encode().decode("latin-1")])
def test_a_last_event_that_is_no_number_is_refused(shared: Service, waiting: str, last: str) -> None:
    answer = shared.http.get(waiting, headers={"Last-Event-ID": last.encode("latin-1")})
    assert complaint(answer, 422, "invalid")["errors"][0]["pointer"] == "#header/Last-Event-ID"


def test_events_of_no_run_are_not_found(shared: Service) -> None:
    complaint(shared.http.get("/v1/runs/0123456789ab/events"), 404, "unknown_id")
    complaint(shared.http.get("/v1/runs/%00/events"), 404, "unknown_id")


OWN = "the key of the settings"


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Start a service with a key that looks up the holders of its streams at short intervals."""
    monkeypatch.setattr(holders_module, "CHECK_S", 0.05)
    with serving(tmp_path, api_key=OWN) as service:
        service.http.headers["Authorization"] = f"Bearer {OWN}"
        yield service


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def logged_in(service: Service, key: str) -> dict[str, str]:
    """Log in with a key; return the cookie of the session."""
    token = service.http.post("/login", data={"key": key}).cookies["tapestry_key"]
    service.http.cookies.clear()
    return {"Cookie": f"tapestry_key={token}"}


def test_a_stream_ends_with_its_key_and_with_no_other(locked: Service) -> None:
    job, keys = claimed(locked), locked.store.keys
    gone, _ = keys.add("gone", "read", locked.now())
    brief, _ = keys.add("brief", "read", locked.now(), locked.now() + timedelta(seconds=2))
    stays, _ = keys.add("stays", "read", locked.now())
    revoked, expiring, other, own = watches = [
        Watch(locked, job.subject, headers=bearer(key)) for key in (gone, brief, stays, OWN)
    ]
    by_cookie = Watch(locked, job.subject, headers=logged_in(locked, gone))
    for watch in (*watches, by_cookie):
        eventually(lambda watch=watch: watch.numbers() == [1, 2], SOON_S, "the stream is open")
    keys.revoke("gone", locked.now())
    for watch in (revoked, by_cookie, expiring):
        eventually(lambda watch=watch: watch.has_ended, SOON_S, "the stream of a key that has ended")
    assert not other.has_ended and not own.has_ended
    finish(locked, job)
    for watch in (other, own):
        eventually(lambda watch=watch: watch.has_ended, SOON_S, "the end of the run")
        assert watch.numbers() == [1, 2, 3]


@pytest.mark.parametrize("key", [OWN, None])
def test_a_stream_ends_with_the_logout(locked: Service, key: str | None) -> None:
    job = claimed(locked)
    given = key or locked.store.keys.add("anna", "read", locked.now())[0]
    first, second = logged_in(locked, given), logged_in(locked, given)
    leaves, stays = (Watch(locked, job.subject, headers=cookie) for cookie in (first, second))
    eventually(lambda: leaves.numbers() == stays.numbers() == [1, 2], SOON_S, "both streams are open")
    httpx.post(f"{locked.address}/logout", headers=first, trust_env=False)
    eventually(lambda: leaves.has_ended, SOON_S, "the stream ends with its session")
    assert not stays.has_ended
    httpx.post(f"{locked.address}/logout", headers=second, trust_env=False)
    eventually(lambda: stays.has_ended, SOON_S, "the other stream ends, too")


def test_holders_are_looked_up_together_and_an_outage_ends_no_stream(
    locked: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, looked_up = claimed(locked), []
    key, stored = locked.store.keys.add("anna", "read", locked.now())
    watches = [Watch(locked, job.subject, headers=bearer(key)) for _ in range(5)]
    cookie = logged_in(locked, key)
    watches.append(Watch(locked, job.subject, headers=cookie))
    for watch in watches:
        eventually(lambda watch=watch: watch.numbers() == [1, 2], SOON_S, "the stream is open")

    def away(self: Keys, prefixes: set[str], tokens: set[str], now: datetime) -> Any:
        looked_up.append((prefixes, tokens))
        raise StoreError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(Keys, "still_valid", away)
        eventually(lambda: len(looked_up) >= 3, SOON_S, "holders were looked up")
    assert looked_up[0] == ({stored.prefix}, {cookie["Cookie"].partition("=")[2]})
    assert not any(watch.has_ended for watch in watches)
    locked.store.keys.revoke("anna", locked.now())
    for watch in watches:
        eventually(lambda watch=watch: watch.has_ended, SOON_S, "the end")
