"""Tests of quotas and of space: what goes beyond is refused in time, with what would help; the rest goes on."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator
from datetime import UTC, datetime
from unittest.mock import patch

import numpy as np
import pytest

from tapestry.service.api.space import LOOKED_S, SpaceLeft
from tapestry.service.settings import Limits, SettingsError, service_settings
from tapestry.service.store import QuotaExceeded, QuotaLimits, Store, StoreError, TenantSpace, TensorValue
from tests.service.api.conftest import Service, complaint, serving
from tests.service.conftest import Run
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

DAY_S = 86_400


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = Store(store_url)
    yield opened
    opened.close()


def test_a_tenant_has_as_many_jobs_as_it_may(store: Store) -> None:
    store.tenants.set_limits("ada", QuotaLimits(jobs=2), NOON)
    graphs = {tenant: store.of(tenant).graphs.save(two_layers(), NOON).id for tenant in ("ada", "bob")}
    for seed in (1, 2):
        store.of("ada").runs.submit(request_for(graphs["ada"], seed=seed), NOON)
    with pytest.raises(
        QuotaExceeded, match="the quota 'jobs' of this tenant is 2, of which 2 are used"
    ) as error:
        store.of("ada").runs.submit(request_for(graphs["ada"], seed=3), NOON)
    assert error.value.retry_after_s is not None
    assert store.of("ada").quotas.use(NOON).jobs == 2
    store.of("bob").runs.submit(request_for(graphs["bob"]), later(1))
    job = store.jobs.claim("worker", NOON, LEASE_S)
    assert job is not None and job.tenant == "ada"
    with pytest.raises(QuotaExceeded):  # what is under way counts, too
        store.of("ada").runs.submit(request_for(graphs["ada"], seed=3), NOON)
    store.jobs.end_run(job, NOON, "finished", stopped="budget")
    store.of("ada").runs.submit(request_for(graphs["ada"], seed=3), NOON)


def test_the_seconds_of_a_day_are_those_that_ended_and_those_that_are_expected(store: Store) -> None:
    store.tenants.set_limits("ada", QuotaLimits(search_seconds=25.0), NOON)
    mine = store.of("ada")
    graph = mine.graphs.save(two_layers(), NOON).id
    mine.runs.submit(request_for(graph), NOON)  # 10 s each
    mine.runs.submit(request_for(graph, seed=1), NOON)
    with pytest.raises(QuotaExceeded, match="expected to take 10") as refused:
        mine.runs.submit(request_for(graph, seed=2), NOON)
    assert (refused.value.used, refused.value.limit) == (20.0, 25.0)
    job = store.jobs.claim("worker", NOON, LEASE_S)
    assert job is not None
    store.jobs.checkpoint(job, later(1), LEASE_S, update_of(plans((1e-3, 1024))))  # after 1 s of search
    store.jobs.end_run(job, later(60), "finished", stopped="budget")
    assert mine.quotas.use(later(60)).search_seconds == 11.0
    mine.runs.submit(request_for(graph, seed=2), later(60))
    with pytest.raises(QuotaExceeded) as refused:
        mine.runs.submit(request_for(graph, seed=3), later(160))
    assert refused.value.retry_after_s == DAY_S - 100
    assert mine.quotas.use(later(61 + DAY_S)).search_seconds == 20.0


def test_bytes_are_those_of_runs_programs_and_tensors(store: Store) -> None:
    mine = store.of("ada")
    assert mine.quotas.use(NOON).stored_bytes == 0
    mine.tensors.put({"w": TensorValue.of(np.ones(100, np.float32))}, NOON)
    assert mine.quotas.use(NOON).stored_bytes == 400
    run_id = mine.runs.save_finished(finished_run(two_layers()))
    document = len(mine.graphs.document(mine.runs.get(run_id).graph_id))
    runs = sum(mine.deletions.run_sizes().values())
    assert mine.quotas.use(NOON).stored_bytes == 400 + document + runs and runs > 0
    assert mine.quotas.space(NOON) is None
    store.tenants.set_limits("ada", QuotaLimits(stored_bytes=400), NOON)
    space = mine.quotas.space(NOON)
    assert space == TenantSpace(400 + document + runs, 400) and store.of("bob").quotas.space(NOON) is None
    with pytest.raises(QuotaExceeded, match="delete runs, programs or tensors"):
        space.require()


def test_what_exceeds_a_quota_is_answered_with_figures_and_deletions_go_on(store_url: str) -> None:
    at_once = patch("tapestry.service.api.space.LOOKED_S", 0.0)
    with at_once, serving(store_url, api_key="the key of the operator") as service:
        key, _ = service.store.keys.add("a", "admin", datetime.now(UTC), tenant="ada")
        headers = {"Authorization": f"Bearer {key}"}
        mine = service.store.of("ada")
        graph = mine.graphs.save(two_layers(), NOON).id
        service.store.tenants.set_limits("ada", QuotaLimits(jobs=1), datetime.now(UTC))
        body = {"graph_id": graph, "mesh": "dgx-h100"}
        run_id = service.http.post("/v1/runs", json=body, headers=headers).json()["id"]
        again = service.http.post("/v1/runs", json={**body, "seed": 1}, headers=headers)
        problem = complaint(again, 429, "quota_exceeded")
        assert (problem["limit"], problem["used"]) == ({"jobs": 1}, {"jobs": 1})
        assert int(again.headers["retry-after"]) > 0
        quotas = service.http.get("/v1/quota", headers=headers).json()
        assert quotas["tenant"] == "ada"
        assert quotas["quotas"][0] == {"name": "jobs", "limit": 1, "used": 1}
        service.store.tenants.set_limits("ada", QuotaLimits(stored_bytes=1), datetime.now(UTC))
        refused = service.http.put("/v1/tensors/w", content=b"x", headers=headers)
        for answer in (refused, service.http.post("/v1/runs", json=body, headers=headers)):
            assert complaint(answer, 403, "quota_exceeded")["limit"] == {"stored_bytes": 1}
        assert service.http.post(f"/v1/runs/{run_id}/cancel", headers=headers).status_code == 202
        assert service.http.delete(f"/v1/runs/{run_id}", headers=headers).status_code == 204
        assert service.http.delete(f"/v1/graphs/{graph}", headers=headers).status_code == 204
        service.store.tenants.set_limits("ada", QuotaLimits(stored_bytes=100), datetime.now(UTC))
        assert complaint(service.http.post("/v1/runs", json=body, headers=headers), 422, "invalid")


def test_what_was_taken_since_the_last_look_counts_and_so_does_the_body(store: Store) -> None:
    store.tenants.set_limits("ada", QuotaLimits(stored_bytes=1000), NOON)
    space = SpaceLeft(store, Limits(), lambda: 0.0)
    space.require("ada", 600)
    with pytest.raises(QuotaExceeded, match="1,001 more are too many"):
        SpaceLeft(store, Limits(), lambda: 0.0).require("ada", 1001)
    taken = TensorValue.of(np.ones(150, np.float32))
    store.of("ada").tensors.put({"w": taken}, NOON)
    with pytest.raises(QuotaExceeded, match="of which 600 are used; 600 more"):
        space.require("ada", 600)
    space.require("ada", 400)
    store.of("ada").tensors.drop(["w"])
    space.require("ada", 600)
    space.require("bob", 10**12)


def test_a_body_that_would_exceed_the_quota_is_refused_before_it_is_read(store_url: str) -> None:
    with serving(store_url, api_key="the key of the operator") as service:
        key, _ = service.store.keys.add("a", "admin", datetime.now(UTC), tenant="ada")
        service.store.tenants.set_limits("ada", QuotaLimits(stored_bytes=1000), datetime.now(UTC))
        headers = {"Authorization": f"Bearer {key}"}
        answer = service.http.put("/v1/tensors/w", content=bytes(2000), headers=headers)
        assert complaint(answer, 403, "quota_exceeded")["used"] == {"stored_bytes": 0}


Usage = namedtuple("Usage", "free")


def test_only_cancellations_pass_where_nothing_is_taken(service: Service) -> None:
    """Check names that look like a cancellation, and that every cancellation of the reference passes."""
    cancel = [path for path in service.http.get("/openapi.json").json()["paths"] if path.endswith("/cancel")]
    assert len(cancel) >= 3
    with patch("tapestry.service.store.sessions.shutil.disk_usage", return_value=Usage(1000)):
        with patch("tapestry.service.api.space.LOOKED_S", 0.0):
            service.http.get("/readyz")
            complaint(service.http.put("/v1/tensors/cancel", content=b"x"), 507, "no_space")
        for method, path in (
            ("PUT", "/v1/tensors/cancel"),
            ("PUT", "/v1/runs/0123456789ab/cancel"),
            ("POST", "/v1/cancel"),
            ("POST", "/v1/runs/a/b/cancel"),
        ):
            complaint(service.http.request(method, path, content=b"x"), 507, "no_space")
        for path in cancel:
            answer = service.http.post(re.sub("{.*}", "0123456789ab", path))
            complaint(answer, 404, "unknown_id")


def test_nothing_is_taken_where_the_disk_is_nearly_full(service: Service) -> None:
    body, run_id = service.request(), service.finished()
    with patch("tapestry.service.store.sessions.shutil.disk_usage", return_value=Usage(1000)):
        with patch("tapestry.service.api.space.LOOKED_S", 0.0):
            service.http.get("/readyz")
            refused = service.http.post("/v1/runs", json=body)
        detail = complaint(refused, 507, "no_space")["detail"]
        assert detail.startswith(
            "the disk of the database has 1,000 bytes left, and 268,435,456 are kept free"
        )
        assert complaint(service.http.get("/readyz"), 503, "no_space")["detail"] in detail
        assert service.http.delete(f"/v1/runs/{run_id}").status_code == 204
        assert service.http.get("/v1/runs").status_code == 200


def test_the_space_is_looked_at_every_few_seconds(store_url: str) -> None:
    store, now = Store(store_url), [0.0]
    is_file = store_url.startswith("sqlite")
    limits = Limits(free_bytes=2**60) if is_file else Limits(stored_bytes=1)
    assert SpaceLeft(store, Limits()).shortage() is None
    space = SpaceLeft(store, limits, lambda: now[0])
    assert (space.shortage() or "").startswith(
        "the disk of the database has" if is_file else "the database takes"
    )
    with patch.object(Store, "space", side_effect=StoreError("down")):
        assert space.shortage() is not None
        now[0] += LOOKED_S
        with pytest.raises(StoreError):
            space.shortage()
    store.close()


def test_limits_of_space_come_from_the_environment() -> None:
    found = service_settings({"TAPESTRY_FREE_BYTES": "0", "TAPESTRY_STORED_BYTES": "1000"}).limits
    assert (found.free_bytes, found.stored_bytes) == (0, 1000)
    assert service_settings({}).limits == Limits()
    with pytest.raises(SettingsError, match="TAPESTRY_FREE_BYTES is a whole number of bytes, not '1GB'"):
        service_settings({"TAPESTRY_FREE_BYTES": "1GB"})


def test_quotas_are_set_shown_and_lifted_by_the_command_line(tapestry: Run) -> None:
    shown = tapestry("tenants", "set", "team-a", "--jobs", "3", "--stored-bytes", "10GB", "--json").json
    assert shown == {
        "tenant": "team-a",
        "weight": 1.0,
        "quotas": {
            "jobs": {"limit": 3, "used": 0},
            "stored_bytes": {"limit": 10_000_000_000, "used": 0},
            "search_seconds": {"limit": None, "used": 0.0},
        },
    }
    tapestry("tenants", "set", "team-a", "--jobs", "none", "--search-seconds", "3600")
    assert tapestry("tenants", "show", "team-a", "--json").json["quotas"]["jobs"]["limit"] is None
    lines = tapestry("tenants", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:] if line.strip("- ")] == ["default", "team-a"]
    tapestry("tenants", "set", "team-a", "--weight", "2.5")
    tapestry("tenants", "set", "team-a", "--search-seconds", "60")  # the weight stays
    shown = tapestry("tenants", "show", "team-a", "--json").json
    assert (shown["weight"], shown["quotas"]["search_seconds"]["limit"]) == (2.5, 60)
    assert tapestry("tenants", "show", "team-a").out.splitlines()[-1].split()[:2] == ["team-a", "2.5"]
    for wrong in ("0", "-1", "nan", "inf", "much"):
        refused = tapestry("tenants", "set", "team-a", "--weight", wrong)
        assert refused.code == 2 and "expected a number" in refused.err
    log = tapestry("audit", "--json").json["items"]
    assert [(line["action"], line["subject"], line["actor"]) for line in log] == [
        ("set quotas", "stored_bytes 1e+10, search_seconds 60", "command line"),
        ("set quotas", "stored_bytes 1e+10, search_seconds 3600, weight 2.5", "command line"),
        ("set quotas", "stored_bytes 1e+10, search_seconds 3600", "command line"),
        ("set quotas", "jobs 3, stored_bytes 1e+10", "command line"),
    ]
    assert "set quotas" in tapestry("audit", "--since", "1h", "--tenant", "team-a").out
    assert tapestry("gc", "--audit-older-than", "1d", "--json").json["audit_lines"] == 0
