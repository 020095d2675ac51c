"""Tests of kept answers: encoded once, sent while they are true, and never after a write."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tapestry.service.api.answers import encoded
from tapestry.service.api.kept_answers import FRONTIER, RUN, KeptAnswers, Revisions, Subject
from tapestry.service.store import StoreError
from tests.service.api.conftest import Serve, Service, complaint, serving
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import plans, update_of

LEASE_S = 600.0
A = ("default", "a")


@pytest.fixture
def anywhere(store_url: str) -> Iterator[Service]:
    """Start a service on a database of each kind."""
    with serving(store_url) as service:
        yield service


def both(service: Service, run_id: str) -> tuple[Any, Any]:
    """Return the answers on a run, each requested twice, so that the second comes from what was kept."""
    found = []
    for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/frontier"):
        first, second = service.http.get(path), service.http.get(path)
        assert first.content == second.content
        assert {**first.headers, "x-request-id": "", "date": ""} == {
            **second.headers,
            "x-request-id": "",
            "date": "",
        }
        found.append(second.json())
    return found[0], found[1]


def test_a_write_is_seen_by_the_next_reader(anywhere: Service) -> None:
    run_id = anywhere.submit(objectives=["time_s", "peak_memory_bytes"]).json()["id"]
    run, frontier = both(anywhere, run_id)
    assert (run["status"], frontier["plans"]) == ("queued", [])
    job, now = anywhere.claimed(), datetime.now(UTC)
    assert both(anywhere, run_id)[0]["status"] == "running"
    for count in (1, 2, 3):
        anywhere.store.jobs.checkpoint(job, now, LEASE_S, update_of(plans((count * 1e-3, 2**20 - count))))
        run, frontier = both(anywhere, run_id)
        assert (len(run["history"]), len(frontier["plans"]), run["front"]) == (count, count, count)
    anywhere.http.post(f"/v1/runs/{run_id}/cancel")
    assert both(anywhere, run_id)[0]["cancel_requested"] is True
    anywhere.store.jobs.end_run(job, now, "cancelled", stopped="cancelled")
    run, frontier = both(anywhere, run_id)
    assert (run["status"], frontier["status"], run["cancel_requested"]) == ("cancelled", "cancelled", False)
    assert anywhere.http.delete(f"/v1/runs/{run_id}").status_code == 204
    for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/frontier"):
        complaint(anywhere.http.get(path), 404, "unknown_id")


def test_what_is_kept_is_refused_like_anything_else(service: Service) -> None:
    run_id = service.finished()
    both(service, run_id)
    path = f"/v1/runs/{run_id}"
    complaint(service.http.get(f"{path}?nothing=1"), 422, "invalid")
    complaint(service.http.get(path, headers={"Host": "example.org"}), 421, "unknown_host")
    plain = {"Accept-Encoding": "identity"}
    head, answer = service.http.head(path, headers=plain), service.http.get(path, headers=plain)
    assert (head.content, head.headers["content-length"]) == (b"", str(len(answer.content)))
    assert answer.headers["x-content-type-options"] == "nosniff"
    lines = service.http.get("/metrics").text
    assert 'route="/v1/runs/{run_id}",status="200"' in lines, "counted by its route"


def test_what_is_kept_for_one_tenant_is_nothing_to_another(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tapestry.service.api.keys.KNOWN_S", 0.0)  # there are keys at once
    service = serve()
    mine, other = (
        {"Authorization": f"Bearer {service.store.keys.add(name, 'read', NOON, tenant=name)[0]}"}
        for name in ("ada", "bob")
    )
    run_id = service.store.of("ada").runs.save_finished(finished_run(two_layers()))
    for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/frontier", f"/v1/runs/{run_id}/events"):
        tags = []
        for _ in range(2):  # the second time the answer is kept
            answer = service.http.get(path, headers=mine)
            assert answer.status_code == 200
            tags.append(answer.headers.get("etag", '""'))
            complaint(service.http.get(path, headers=other), 404, "unknown_id")
            complaint(service.http.get(path, headers={**other, "If-None-Match": tags[0]}), 404, "unknown_id")
        assert tags[0] == tags[1]


class Database:
    """Revisions that a test sets, and the queries for them."""

    def __init__(self) -> None:
        self.revisions: dict[str, int] = {}
        self.queries: list[frozenset[str]] = []
        self.changes: int | None = None
        self.is_down = False

    def read(self, subjects: Collection[Subject]) -> dict[Subject, int]:
        self.queries.append(frozenset(run_id for _, run_id in subjects))
        if self.is_down:
            raise StoreError("down")
        return {one: self.revisions[one[1]] for one in subjects if one[1] in self.revisions}


def document(run_id: str) -> dict[str, str]:
    return {"status": run_id}


def long_document(run_id: str) -> dict[str, str]:
    return {"status": run_id * 100}


def test_one_query_answers_all_who_wait_and_one_of_them_builds() -> None:
    database, built = Database(), []
    database.revisions = {"a": 1, "b": 1}

    def build(run_id: str) -> dict[str, Any]:
        built.append(run_id)
        return {"status": run_id, "revision": database.revisions[run_id]}

    async def read() -> None:
        answers = KeptAnswers(Revisions(database.read), lambda: database.changes)
        requests = [answers.get(RUN, ("default", run_id), build) for run_id in "ab" * 20]
        found = await asyncio.gather(*requests)
        assert [answer.content for answer in found[:2]] == [
            b'{"status":"a","revision":1}',
            b'{"status":"b","revision":1}',
        ]
        assert (sorted(built), database.queries) == (["a", "b"], [frozenset("ab")])
        kept = await asyncio.gather(*(answers.find(RUN, A) for _ in range(20)))
        assert {answer and answer.content for answer in kept} == {found[0].content}
        assert (len(built), len(database.queries)) == (2, 2)
        database.revisions["a"] = 2
        assert await answers.find(RUN, A) is None
        assert (await answers.get(RUN, A, build)).content == b'{"status":"a","revision":2}'
        assert await answers.find(FRONTIER, A) is None, "another answer about the same run"
        assert await answers.find(RUN, ("ada", "a")) is None, "the answer of another tenant"
        del database.revisions["a"]
        assert await answers.find(RUN, A) is None, "deleted"
        answers.close()

    asyncio.run(read())


def test_no_query_where_nothing_was_written() -> None:
    database = Database()
    database.revisions, database.changes = {"a": 1}, 7

    async def read() -> None:
        answers = KeptAnswers(Revisions(database.read), lambda: database.changes)
        await answers.get(RUN, A, document)
        for _ in range(3):
            assert await answers.find(RUN, A) is not None
        assert len(database.queries) == 2, "one to make it, one to find it valid"
        database.revisions, database.changes = {"a": 2}, 8
        assert await answers.find(RUN, A) is None
        answers.close()

    asyncio.run(read())


def test_what_shows_a_run_that_waits_is_made_again_for_each() -> None:
    database, built = Database(), []
    database.revisions, database.changes = {"a": 1}, 7

    def build(run_id: str) -> dict[str, Any]:
        built.append(run_id)
        return {"status": "queued", "position": len(built)}

    async def read() -> None:
        answers = KeptAnswers(Revisions(database.read), lambda: database.changes)
        found = [(await answers.get(RUN, A, build)).content for _ in range(2)]
        assert found == [b'{"status":"queued","position":1}', b'{"status":"queued","position":2}']
        assert await answers.find(RUN, A) is None
        answers.close()

    asyncio.run(read())


def test_what_was_not_used_for_longest_makes_room() -> None:
    database = Database()
    database.revisions = dict.fromkeys("abc", 1)

    async def read() -> None:
        answers = KeptAnswers(
            Revisions(database.read), lambda: None, limit_bytes=2 * len(encoded(long_document("a"))) + 1
        )
        for run_id in "ab":
            await answers.get(RUN, ("default", run_id), long_document)
        assert await answers.find(RUN, A) is not None
        await answers.get(RUN, ("default", "c"), long_document)
        assert [await answers.find(RUN, ("default", run_id)) is not None for run_id in "abc"] == [
            True,
            False,
            True,
        ]
        answers.close()

    asyncio.run(read())


def test_a_database_that_is_down_is_reported_to_all_who_wait() -> None:
    database = Database()
    database.is_down = True

    async def read() -> None:
        answers = KeptAnswers(Revisions(database.read), lambda: None)
        requests = [answers.get(RUN, A, document) for _ in range(3)]
        found = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(error) for error in found] == [StoreError] * 3
        database.is_down, database.revisions = False, {"a": 1}
        assert (await answers.get(RUN, A, document)).content == b'{"status":"a"}'
        answers.close()

    asyncio.run(read())
