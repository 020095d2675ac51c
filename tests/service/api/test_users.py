"""Tests of users: what tenants see over HTTP, a proxy's word, rates, and the audit log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from benchmarks.tenant_probes import COMMON, TenantProbe, plain, probes, request, unknown_like
from tapestry.service.api.rates import TokenBucket
from tapestry.service.api.task_pool import TaskPool
from tapestry.service.settings import ProxyIdentity, Rates, SettingsError, service_settings
from tapestry.service.store import AuditLine, Store, StoreError
from tests.service.api.conftest import Service, complaint, serving
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.test_tenants import TENSOR, World, fill

SECRET = "a secret of the proxy only"


def key_of(service: Service, tenant: str, scope: Any = "admin") -> dict[str, str]:
    """Make a key of a tenant and return its header."""
    key, _ = service.store.keys.add(f"{tenant} {scope}", scope, datetime.now(UTC), tenant=tenant)
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def anywhere(store_url: str) -> Iterator[Service]:
    """Start a service that wants a key on a database of each kind."""
    with serving(store_url, api_key="the key of the operator") as service:
        yield service


def ids_of(world: World, mine: str) -> dict[str, str]:
    ids = {"graph_id": world.graph, "run_id": world.run, "plan_id": world.plan, "name": TENSOR}
    ids |= {"execution_id": world.execution, "batch_id": world.batch, "import_id": world.imported}
    ids |= {"measurement_id": world.measurement}
    return ids | {"GRAPH": world.graph, "RUN": world.run, "TENSOR": TENSOR, "MINE": mine}


def test_whatever_is_requested_with_ids_of_others_is_answered_as_with_unknown_ones(anywhere: Service) -> None:
    world = fill(anywhere.store, "ada")
    mine = anywhere.store.of("bob").graphs.save(two_layers(), NOON).id
    headers = key_of(anywhere, "bob")
    ids = ids_of(world, mine)
    ada = key_of(anywhere, "ada")
    assert anywhere.http.get(f"/v1/imports/{world.imported}", headers=ada).status_code == 200
    with httpx.Client(base_url=anywhere.address, headers=headers, timeout=30, verify=False) as http:
        document = http.get("/openapi.json").json()
        found: list[TenantProbe] = list(probes(document))
        assert len(found) >= 35
        for of in (ids, unknown_like(ids)):  # no path is wrong for both for want of an id
            assert set(re.findall(r"{(\w+)", " ".join(document["paths"]))) <= {*of, *COMMON}
        for probe in found:
            unknown = unknown_like(ids) | {"name": "bob-w", "TENSOR": "bob-w"}
            answers = [plain(request(http, probe, of)[0], of) for of in (ids, unknown)]
            assert answers[0] == answers[1], probe.name
            usual = {"post /v1/batches": (202,), "get /v1/runs?graph_id": (200,)}
            refused = (403, 404) if probe.method == "patch" else (404, 422)  # the priority is the operator's
            assert answers[0][0] in usual.get(probe.name, refused), probe.name
        for path in ("/v1/graphs", "/v1/tensors"):
            assert world.graph not in http.get(path).text
        assert http.get("/v1/tensors").json() == {"items": []}
        assert http.get("/v1/runs").json()["items"] == []
        assert http.get("/v1/learned").json()["prior"] == 0
        document = http.get(f"/v1/graphs/{mine}/document").json()
        assert http.post("/v1/graphs", json=document).json()["id"] == mine
    here = anywhere.http.post("/v1/graphs", json=document, headers=ada).json()["id"]
    assert here == world.graph
    answer = anywhere.http.post("/v1/graphs", json=document, headers=key_of(anywhere, "eve"))
    assert answer.status_code == 201 and answer.json()["id"] not in (mine, world.graph)


def test_kept_answers_are_for_their_tenant(anywhere: Service) -> None:
    run_id = anywhere.store.of("ada").runs.save_finished(finished_run(two_layers()))
    ada, bob, path = key_of(anywhere, "ada"), key_of(anywhere, "bob"), f"/v1/runs/{run_id}"
    for _ in range(2):
        assert anywhere.http.get(path, headers=ada).status_code == 200
        complaint(anywhere.http.get(path, headers=bob), 404, "unknown_id")


def test_tasks_have_places_and_turns_of_the_tenant_that_sends_them(
    anywhere: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants, run = list[str](), TaskPool.run

    def noted(self: TaskPool, tenant: str, *rest: Any) -> Any:
        tenants.append(tenant)
        return run(self, tenant, *rest)

    monkeypatch.setattr(TaskPool, "run", noted)
    for tenant in ("ada", "bob"):
        headers = key_of(anywhere, tenant)
        graph_id = anywhere.store.of(tenant).graphs.save(two_layers(), NOON).id
        for path in (f"/v1/graphs/{graph_id}/rewrites", f"/v1/graphs/{graph_id}/drawing"):
            assert anywhere.http.get(path, headers=headers).status_code == 200
    assert tenants == ["ada", "ada", "bob", "bob"]


def test_figures_of_all_tenants_are_for_the_operator(anywhere: Service) -> None:
    for headers in (key_of(anywhere, "ada"), key_of(anywhere, "default", "submit")):
        complaint(anywhere.http.get("/metrics", headers=headers), 403, "insufficient_scope")
    assert anywhere.http.get("/metrics", headers=key_of(anywhere, "default")).status_code == 200


def test_a_proxy_with_the_secret_names_its_user(tmp_path: Path) -> None:
    with serving(tmp_path, proxy=ProxyIdentity(SECRET)) as service:
        run_id = service.store.of("ada").runs.save_finished(finished_run(two_layers()))
        known = {"X-Tapestry-Proxy-Secret": SECRET, "X-Tapestry-User": "Ada"}
        of_ada = known | {"X-Tapestry-Tenant": "ada"}
        get = service.http.get
        complaint(get("/v1/runs"), 401, "unauthorized")  # the service is locked
        assert [run["id"] for run in get("/v1/runs", headers=of_ada).json()["items"]] == [run_id]
        assert get("/v1/runs", headers=known).json()["items"] == []
        body = {"graph_id": "0" * 32, "mesh": "dgx-h100"}
        complaint(service.http.post("/v1/runs", json=body, headers=of_ada), 403, "insufficient_scope")
        submits = of_ada | {"X-Tapestry-Scope": "submit"}
        complaint(service.http.post("/v1/runs", json=body, headers=submits), 422, "invalid")
        for wrong in (
            {"X-Tapestry-User": "Ada"},
            of_ada | {"X-Tapestry-Proxy-Secret": SECRET[:-1]},
            of_ada | {"X-Tapestry-Tenant": "A B"},
            of_ada | {"X-Tapestry-Scope": "root"},
            {"X-Tapestry-Proxy-Secret": SECRET},
        ):
            complaint(get("/v1/runs", headers=wrong), 401, "unauthorized")
        (line,) = [line for line in service.store.audit.page() if line.outcome == "failed"]
        assert (line.actor, line.tenant, line.status) == ("proxy:Ada", "ada", 422)


@pytest.mark.parametrize("repeated", ["Proxy-Secret", "User", "Tenant", "Scope"])
def test_an_identity_that_is_stated_twice_is_refused(tmp_path: Path, repeated: str) -> None:
    stated = {"Proxy-Secret": SECRET, "User": "Ada", "Tenant": "ada", "Scope": "read"}
    once = [(f"X-Tapestry-{name}", value) for name, value in stated.items()]
    twice = (f"x-tapestry-{repeated.lower()}", stated[repeated])
    with serving(tmp_path, proxy=ProxyIdentity(SECRET), api_key="the key of the operator") as service:
        assert service.http.get("/v1/runs", headers=once).status_code == 200
        for headers in ([*once, twice], [twice, *once]):
            answer = service.http.get("/v1/runs", headers=headers)
            assert "is there more than once" in complaint(answer, 401, "unauthorized")["detail"]
        own = ("Authorization", "Bearer the key of the operator")
        complaint(service.http.get("/v1/runs", headers=[own, twice, twice]), 401, "unauthorized")


def test_without_the_secret_nobody_is_believed(service: Service) -> None:
    service.store.of("ada").runs.save_finished(finished_run(two_layers()))
    given = {"X-Tapestry-User": "Ada", "X-Tapestry-Tenant": "ada", "X-Tapestry-Proxy-Secret": SECRET}
    assert service.http.get("/v1/runs", headers=given).json()["items"] == []
    with pytest.raises(SettingsError, match="TAPESTRY_PROXY_SECRET is too short"):
        service_settings({"TAPESTRY_PROXY_SECRET": "short"})


def test_settings_of_the_proxy_and_of_rates_come_from_the_environment() -> None:
    named = {"TAPESTRY_PROXY_SECRET": SECRET, "TAPESTRY_PROXY_USER_HEADER": "Remote-User"}
    found = service_settings(
        {**named, "TAPESTRY_REQUESTS_PER_SECOND": "7", "TAPESTRY_SUBMISSIONS_PER_SECOND": "0"}
    )
    assert found.proxy == ProxyIdentity(SECRET, "Remote-User") and SECRET not in repr(found)
    assert found.rates == Rates(7.0, 0.0)
    for wrong in ("-1", "nan", "inf", "many"):
        with pytest.raises(SettingsError, match="TAPESTRY_REQUESTS_PER_SECOND is a number of at least 0"):
            service_settings({"TAPESTRY_REQUESTS_PER_SECOND": wrong})


def test_a_bucket_fills_at_its_rate_up_to_its_size() -> None:
    bucket = TokenBucket("submissions", 0.5, float("inf"), 0.0)
    assert [bucket.take(0.0) for _ in range(6)] == [0, 0, 0, 0, 0, 2.0]
    assert bucket.headers() == {
        "RateLimit-Policy": '"submissions";q=5;w=10',
        "RateLimit": '"submissions";r=0;t=10',
    }
    assert (bucket.take(1.0), bucket.take(2.0), bucket.take(2.0)) == (1.0, 0, 2.0)
    assert [bucket.take(1000.0) for _ in range(6)][-2:] == [0, 2.0]


def test_what_a_key_sends_beyond_its_rate_is_refused_and_other_keys_are_not(tmp_path: Path) -> None:
    with serving(tmp_path, api_key="the key of the operator", rates=Rates(0.2, 0.1)) as service:
        first, second = key_of(service, "ada"), key_of(service, "bob")
        answers = [service.http.get("/v1/runs", headers=first) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[0].headers["ratelimit"] == '"requests";r=1;t=5'
        detail = complaint(answers[2], 429, "rate_limited")["detail"]
        assert detail.startswith("this key may send 0.2 requests per second, and 2 at once")
        assert 1 <= int(answers[2].headers["retry-after"]) <= 5
        assert service.http.get("/v1/runs", headers=second).status_code == 200
        posts = [service.http.post("/v1/runs", json={}, headers=first) for _ in range(2)]
        assert [answer.status_code for answer in posts] == [422, 429]
        refused = [line for line in service.store.audit.page() if line.status == 429]
        assert [(line.action, line.outcome, line.tenant) for line in refused] == [
            ("POST /v1/runs", "refused", "ada")
        ]


def test_logins_beyond_the_rate_of_their_key_are_refused_and_begin_no_session(tmp_path: Path) -> None:
    with serving(tmp_path, api_key="the key of the operator", rates=Rates(0.2, 0.1)) as service:
        first, second = (key_of(service, name)["Authorization"].split()[1] for name in ("ada", "bob"))
        assert service.http.post("/login", data={"key": first}).status_code == 303
        service.http.cookies.clear()
        refused = service.http.post("/login", data={"key": first})
        complaint(refused, 429, "rate_limited")
        assert 1 <= int(refused.headers["retry-after"]) <= 10
        assert "set-cookie" not in refused.headers
        assert service.http.post("/login", data={"key": second}).status_code == 303
        (line,) = [line for line in service.store.audit.page() if line.status == 429]
        assert (line.action, line.outcome, line.tenant) == ("POST /login", "refused", "ada")


def test_the_audit_log_names_who_did_what(anywhere: Service) -> None:
    ada, reader = key_of(anywhere, "ada"), key_of(anywhere, "ada", "read")
    prefix = ada["Authorization"].split("_")[1]
    graph_id = anywhere.store.of("ada").graphs.save(two_layers(), NOON).id
    body = {"graph_id": graph_id, "mesh": "dgx-h100"}
    named = {**ada, "X-Request-ID": "mine"}
    run_id = anywhere.http.post("/v1/runs", json=body, headers=named).json()["id"]
    anywhere.http.post(f"/v1/runs/{run_id}/cancel", headers=ada)
    anywhere.http.delete(f"/v1/runs/{run_id}", headers=reader)
    anywhere.http.delete(f"/v1/runs/{run_id}", headers=ada)
    anywhere.http.get("/v1/runs", headers={"Authorization": "Bearer wrong"})
    anywhere.http.get("/v1/runs")  # reads without a key: only sent to the login
    anywhere.http.post("/login", data={"key": "wrong"})
    login = anywhere.http.post("/login", data={"key": ada["Authorization"].split()[1]})
    anywhere.http.cookies.clear()
    assert login.status_code == 303
    lines = anywhere.http.get("/v1/audit", headers=ada).json()
    shown = [(line["action"], line["subject"], line["outcome"], line["status"]) for line in lines["items"]]
    other = reader["Authorization"].split("_")[1]
    assert shown == [
        ("POST /login", "", "done", 303),
        ("DELETE /v1/runs/{run_id}", run_id, "done", 204),
        (f"DELETE /v1/runs/{run_id}", "", "refused", 403),
        ("POST /v1/runs/{run_id}/cancel", run_id, "done", 202),
        ("POST /v1/runs", run_id, "done", 202),
        ("add key", f"{other} ada read", "done", None),
        ("add key", f"{prefix} ada admin", "done", None),
    ]
    submission = lines["items"][4]
    assert (submission["actor"], submission["request_id"]) == (prefix, "mine")
    assert (submission["address"], submission["tenant"]) == ("127.0.0.1", "ada")
    complaint(anywhere.http.get("/v1/audit", headers=reader), 403, "insufficient_scope")
    operator = {"Authorization": "Bearer the key of the operator"}
    whole = anywhere.http.get("/v1/audit?limit=3", headers=operator).json()
    assert [(line["action"], line["actor"], line["outcome"]) for line in whole["items"]] == [
        ("GET /v1/audit", other, "refused"),
        ("POST /login", prefix, "done"),
        ("POST /login", "nobody", "refused"),
    ]
    rest = anywhere.http.get(f"/v1/audit?before={whole['next']}", headers=operator).json()
    assert rest["next"] is None and len(rest["items"]) == len(lines["items"])
    since = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert anywhere.http.get("/v1/audit", params={"since": since}, headers=operator).json()["items"] == []


def test_a_wrong_key_is_logged_only_where_one_was_shown(service: Service) -> None:
    service.store.keys.add("x", "read", datetime.now(UTC))
    with serving(service.store.address.url, api_key="the key of the operator") as locked:
        locked.http.get("/v1/runs")
        locked.http.get("/v1/runs", headers={"Authorization": "Bearer wrong"})
        lines = [line for line in locked.store.audit.page() if line.status is not None]
    assert [(line.action, line.actor, line.tenant, line.outcome) for line in lines] == [
        ("GET /v1/runs", "nobody", None, "refused")
    ]


def test_foreign_origins_and_hosts_are_in_the_audit_log(service: Service) -> None:
    service.http.post("/v1/runs", json={}, headers={"Origin": "https://example.org"})
    service.http.get("/v1/runs", headers={"Host": "example.org"})
    service.http.get("/v1/runs", headers={"Origin": "https://example.org"})  # it is answered
    lines = service.store.audit.page()
    assert [(line.action, line.status, line.outcome, line.actor, line.tenant) for line in lines] == [
        ("GET /v1/runs", 421, "refused", "nobody", None),
        ("POST /v1/runs", 403, "refused", "nobody", None),
    ]
    assert all(line.address == "127.0.0.1" and line.request_id for line in lines)


def test_no_path_keeps_a_refusal_out_of_the_audit_log(anywhere: Service) -> None:
    for path in ("/v1/%00", "/v1/%ff", "/v1/%ed%a0%80"):
        answer = anywhere.http.post(path, headers={"Origin": "https://example.org"})
        complaint(answer, 403, "cross_site")
    assert [line.status for line in anywhere.store.audit.page()] == [403] * 3


def test_a_flood_of_refusals_leaves_few_lines(service: Service) -> None:
    with serving(service.store.address.url, api_key="the key of the operator") as locked:
        key, _ = locked.store.keys.add("r", "read", datetime.now(UTC))
        headers, began = {"Authorization": f"Bearer {key}"}, time.monotonic()
        for _ in range(30):
            complaint(locked.http.delete("/v1/runs/0", headers=headers), 403, "insufficient_scope")
        refused = [line for line in locked.store.audit.page(100) if line.status == 403]
        assert 10 <= len(refused) <= 11 + time.monotonic() - began


def test_the_database_refuses_changes_of_the_audit_log(store_url: str) -> None:
    store = Store(store_url)
    for day in (1, 2, 3):
        store.audit.append(AuditLine(NOON + timedelta(days=day), "ada", "me", "x" * 1000))
    with (
        pytest.raises(StoreError, match="rows of the audit log are never changed"),
        store._database.writing() as connection,
    ):
        connection.execute(text("UPDATE audit SET actor = 'nobody'"))
    assert {(line.actor, line.action) for line in store.audit.page()} == {("me", "x" * 300)}
    until = NOON + timedelta(days=2)
    assert (store.audit.forget(until, dry=True), store.audit.forget(until)) == (1, 1)
    assert [line.number for line in store.audit.page()] == [3, 2]
    store.close()
