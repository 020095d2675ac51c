"""Tests of tenants: whatever a store is asked for, and by whatever statement, the rows of others are not there."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from sqlalchemy import delete, func, insert, select, update

from tapestry.hardware import load_mesh
from tapestry.optimizer.run.plan import Rate
from tapestry.service.retention import Retention, collect
from tapestry.service.store import (
    BatchStanding,
    ComputedTensors,
    Idempotency,
    ImportRequest,
    KeyReused,
    Kin,
    NewBatchEntry,
    NewMeasurement,
    QueueFull,
    QueueLimits,
    QuotaLimits,
    QuotaUse,
    Rewriting,
    Store,
    StoreError,
    TenantStore,
    TensorRequest,
    TensorValue,
    UnknownId,
    mesh_to_document,
)
from tapestry.service.store.tables import Base, GraphRow
from tapestry.service.store.tenancy import SHARED
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

TENSOR = "ada-w"
VALUE = TensorValue.of(np.arange(6, dtype=np.float32))
KEY = Idempotency("POST /v1/runs", "once", "0" * 64)
KIN = Kin(two_layers().structural_hash, None, 3)
MESH = mesh_to_document(load_mesh("dgx-h100"))
RATE = Rate("reshard", "product", 200, 100, 10, 4.0, 0.25)
HOW = ImportRequest(False, "i", ".mlir", {}, (), 2**20, 100, {})
TABLES: tuple[Any, ...] = tuple(mapper.class_ for mapper in Base.registry.mappers)


class World(NamedTuple):
    """The ids of what a tenant has: something in every table."""

    graph: str
    run: str
    queued: str
    plan: str
    key: int
    execution: str
    measurement: str
    batch: str
    imported: str
    begun: str


def fill(store: Store, tenant: str) -> World:
    """Store something of a tenant in every table, some of it by a worker."""
    mine = store.of(tenant)
    graph = mine.graphs.save(two_layers(), NOON).id
    mine.graphs.save_upload("a" * 64, graph, NOON)
    mine.graphs.save_rewritten(two_layers("other"), Rewriting(graph, "", [{"rule": "x"}], NOON))
    run = mine.runs.submit(request_for(graph), NOON, idempotency=KEY).id
    job = store.jobs.claim("worker", later(1), LEASE_S, ("run",))
    assert job is not None and (job.subject, job.tenant) == (run, tenant)
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024))))
    store.jobs.foresee(job, later(2), LEASE_S, {}, {}, (RATE,))
    assert store.epochs.share(job, "r", 0, "v", b"") is True
    store.epochs.put_variant(job, "v", b"")
    (plan,) = mine.runs.frontier(run)
    mine.plans.save_artifact(plan.key, "kind", b"content", NOON)
    saves = TensorRequest(save={"result": TENSOR}, outputs=True)
    execution = mine.executions.submit(
        plan.key, backend="numpy", values=True, seed=1, created_at=NOON, request=saves
    ).id
    held = store.jobs.claim("worker", later(1), LEASE_S, ("execution",))
    assert held is not None and (held.subject, held.tenant) == (execution, tenant)
    kept = ComputedTensors({"result": VALUE}, {TENSOR: VALUE})
    store.jobs.end_execution(held, later(3), "finished", computed=kept)
    measurement = mine.measurements.save(plan.key, NewMeasurement(1.2e-3, "here"), NOON).id
    entry = NewBatchEntry(graph, "dgx-h100", 0, request_for(graph, seed=1))
    batch = mine.batches.submit("b", [entry], later(60)).id  # the next claim is of another run
    (queued,) = (each.run_id for each in mine.batches.entries(batch))
    mine.runs.change(run, tags=["mine"], notes="of mine")
    imported, begun = (mine.imports.begin(str(k) * 64, "i", HOW, NOON) for k in range(2))
    mine.imports.append(imported, 0, 0, b"content")
    mine.imports.submit(imported, NOON)
    name = f"{run}-{plan.id}"
    return World(graph, run, str(queued), name, plan.key, execution, measurement, batch, imported, begun)


def counts(view: TenantStore) -> dict[str, int]:
    with view.runs._database.reading() as connection:
        return {
            table.__tablename__: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in TABLES
            if table not in SHARED
        }


def test_a_tenant_sees_all_of_its_own_rows_and_none_of_others(store: Store) -> None:
    fill(store, "ada")
    here = counts(store.of("ada"))
    assert min(here.values()) > 0, here
    assert set(counts(store.of("bob")).values()) == {0}
    fill(store, "bob")
    assert counts(store.of("ada")) == here == counts(store.of("bob"))
    assert set(counts(store).values()) == {0}  # the default one is a tenant as any other


def test_no_statement_reaches_the_rows_of_others(store: Store) -> None:
    fill(store, "ada")
    here = counts(store.of("ada"))
    for table in (table for table in TABLES if table not in SHARED):
        first = next(iter(table.__table__.columns)).key
        with store.of("bob").runs._database.writing() as connection:
            same = {first: getattr(table, first)}
            assert connection.execute(update(table).values(same)).rowcount == 0, table
            assert connection.execute(delete(table)).rowcount == 0, table
            inner = select(getattr(table, first))
            assert connection.execute(select(inner.subquery())).first() is None, table
            assert connection.scalar(select(inner.exists())) is False, table
    assert counts(store.of("ada")) == here


def test_what_is_inserted_without_a_tenant_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="tenant"), store._database.writing() as connection:
        graph = {"id": "0" * 32, "name": "x", "structural_hash": "", "blocks": 1, "document": b""}
        row = {**graph, "lacks_values": False, "is_given": True, "created_at": NOON}
        connection.execute(insert(GraphRow).values(row))


# What each method of a store answers about what another tenant has; a new method needs a line here.
ANSWERS: Mapping[str, Mapping[str, tuple[Callable[[Any, World], Any], Any]]] = {
    "graphs": {
        "save": (lambda graphs, w: graphs.save(two_layers(), NOON).is_new, True),
        "save_rewritten": (
            lambda graphs, w: graphs.save_rewritten(two_layers(), Rewriting("0", "", [], NOON)),
            StoreError,
        ),
        "uploaded": (lambda graphs, w: graphs.uploaded("a" * 64), None),
        "save_upload": (lambda graphs, w: graphs.save_upload("a" * 64, "0", NOON), StoreError),
        "rewritings": (lambda graphs, w: graphs.rewritings(w.graph), ()),
        "kin": (lambda graphs, w: graphs.kin(w.graph), UnknownId),
        "load": (lambda graphs, w: graphs.load(w.graph), UnknownId),
        "document": (lambda graphs, w: graphs.document(w.graph), UnknownId),
        "get": (lambda graphs, w: graphs.get(w.graph), UnknownId),
        "page": (lambda graphs, w: graphs.page(), ()),
    },
    "runs": {
        "submit": (lambda runs, w: runs.submit(request_for(w.graph), NOON, idempotency=KEY), UnknownId),
        "equal_run": (lambda runs, w: runs.equal_run(request_for(w.graph), {}), None),
        "save_finished": (lambda runs, w: len(runs.save_finished(finished_run(two_layers()))), 12),
        "get": (lambda runs, w: runs.get(w.run), UnknownId),
        "page": (lambda runs, w: runs.page(), ()),
        "find": (lambda runs, w: runs.find(w.run[:4]), UnknownId),
        "related": (lambda runs, w: runs.related(KIN, "dgx-h100"), ()),
        "details": (lambda runs, w: runs.details(w.run), UnknownId),
        "request": (lambda runs, w: runs.request(w.run), UnknownId),
        "frontier": (lambda runs, w: runs.frontier(w.run), UnknownId),
        "rules": (lambda runs, w: runs.rules(w.run), {}),
        "history": (lambda runs, w: runs.history(w.run), ()),
        "events": (lambda runs, w: runs.events(w.run), ()),
        "mesh": (lambda runs, w: runs.mesh(w.run), UnknownId),
        "change": (lambda runs, w: runs.change(w.queued, priority=3, tags=["x"], notes="x"), UnknownId),
        "tags": (lambda runs, w: runs.tags(), {}),
        "meshes": (lambda runs, w: runs.meshes(), {}),
        "request_cancel": (lambda runs, w: runs.request_cancel(w.queued, NOON), UnknownId),
    },
    "plans": {
        "get": (lambda plans, w: plans.get(w.plan), UnknownId),
        "find": (lambda plans, w: plans.find(w.plan), UnknownId),
        "load": (lambda plans, w: plans.load(w.key), UnknownId),
        "load_all": (lambda plans, w: plans.load_all([w.key]), UnknownId),
        "choices": (lambda plans, w: plans.choices([w.key]), []),
        "artifact": (lambda plans, w: plans.artifact(w.key, "kind"), None),
        "save_artifact": (lambda plans, w: plans.save_artifact(10**6, "kind", b"", NOON), StoreError),
    },
    "measurements": {
        "save": (
            lambda measurements, w: measurements.save(w.key, NewMeasurement(1.0, "here"), NOON),
            UnknownId,
        ),
        "of_plan": (lambda measurements, w: measurements.of_plan(w.key), ()),
        "delete": (lambda measurements, w: measurements.delete(w.key, w.measurement), UnknownId),
    },
    "executions": {
        "submit": (
            lambda executions, w: executions.submit(
                w.key, backend="dry", values=False, seed=None, created_at=NOON
            ),
            UnknownId,
        ),
        "save": (
            lambda executions, w: executions.save(
                w.key, next(iter(finished_run(two_layers()).executions.values()))
            ),
            UnknownId,
        ),
        "get": (lambda executions, w: executions.get(w.execution), UnknownId),
        "of_plan": (lambda executions, w: executions.of_plan(w.key), ()),
        "tensors": (lambda executions, w: executions.tensors(w.execution, "output"), {}),
        "trace": (lambda executions, w: executions.trace(w.execution), UnknownId),
        "packed_trace": (lambda executions, w: executions.packed_trace(w.execution), UnknownId),
    },
    "imports": {
        "begin": (lambda imports, w: len(imports.begin("0" * 64, "i", HOW, NOON)), 12),
        "append": (lambda imports, w: imports.append(w.begun, 0, 1, b"more"), UnknownId),
        "abandon": (lambda imports, w: imports.abandon(w.begun), None),
        "abandoned": (lambda imports, w: w.begun in {one.id for one in imports.abandoned(later(1e6))}, False),
        "submit": (lambda imports, w: imports.submit(w.begun, NOON), UnknownId),
        "unfinished": (lambda imports, w: imports.unfinished("0" * 64), None),
        "get": (lambda imports, w: imports.get(w.imported), UnknownId),
        "page": (lambda imports, w: imports.page(), ()),
        "portions": (lambda imports, w: list(imports.portions(w.imported, 0)), []),
        "request_cancel": (lambda imports, w: imports.request_cancel(w.imported, NOON), UnknownId),
        "delete": (lambda imports, w: imports.delete(w.imported), UnknownId),
        "ended_before": (lambda imports, w: imports.ended_before(later(99)), ()),
    },
    "tensors": {
        "all": (lambda tensors, w: tensors.all(), ()),
        "get": (lambda tensors, w: tensors.get(TENSOR), UnknownId),
        "load": (lambda tensors, w: tensors.load(TENSOR), UnknownId),
        "put": (lambda tensors, w: tensors.put({TENSOR: VALUE}, later(9)), None),
        "copy": (lambda tensors, w: tensors.copy(TENSOR, "v", NOON), UnknownId),
        "drop": (lambda tensors, w: tensors.drop([TENSOR]), UnknownId),
    },
    "batches": {
        "submit": (
            lambda batches, w: len(batches.submit("b", [NewBatchEntry("0", "", 0, None)], NOON).id),
            12,
        ),
        "get": (lambda batches, w: batches.get(w.batch), UnknownId),
        "page": (lambda batches, w: batches.page(), ()),
        "standings": (lambda batches, w: batches.standings([w.batch])[w.batch], BatchStanding({}, {})),
        "best": (lambda batches, w: batches.best(w.batch), {}),
        "entries": (lambda batches, w: batches.entries(w.batch), ()),
    },
    "quotas": {
        "limits": (lambda quotas, w: quotas.limits(), QuotaLimits()),
        "use": (lambda quotas, w: quotas.use(NOON), QuotaUse(0, 0, 0.0)),
        "space": (lambda quotas, w: quotas.space(NOON), None),
    },
    "learning": {
        "newest": (lambda learning, w: learning.newest(), 0),
        "prior": (lambda learning, w: learning.prior(1, MESH, ("time_s",)), StoreError),
        "require": (lambda learning, w: learning.require(1), UnknownId),
        "rates": (lambda learning, w: learning.rates(), ()),
        "over_time": (lambda learning, w: learning.over_time(), ()),
        "runs_with": (lambda learning, w: learning.runs_with("reshard", 9), ((), 0)),
    },
    "deletions": {
        "run": (lambda deletions, w: deletions.run(w.run), UnknownId),
        "batch": (lambda deletions, w: deletions.batch(w.batch), UnknownId),
        "execution": (lambda deletions, w: deletions.execution(w.execution), UnknownId),
        "graph": (lambda deletions, w: deletions.graph(w.graph), UnknownId),
        "ended_runs": (lambda deletions, w: deletions.ended_runs({}), ()),
        "ended_batches": (lambda deletions, w: deletions.ended_batches({}), ()),
        "unused_graphs": (lambda deletions, w: deletions.unused_graphs(), ()),
        "run_sizes": (lambda deletions, w: deletions.run_sizes(), {}),
        "compact": (lambda deletions, w: deletions.compact(), None),
    },
}


def test_no_method_of_a_store_discloses_what_others_have(store: Store) -> None:
    world = fill(store, "ada")
    before = counts(store.of("ada"))
    parts = {name: part for name, part in vars(store.of("bob")).items() if name != "address"}
    assert set(parts) == set(ANSWERS)
    for name, part in parts.items():
        public = {one for one, _ in inspect.getmembers(type(part), callable) if not one.startswith("_")}
        assert public == set(ANSWERS[name])
    readers_first = sorted(
        ((part, *case) for part, cases in ANSWERS.items() for case in cases.items()),
        key=lambda case: case[1] in ("save", "submit", "save_finished", "put"),
    )
    for part, method, (call, expected) in readers_first:
        if isinstance(expected, type) and issubclass(expected, StoreError):
            with pytest.raises(expected):
                call(parts[part], world)
        else:
            assert call(parts[part], world) == expected, (part, method)
    assert counts(store.of("ada")) == before
    assert store.of("ada").tensors.get(TENSOR).stored_at == later(3)
    assert store.of("ada").runs.get(world.queued).status == "queued"


def test_the_same_program_is_new_and_has_another_id_for_another_tenant(store: Store) -> None:
    saved = [store.of(tenant).graphs.save(two_layers(), NOON) for tenant in ("ada", "bob", "default")]
    assert all(one.is_new for one in saved) and len({one.id for one in saved}) == 3
    assert not store.of("ada").graphs.save(two_layers(), later(1)).is_new
    assert store.of("bob").graphs.load(saved[1].id) == two_layers()
    store.of("ada").deletions.graph(saved[0].id)
    assert store.of("bob").graphs.get(saved[1].id).created_at == NOON


def test_equal_requests_and_their_keys_are_equal_within_a_tenant_only(store: Store) -> None:
    first = {}
    for tenant in ("ada", "bob"):
        mine = store.of(tenant)
        graph = mine.graphs.save(two_layers(), NOON).id
        first[tenant] = mine.runs.submit(request_for(graph), NOON, idempotency=KEY)
        assert mine.runs.submit(request_for(graph), later(1), idempotency=KEY).id == first[tenant].id
        with pytest.raises(KeyReused):
            other = dataclasses.replace(KEY, fingerprint="1" * 64)
            mine.runs.submit(request_for(graph), NOON, idempotency=other)
    assert first["ada"].id != first["bob"].id and not first["bob"].is_replay


def test_snapshots_are_numbered_and_runs_related_within_a_tenant(store: Store) -> None:
    run = finished_run(two_layers())
    learned = dataclasses.replace(run, result=dataclasses.replace(run.result, rates=(RATE,)))
    own = {}
    for tenant in ("ada", "bob", "ada"):
        own[tenant] = store.of(tenant).runs.save_finished(learned)
    assert [store.of(tenant).learning.newest() for tenant in ("ada", "bob", "default")] == [2, 1, 0]
    ids = [store.of(tenant).runs.page()[0].graph_id for tenant in ("ada", "bob")]
    kin = store.of("bob").graphs.kin(ids[1])
    assert store.of("bob").runs.related(kin, "dgx-h100") == (own["bob"],)


def test_a_tenant_fills_its_own_places_of_the_queue_and_not_those_of_others(store: Store) -> None:
    graphs = {tenant: store.of(tenant).graphs.save(two_layers(), NOON).id for tenant in ("ada", "bob")}
    limits = QueueLimits(2, 100)
    for seed in range(2):
        store.of("ada").runs.submit(request_for(graphs["ada"], seed=seed), NOON, queue_limits=limits)
    with pytest.raises(QueueFull, match="2 jobs of this tenant wait already"):
        store.of("ada").runs.submit(request_for(graphs["ada"], seed=2), NOON, queue_limits=limits)
    for seed in range(2):
        store.of("bob").runs.submit(request_for(graphs["bob"], seed=seed), NOON, queue_limits=limits)


def test_all_tenants_share_a_limit_of_the_queue_whose_message_has_no_figures(store: Store) -> None:
    for tenant in ("ada", "bob"):
        graph = store.of(tenant).graphs.save(two_layers(), NOON).id
        store.of(tenant).runs.submit(request_for(graph), NOON, queue_limits=QueueLimits(2, 2))
    with pytest.raises(QueueFull, match=r"^the queue of this service is full; try again later$"):
        store.of("bob").runs.submit(request_for(graph, seed=2), NOON, queue_limits=QueueLimits(2, 2))


def test_tenants_that_only_a_proxy_names_are_known_by_their_rows_and_collected(store: Store) -> None:
    store.of("of-graph").graphs.save(two_layers(), NOON)
    store.of("of-import").imports.begin("0" * 64, "i", HOW, NOON)
    store.of("of-tensor").tensors.put({TENSOR: VALUE}, NOON)
    runs, graph = store.of("of-run").runs, store.of("of-run").graphs.save(two_layers(), NOON).id
    run_id = runs.submit(request_for(graph), NOON).id
    runs.request_cancel(run_id, later(1))
    names = ("default", "of-graph", "of-import", "of-run", "of-tensor")
    assert store.tenants.names() == names
    assert tuple(view.tenant for view in store.of_all()) == names
    found = collect(store, Retention(seconds=0.0), later(1e6))
    assert found.runs == [run_id] and (len(found.graphs), len(found.imports)) == (2, 1)


def test_a_key_makes_its_tenant_known_and_names_are_checked(store: Store) -> None:
    assert store.keys.add("ci", "submit", NOON, tenant="team-a")[1].tenant == "team-a"
    assert store.keys.add("own", "submit", NOON)[1].tenant == "default"
    assert store.tenants.names() == ("default", "team-a")
    assert [view.tenant for view in store.of_all()] == ["default", "team-a"]
    for wrong in ("", "-a", "A", "a" * 33, "a b", "ä", "a/b", "a\n"):
        with pytest.raises(StoreError, match="a tenant's name has 1 to 32 characters"):
            store.keys.add("x", "read", NOON, tenant=wrong)
