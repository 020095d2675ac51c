"""Tests of ETags: a content that the client has already is not sent again, and a changed one is."""

from __future__ import annotations

import pytest

from tests.service.api.conftest import Service


@pytest.mark.parametrize(
    "path",
    [
        "/v1/graphs",
        "/v1/graphs/{graph}",
        "/v1/graphs/{graph}/document",
        "/v1/runs",
        "/v1/runs/{run}",
        "/v1/runs/{run}/mesh",
        "/v1/runs/{run}/frontier",
        "/v1/plans/{plan}",
        "/v1/plans/{plan}/moves",
        pytest.param("/v1/plans/{plan}/explanation", marks=pytest.mark.slow),
        "/v1/plans/{plan}/graph",
        "/v1/plans/{plan}/sharding",
        "/v1/plans/{plan}/schedule",
        "/v1/plans/{plan}/memory",
        "/v1/plans/{plan}/alternatives?block=y",
        "/v1/meshes",
        "/v1/meshes/dgx-h100",
    ],
)
def test_what_is_known_already_is_not_sent_again(shared: Service, path: str) -> None:
    run = shared.finished()
    plan = shared.http.get(f"/v1/runs/{run}/frontier").json()["plans"][0]["id"]
    address = path.format(graph=shared.graph(), run=run, plan=plan)
    first = shared.http.get(address)
    tag = first.headers["etag"]
    assert first.headers["cache-control"].startswith("private")
    for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = shared.http.get(address, headers={"If-None-Match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = shared.http.get(address, headers={"If-None-Match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_what_changed_is_sent(service: Service) -> None:
    path = service.submit().headers["location"]
    tag = service.http.get(path).headers["etag"]
    service.http.post(f"{path}/cancel")
    answer = service.http.get(path, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


def test_packed_and_plain_are_two_contents(shared: Service) -> None:
    path = f"/v1/graphs/{shared.graph()}/document"
    tags = {
        shared.http.get(path, headers={"Accept-Encoding": kind}).headers["etag"]
        for kind in ("gzip", "identity")
    }
    assert len(tags) == 2
    assert shared.http.get(path).headers["vary"] == "Accept-Encoding"


def test_what_is_refused_or_was_just_made_is_not_kept(service: Service) -> None:
    for answer in (service.submit(), service.http.get("/v1/nothing"), service.http.get("/healthz")):
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/v1/runs/{run}", "/v1/runs/{run}/frontier", "/v1/plans/{plan}", "/v1/objectives"]
)
def test_large_answers_are_gzipped_for_those_who_take_gzip(shared: Service, path: str) -> None:
    run = shared.finished()
    plan = shared.http.get(f"/v1/runs/{run}/frontier").json()["plans"][0]["id"]
    address = path.format(run=run, plan=plan)
    for _ in range(2):  # the second time, that of a run is kept
        plain, small = (
            shared.http.get(address, headers={"Accept-Encoding": kind}) for kind in ("identity", "br, gzip")
        )
        assert (plain.headers.get("content-encoding"), small.headers["content-encoding"]) == (None, "gzip")
        assert small.content == plain.content
        assert int(small.headers["content-length"]) < len(plain.content) / 2
        assert {answer.headers["vary"] for answer in (plain, small)} == {"Accept-Encoding"}
        assert small.headers["etag"] != plain.headers["etag"]
        known = {"Accept-Encoding": "gzip", "If-None-Match": plain.headers["etag"]}
        assert shared.http.get(address, headers=known).status_code == 200, "it has that of the other encoding"


def test_small_answers_and_events_are_sent_as_they_are(shared: Service) -> None:
    run = shared.finished()
    for path in ("/healthz", "/v1/objectives/time_s", f"/v1/runs/{run}/events"):
        answer = shared.http.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200 and "content-encoding" not in answer.headers
