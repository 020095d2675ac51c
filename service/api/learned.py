"""`/v1/learned`: what stored runs have learned of moves."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from tapestry.service.api.context import Parts
from tapestry.service.api.models import Answer
from tapestry.service.api.openapi_parts import problems
from tapestry.service.learned import learned_document

router = APIRouter(prefix="/v1/learned", tags=["catalogs"])


class LearnedRule(Answer):
    """The rates that all runs of this release tell of a rule on operators of a class."""

    rule: str
    operator_class: str
    mesh_kind: str
    focus: str
    snapshots: int = Field(description="runs that made such moves")
    applicable: int
    applied: int
    improved: int
    credit: float
    rate: float = Field(description="credit of a thousand applied moves")
    volume: float = Field(description="mean share of a front's hypervolume that is due to such moves")


class RuleOfSnapshot(Answer):
    """The counts that one run told of a rule."""

    snapshot: int
    rule: str
    applicable: int
    applied: int
    improved: int
    credit: float
    volume: float


class LearnedAnswer(Answer):
    """The rates of all runs together, and those of the last ones; `prior` is the number of the newest snapshot."""

    prior: int
    rules: list[LearnedRule]
    snapshots: list[RuleOfSnapshot]


@router.get("", response_model=LearnedAnswer, responses=problems(), operation_id="get_learned")
def get_learned(parts: Parts) -> dict[str, Any]:
    """Show what stored runs have learned of moves: the prior of later ones."""
    return learned_document(parts.store)
