"""Health checks for monitoring."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, Response

from tapestry.service.api.answers import answer
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.metrics import skew_s
from tapestry.service.api.models import HealthAnswer, ReadyAnswer
from tapestry.service.api.openapi_parts import problems
from tapestry.service.api.problems import RETRY_AFTER_S, Problem
from tapestry.service.store import ALIVE_S, StoreError

log = logging.getLogger("tapestry.api")
router = APIRouter(tags=["operations"])

PROBES = ThreadPoolExecutor(1, "probes")  # apart from the threads that requests may keep busy


@router.get("/healthz", response_model=HealthAnswer, responses=problems())
async def healthz() -> Response:
    """Report that the process is alive."""
    return answer({"status": "ok"})


@router.get("/readyz", response_model=ReadyAnswer, responses=problems())
async def readyz(parts: Parts) -> Response:
    """Check that the database answers, takes writes and has space; `workers` are those that live (none: runs wait)."""
    return await asyncio.get_running_loop().run_in_executor(PROBES, _readiness, parts)


def _readiness(parts: Context) -> Response:
    parts.all_tenants.ping()
    try:
        parts.all_tenants.check_writes()
    except StoreError as error:
        log.error("not ready: %s", error)
        message = "the database answers, but takes no writes: its disk is full, or another process holds it"
        raise Problem(503, "read_only", message, headers={"Retry-After": str(RETRY_AFTER_S)}) from error
    shortage = parts.space.shortage()
    if shortage is not None:
        raise Problem(503, "no_space", shortage, headers={"Retry-After": str(RETRY_AFTER_S)})
    workers = parts.all_tenants.workers.alive(ALIVE_S)
    return answer({"status": "ok", "workers": len(workers), "clock_skew_s": skew_s(workers)})
