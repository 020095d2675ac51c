"""`/v1/plans/{plan}/measurements`: times of plans that were measured where these really ran."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Response

from tapestry.service.api.answers import answer
from tapestry.service.api.bodies import MeasurementBody
from tapestry.service.api.context import Parts
from tapestry.service.api.limits import body_of
from tapestry.service.api.openapi_parts import MeasurementId, PlanId, problems
from tapestry.service.api.plan_models import MeasurementAnswer
from tapestry.service.presentation import measurement_document

router = APIRouter(prefix="/v1/plans", tags=["plans"])


@router.post(
    "/{plan_id}/measurements",
    status_code=201,
    response_model=MeasurementAnswer,
    responses=problems(404, 413, 415, 422),
    dependencies=[body_of("application/json")],
)
def post_measurement(plan_id: PlanId, body: MeasurementBody, parts: Parts) -> Response:
    """Report what a step of a plan took where it really ran; it is shown beside what is predicted and counted. Of a
    plan the newest 100 measurements are kept.
    """
    plan = parts.store.plans.get(plan_id)
    stored = parts.store.measurements.save(plan.key, body.measurement, datetime.now(UTC))
    return answer(measurement_document(stored), 201)


@router.delete(
    "/{plan_id}/measurements/{measurement_id}",
    status_code=204,
    responses=problems(404),
    response_class=Response,
)
def delete_measurement(plan_id: PlanId, measurement_id: MeasurementId, parts: Parts) -> Response:
    """Delete a measurement of a plan."""
    parts.store.measurements.delete(parts.store.plans.get(plan_id).key, measurement_id)
    return Response(status_code=204)
