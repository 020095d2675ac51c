"""Models of responses about rewriting: the moves that fit a program, those that were made, and what came of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from tapestry.service.api.models import Answer, GraphAnswer
from tapestry.service.api.run_models import RefusalAnswer


class MoveAnswer(Answer):
    """A rule at a place, or at several tied places, with a choice; sent back among `moves`, it is applied."""

    rule: str
    place: str | list[str] = Field(description="the site of a block; of several roots, joined by `&`")
    choice: str


class RuleAnswer(Answer):
    """A rule and a one-line description; `domain`: it keeps every bit (exact), or rounds otherwise (real)."""

    kind: str
    family: str
    domain: str
    summary: str


class CandidateMovesAnswer(Answer):
    """A page of the candidate moves of a program."""

    graph_id: str
    graph: str
    total: int = Field(description="moves on all pages")
    places: int = Field(description="places of the moves on all pages")
    moves: list[MoveAnswer]
    rules: dict[str, RuleAnswer] = Field(description="the rules of these moves, by name")
    refused: list[RefusalAnswer] = Field(description="rules that fail somewhere: there they offer nothing")
    next: int | None = Field(description="`after` of the next page")


class StageAnswer(Answer):
    """The result of one stage: its moves, rules left out, and the rules that had more moves where it was stopped."""

    stage: str
    moves: list[MoveAnswer]
    refused: list[RefusalAnswer]
    unfinished: list[str]


class RewriteAnswer(Answer):
    """A program derived from another, and how; the stages' moves, one after the other, replay from `source`."""

    graph: GraphAnswer = Field(description="what came out; divided, the part that is left for every run")
    before: GraphAnswer | None = Field(description="divided: the part that is computed once, from parameters")
    source: str = Field(description="the id of the program that was given")
    blocks: dict[str, int] = Field(description="before and after")
    flops: dict[str, int] = Field(description="of one run, before and after")
    stages: list[StageAnswer]


class RewritingAnswer(Answer):
    """The moves by which a program was derived from another one in this service."""

    source: str
    part: Literal["program", "before"] | None = Field(description="which part of what the moves lead to")
    moves: list[MoveAnswer]
    created_at: datetime
    links: dict[str, str]


class GraphHistoryAnswer(Answer):
    """The derivations of a program from others in this service, oldest first."""

    graph_id: str
    items: list[RewritingAnswer]
