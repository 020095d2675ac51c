"""`/v1/quota`: what a tenant may have, and how much of that it uses."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Response
from pydantic import Field

from tapestry.service.api.answers import answer
from tapestry.service.api.context import Parts
from tapestry.service.api.models import Answer
from tapestry.service.api.openapi_parts import problems
from tapestry.service.store import QUOTAS

router = APIRouter(prefix="/v1/quota", tags=["operations"])


class QuotaAnswer(Answer):
    """A quota of the tenant: `jobs`, `stored_bytes` or `search_seconds` of the last 24 hours."""

    name: str
    limit: float | None = Field(description="null: no limit")
    used: float


class QuotasAnswer(Answer):
    """The quotas of the tenant whose key was sent."""

    tenant: str
    quotas: list[QuotaAnswer]


@router.get("", response_model=QuotasAnswer, responses=problems(), operation_id="get_quota")
def get_quota(parts: Parts) -> Response:
    """Show your tenant's quotas, and how much of each is used."""
    limits, used = parts.store.quotas.limits().to_json(), parts.store.quotas.use(datetime.now(UTC)).to_json()
    items = [{"name": name, "limit": limits.get(name), "used": used[name]} for name in QUOTAS]
    return answer({"tenant": parts.store.tenant, "quotas": items})
