"""The application: every part of it is named here, in the order in which requests meet them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.staticfiles import StaticFiles

from service.api import events, executions, graphs, plans, reference, runs
from service.api.catalogues import new_router
from service.api.context import Context
from service.api.desk import Desk
from service.api.feed import Feed
from service.api.health import Measured, Metrics
from service.api.health import router as health
from service.api.keys import KeyRequired
from service.api.limits import BodyLimit
from service.api.origins import LOOPBACK, SameOrigin
from service.api.problems import add_handlers
from service.dashboard import STATIC
from service.dashboard import router as dashboard
from service.settings import ServiceSettings
from service.store import Store

DESCRIPTION = (
    "Hand in a tensor program, name a machine, and get the Pareto frontier of provably equivalent, executable plans. "
    "Errors are problem documents (RFC 9457)."
)


def create_app(settings: ServiceSettings) -> FastAPI:
    """The service over a database; it opens the store and its desk, and closes both when it ends.

    Raises:
        StoreError: the database cannot be used.
    """
    store = Store(settings.database_url)
    context = Context(store, settings, Desk(), Feed(store))
    metrics = Metrics()
    metrics.watch(context)
    app = FastAPI(
        title="Tapestry",
        version=version("tapestry"),
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    for router in (graphs.router, runs.router, events.router, plans.router, executions.router):
        app.include_router(router)
    app.include_router(new_router())
    app.include_router(health)
    app.include_router(reference.router)
    app.include_router(dashboard, include_in_schema=False)
    app.mount("/static/reference", reference.assets(), name="reference-assets")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/metrics", tags=["operations"], response_class=Response)
    def get_metrics() -> Response:
        """Figures for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    add_handlers(app)
    # The last one added meets a request first.
    app.add_middleware(BodyLimit, limits=settings.limits)
    if settings.api_key is not None:
        app.add_middleware(KeyRequired, key=settings.api_key)
    app.add_middleware(SameOrigin, hosts=_hosts(settings))
    app.add_middleware(Measured, metrics=metrics)
    return app


def _hosts(settings: ServiceSettings) -> tuple[str, ...] | None:
    """The names the service answers to; any where a key keeps strangers out and no names are given."""
    if settings.allowed_hosts:
        return (*settings.allowed_hosts, *LOOPBACK)
    return (*LOOPBACK, settings.host) if settings.api_key is None else None


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    context: Context = app.state.context
    context.feed.close()
    context.desk.close()
    context.store.close()
