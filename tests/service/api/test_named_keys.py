"""Tests of keys with names: what each scope may do, revocation, sessions that are replayed, and wrong keys."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from tapestry.service.api import keys
from tapestry.service.api.keys import AT_ONCE, KNOWN_S, MOST_WAITING, WrongKeys
from tapestry.service.store import KeyScope, StoreError
from tapestry.service.store.keys import Keys
from tests.service.api.conftest import Service, complaint, serving
from tests.service.processes import eventually


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def key_of(service: Service, scope: KeyScope, name: str = "ci") -> dict[str, str]:
    """Make a key, and wait until the service knows that there are some; return its header."""
    text, _ = service.store.keys.add(name, scope, datetime.now(UTC))
    eventually(lambda: service.http.get("/v1/runs").status_code == 401, 10, "the service is locked")
    return bearer(text)


def is_refused(service: Service, headers: dict[str, str]) -> bool:
    return service.http.get("/v1/runs", headers=headers).status_code == 401


def test_a_first_key_locks_an_service(service: Service) -> None:
    assert service.http.get("/v1/runs").status_code == 200
    headers = key_of(service, "read")
    complaint(service.http.get("/v1/runs"), 401, "unauthorized")
    assert service.http.get("/v1/runs", headers=headers).status_code == 200
    assert service.http.get("/healthz").status_code == 200


@pytest.mark.parametrize(("scope", "allowed"), [("read", 1), ("submit", 2), ("admin", 3)])
def test_a_scope_allows_what_it_says(service: Service, scope: KeyScope, allowed: int) -> None:
    body, run_id = service.request(), service.finished()
    headers = key_of(service, scope)
    answers = [
        service.http.get("/v1/runs", headers=headers),
        service.http.post("/v1/runs", json=body, headers=headers),
        service.http.delete(f"/v1/runs/{run_id}", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [200, 202, 204][:allowed] + [403] * (3 - allowed)
    for answer in answers[allowed:]:
        assert complaint(answer, 403, "insufficient_scope")["detail"].startswith(
            f"the key 'ci' has the scope {scope!r}; this needs"
        )
    layout = service.http.post("/v1/layouts/describe", json={"text": "f32[8,16]{1,0}"}, headers=headers)
    assert layout.status_code == 200  # it leaves nothing
    assert service.http.head("/v1/runs", headers=headers).status_code == 200


def test_only_the_operator_goes_before_all_tenants(service: Service) -> None:
    """Check that whoever may submit runs may lower their priority, and not raise it above that of others."""
    run = service.submit().json()["id"]
    service.store.keys.add("theirs", "admin", datetime.now(UTC), tenant="theirs")
    submit, operator = key_of(service, "submit"), key_of(service, "admin", "operator")
    lowered = service.http.patch(f"/v1/runs/{run}", json={"priority": -1}, headers=submit)
    assert lowered.json()["priority"] == -1
    body = service.request(priority=1)
    for refused in (
        service.http.patch(f"/v1/runs/{run}", json={"priority": 1}, headers=submit),
        service.http.post("/v1/runs", json=body, headers=submit),
    ):
        assert "go before the runs of all tenants" in complaint(refused, 403, "insufficient_scope")["detail"]
    raised = service.http.patch(f"/v1/runs/{run}", json={"priority": 1}, headers=operator)
    assert raised.json()["priority"] == 1


def test_a_key_that_is_revoked_or_has_expired_is_refused_soon(service: Service) -> None:
    other = key_of(service, "read", "other")
    headers = key_of(service, "admin")
    brief, _ = service.store.keys.add(
        "brief", "read", datetime.now(UTC), datetime.now(UTC) + timedelta(seconds=1)
    )
    assert service.http.get("/v1/runs", headers=headers).status_code == 200
    service.store.keys.revoke("ci", datetime.now(UTC))
    for gone in (headers, bearer(brief)):
        eventually(partial(is_refused, service, gone), KNOWN_S + 10, "the key is refused")
    assert service.http.get("/v1/runs", headers=other).status_code == 200


def test_a_session_ends_with_the_logout_and_cannot_be_replayed(service: Service) -> None:
    text, _ = service.store.keys.add("anna", "submit", datetime.now(UTC))
    eventually(lambda: service.http.get("/v1/runs").status_code == 401, 10, "the service is locked")
    answer = service.http.post("/login", data={"key": text, "next": "/runs"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
    token = service.http.cookies["tapestry_key"]
    assert token not in text and text not in answer.headers["set-cookie"]
    assert service.http.get("/v1/runs").status_code == 200
    complaint(service.http.delete("/v1/runs/0123456789ab"), 403, "insufficient_scope")
    service.http.post("/logout")
    service.http.cookies.clear()
    complaint(service.http.get("/v1/runs", headers={"Cookie": f"tapestry_key={token}"}), 401, "unauthorized")


def test_a_session_ends_when_its_key_expires(service: Service) -> None:
    key_of(service, "read", "other")
    ends_at = datetime.now(UTC) + timedelta(seconds=2)
    text, _ = service.store.keys.add("brief", "read", datetime.now(UTC), ends_at)
    token = service.http.post("/login", data={"key": text}).cookies["tapestry_key"]
    cookie = {"Cookie": f"tapestry_key={token}"}
    service.http.cookies.clear()
    eventually(partial(is_refused, service, cookie), 10, "the session has ended")
    assert datetime.now(UTC) >= ends_at


def test_a_session_of_the_settings_key_ends_when_that_changes(tmp_path: Path) -> None:
    with serving(tmp_path, api_key="the first of two keys") as first:
        first.http.post("/login", data={"key": "the first of two keys"})
        token = first.http.cookies["tapestry_key"]
        assert first.http.get("/v1/runs").status_code == 200
    with serving(tmp_path, api_key="the second of two keys") as second:
        answer = second.http.get("/v1/runs", headers={"Cookie": f"tapestry_key={token}"})
        complaint(answer, 401, "unauthorized")


def test_nobody_is_let_in_while_the_database_is_away(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "KNOWN_S", 0.0)
    headers = key_of(service, "admin")

    def away(*_: object) -> None:
        raise StoreError("a secret of the database")

    monkeypatch.setattr(Keys, "any_valid", away)
    monkeypatch.setattr(Keys, "identify", away)
    for given in ({}, headers, bearer("wrong")):
        refused = complaint(service.http.get("/v1/runs", headers=given), 503, "unavailable")
        assert refused["detail"] == "the database does not answer"
    assert service.http.get("/healthz").status_code == 200


def test_wrong_keys_are_answered_ever_more_slowly(service: Service) -> None:
    right = key_of(service, "read")
    with patch.object(keys, "LONGEST_PAUSE_S", 0.3):
        took = []
        for number in range(AT_ONCE + 5):
            began = time.monotonic()
            complaint(service.http.get("/v1/runs", headers=bearer(f"wrong {number}")), 401, "unauthorized")
            took.append(time.monotonic() - began)
    assert min(took[-2:]) >= 0.3
    assert service.http.get("/v1/runs", headers=right).status_code == 200


def test_few_wrong_keys_wait_at_once() -> None:
    """Check many at once from one address, and one from another."""

    async def many() -> list[bool]:
        wrong = WrongKeys()
        with patch.object(keys, "LONGEST_PAUSE_S", 0.05):
            first = await asyncio.gather(
                *(wrong.pause("10.0.0.1") for _ in range(AT_ONCE + MOST_WAITING + 3))
            )
            return [*first, await wrong.pause("10.0.0.2")]

    found = asyncio.run(many())
    assert found == [True] * (AT_ONCE + MOST_WAITING) + [False] * 3 + [True]


def test_a_key_in_a_path_is_not_logged_and_a_stranger_has_no_tenant(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tapestry.api")
    with serving(tmp_path, api_key="the key of the operator") as service:
        key, stored = service.store.keys.add("a", "read", datetime.now(UTC))
        assert service.http.get(f"/v1/runs/{key}").status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        assert service.http.get(f"/v1/imports/{'0' * 12}", headers=headers).status_code == 404
    stranger, known = (record for record in caplog.records if record.name == "tapestry.api")
    assert key not in caplog.text and f"tapestry_{stored.prefix}_..." in stranger.getMessage()
    assert not hasattr(stranger, "tenant")
    assert (vars(known)["tenant"], vars(known)["import_id"]) == ("default", "0" * 12)
