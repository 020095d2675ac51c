"""The application: all its parts, in the order in which requests pass them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from tapestry.service.api import (
    audit,
    batches,
    comparisons,
    device_curves,
    drawings,
    events,
    executions,
    graphs,
    health,
    imports,
    layouts,
    learned,
    measurements,
    plan_accounts,
    plans,
    precisions,
    program_changes,
    quotas,
    reference,
    rewrites,
    rule_drawings,
    run_lists,
    runs,
    shardings,
    tensors,
)
from tapestry.service.api.audit import AuditLog
from tapestry.service.api.catalogs import new_router
from tapestry.service.api.context import Context
from tapestry.service.api.event_feed import EventFeed
from tapestry.service.api.heads import HeadAsGet
from tapestry.service.api.holders import HolderWatch
from tapestry.service.api.instrumentation import Instrumentation
from tapestry.service.api.kept_answers import KeptAnswers, Revisions, ServeKept
from tapestry.service.api.keys import KeyRequired, Locks, WrongKeys
from tapestry.service.api.limits import BodyLimit
from tapestry.service.api.login import login_router
from tapestry.service.api.metrics import Metrics, metrics_router
from tapestry.service.api.origins import LOOPBACK, SafeHeaders, SameOrigin
from tapestry.service.api.parameters import check_parameters
from tapestry.service.api.problems import add_handlers
from tapestry.service.api.rates import RateBuckets, RateLimit
from tapestry.service.api.space import SpaceLeft, SpaceRequired
from tapestry.service.api.task_pool import TaskPool
from tapestry.service.api.uploads import limit_forms
from tapestry.service.dashboard import STATIC, error_page
from tapestry.service.dashboard import router as dashboard
from tapestry.service.settings import ServiceSettings, SettingsError
from tapestry.service.store import Store

DESCRIPTION = (
    "Submit a tensor program, name a mesh, and get the Pareto frontier of provably equivalent, executable plans. "
    "Errors are problem documents (RFC 9457): `code` for programs, `detail` for people, and under `errors` a JSON "
    "pointer to each fault with the values that would be allowed."
)

ROUTERS = (
    health.router,  # first, so that a probe finds it without trying hundreds of others
    *(graphs.router, imports.router, rewrites.router, precisions.router, drawings.router),
    program_changes.router,
    *(run_lists.router, runs.router),  # in this order, for `/v1/runs/labels` is no id of a run
    *(batches.router, events.router),
    *(plans.router, plan_accounts.router, shardings.router, comparisons.router),
    *(executions.forms, executions.router, measurements.router, tensors.router),
    *(rule_drawings.router, device_curves.router, learned.router),
    *(layouts.router, audit.router, quotas.router),
    reference.router,
)


def create_app(settings: ServiceSettings) -> FastAPI:
    """Create the service over a database; it opens the store and the task pool, and closes both at its end.

    Raises:
        StoreError: the database cannot be used.
        SettingsError: others can reach it, and nobody has a key.
    """
    limit_forms()
    store = Store(settings.database_url)
    try:
        settings.require_key(store.keys.any_valid(datetime.now(UTC)))
    except SettingsError:
        store.close()
        raise
    answers = KeptAnswers(Revisions(store.run_watch.revisions), store.changes.now)
    feed = EventFeed(store, settings.connections)
    pool = TaskPool(pools=settings.processes)
    space, holders = SpaceLeft(store, settings.limits), HolderWatch(store)
    context = Context(store, store, settings, pool, feed, answers, space, holders)
    metrics = Metrics(context)
    context.task_pool.observe(
        metrics.waiting.observe, lambda task, seconds: metrics.tasks.labels(task).observe(seconds)
    )
    locks, wrong, buckets = Locks(store, settings), WrongKeys(), RateBuckets(settings.rates)
    app = FastAPI(
        title="Tapestry",
        version=version("tapestry"),
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(check_parameters)],
        middleware=_middleware(context, metrics, locks, wrong, buckets),
    )
    app.state.context = context
    own = (new_router(), metrics_router(metrics), login_router(locks, wrong, buckets))
    routers = (*ROUTERS, *own, dashboard)
    for router in routers:
        is_page = router is dashboard
        # What a page's script requests next may be computed in the task pool.
        before = [Depends(pool.prepare)] if is_page else []
        app.include_router(router, include_in_schema=not is_page, dependencies=before)
    app.mount("/static/reference", reference.assets(), name="reference-assets")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.openapi = reference.described(app, settings.limits, has_key=locks.is_locked())  # type: ignore[method-assign]
    add_handlers(app, error_page, [route for router in routers for route in router.routes])
    return app


def _middleware(
    context: Context, metrics: Metrics, locks: Locks, wrong: WrongKeys, buckets: RateBuckets
) -> list[Middleware]:
    """List the middleware that every request passes, from the outside in."""
    return [
        Middleware(SafeHeaders),
        Middleware(Instrumentation, metrics=metrics),
        Middleware(AuditLog, store=context.all_tenants),
        Middleware(SameOrigin, hosts=_hosts(context.settings)),
        Middleware(KeyRequired, locks=locks, wrong=wrong),
        Middleware(RateLimit, buckets=buckets),
        Middleware(SpaceRequired, space=context.space),
        Middleware(BodyLimit, limits=context.settings.limits),
        Middleware(HeadAsGet),
        Middleware(ServeKept, answers=context.answers),
    ]


def _hosts(settings: ServiceSettings) -> tuple[str, ...] | None:
    """Return the host names that the service accepts; None (any) if it wants a key and no names are set."""
    if settings.allowed_hosts:
        return (*settings.allowed_hosts, *LOOPBACK)
    is_open = settings.is_loopback and settings.api_key is None and settings.proxy is None
    return (*LOOPBACK, settings.host) if is_open else None


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.context.close()
