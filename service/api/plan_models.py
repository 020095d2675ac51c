"""Models of response bodies about plans, frontiers and executions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from tapestry.optimizer.archive.origin import ORIGINS
from tapestry.service.api.models import AcceptedAnswer, Answer, ObjectiveAnswer
from tapestry.service.lifecycle import Status


class ExecutionAcceptedAnswer(AcceptedAnswer):
    """An execution that waits for a worker."""

    unread: list[str] = Field(description="names in the given files that no input of the program has")


class TensorRequestAnswer(Answer):
    """The values of an execution; without given ones and stored tensors, inputs are seeded."""

    given: list[str] = Field(description="inputs whose values were given with the request")
    tensors: dict[str, str] = Field(description="inputs that are stored tensors, by their names")
    save: dict[str, str] = Field(description="outputs stored as tensors, by their names")
    outputs: bool = Field(description="the outputs are kept")


class ClassTimeAnswer(Answer):
    """A part of the time of a plan whose error is common to all of it."""

    name: str = Field(description="such as `softmax.fp32` or `all_gather on gpu`")
    seconds: float = Field(description="on the critical path of the plan")
    error: float = Field(description="standard deviation of the logarithm of the time")


class TimeAnswer(Answer):
    """The time of a plan and its error."""

    seconds: float = Field(description="the median")
    low: float = Field(description="seconds above which the time lies with the probability")
    high: float = Field(description="and below which")
    probability: float
    error: float = Field(description="standard deviation of the logarithm of the time")
    classes: list[ClassTimeAnswer] = Field(description="what the time consists of, the least certain first")


class LeadAnswer(Answer):
    """A comparison of the times of two plans, in which errors that both have in common cancel out."""

    other: str = Field(description="the fastest plan of the frontier; of that one, the next plan")
    seconds: float = Field(description="by which the other plan is slower; negative where it is faster")
    error_s: float = Field(description="standard deviation of these seconds")
    probability: float = Field(description="that the plan that is predicted to be faster is")
    within_error: bool = Field(description="the model cannot tell which one is faster")
    rests_on: str = Field(description="the class in which the faster one leads most; empty for equal times")
    lead_s: float = Field(description="the seconds by which it leads in that class")


class RecomputeAnswer(Answer):
    """The work that a plan does again instead of storing results meanwhile, in the whole program, unsharded."""

    blocks: int
    bytes: int = Field(description="the size of the results that are computed again")
    flops: int = Field(description="the work that is done twice")


class OffloadAnswer(Answer):
    """The tensors of a plan in the memory of the hosts, those of the whole program, unsharded."""

    values: int = Field(description="the number of values that wait there for late readers")
    states: int = Field(description="the number of tensors of state that lie there between steps")
    bytes: int = Field(description="the size of all of them")


class StagesAnswer(Answer):
    """The stages of a plan: equal parts of the mesh, each of which runs blocks of its own (a pipeline)."""

    count: int
    schedule: str = Field(
        description="the order of turns of stages: gpipe, 1f1b, interleaved, zb-h1, or by hand"
    )
    blocks: list[int] = Field(description="how many blocks are in each part; part k is on stage k % count")


class PlanOriginAnswer(Answer):
    """The first source that had a plan; one that the search finds again keeps it."""

    kind: Literal["seed", "exact", "earlier_run", "search"] = Field(
        description="; ".join(f"{kind}: {meaning}" for kind, meaning in ORIGINS.items())
    )
    name: str = Field(description="of a seed: what it is called, such as `data parallel 8`; empty for others")


class PlanAnswer(Answer):
    """A plan of a frontier."""

    id: str
    plan: str = Field(description="derived from what the plan is: equal plans of two runs have equal ones")
    cost: dict[str, float | int]
    cost_model: int = Field(description="version of the cost model that computed the costs")
    cost_model_note: str | None = Field(
        description="set where that is another version than this service's: then the costs do not compare with others"
    )
    time: TimeAnswer | None = Field(
        description="the time with its error; null for a plan that was stored and checked without it"
    )
    lead: LeadAnswer | None = Field(
        description="how the time compares with that of the fastest plan; null where there is none to compare with"
    )
    feasible: bool
    devices: str = Field(description="the part of the mesh that works, or `all`; with stages, that of each")
    micro_batches: int = Field(
        description="the rounds in which the program runs, each on a slice of the data; 1: none"
    )
    recompute: RecomputeAnswer | None = Field(
        description="what the program computes again for late readers; null where it stores everything"
    )
    offload: OffloadAnswer | None = Field(
        description="what waits on the hosts for late readers, and state there; null where all is on the devices"
    )
    stages: StagesAnswer | None = Field(description="the pipeline; null for a plan without")
    origin: PlanOriginAnswer | None = Field(
        description="where the plan comes from; null for a plan that an earlier release stored"
    )
    move_count: int
    verified: dict[str, Any] | None
    verdict: Literal["verified", "failed", "untrusted", "unchecked"] = Field(
        description="what the checks say; failed and untrusted plans should not be used"
    )


class FrontierAnswer(Answer):
    """The plans of a run to show, sorted by its first objective, the least first."""

    run: str
    status: Status
    objectives: list[ObjectiveAnswer]
    checks: dict[str, int] = Field(description="the number of plans by the verdict of their checks")
    unchecked_because: str | None = Field(
        description="why plans of a run that has ended are not checked, such as `the deadline`"
    )
    plans: list[PlanAnswer]


class ExecutionAnswer(Answer):
    """The status of an execution; `counts` and `verified` are present once it has ended."""

    id: str
    status: Status
    plan: str
    run: str
    backend: str
    values: bool
    seed: int | None
    request: TensorRequestAnswer
    counts: dict[str, Any] | None
    verified: dict[str, Any] | None
    problem: dict[str, Any] | None
    created_at: datetime
    ended_at: datetime | None
    links: dict[str, str]


class MeasurementAnswer(Answer):
    """A time of a plan that was measured where it really ran."""

    id: str
    seconds: float = Field(description="of one step, the median over the repeats")
    repeats: int | None = Field(description="how often it was measured")
    repeat_error: float | None = Field(
        description="how far repeats lie apart: half the distance of the quartiles, over the median"
    )
    measured_on: str = Field(description="where it ran, in words")
    created_at: datetime


class PlanDetailAnswer(PlanAnswer):
    """A plan with its decisions and history."""

    run: str
    graph_id: str
    mesh: str
    objectives: list[str]
    on_frontier: bool
    moves: list[dict[str, Any]]
    placements: dict[str, Any]
    loading: dict[str, Any] | None = Field(
        description="what loading inputs takes, once, before the first step"
    )
    memory: dict[str, int] = Field(
        description="what the fullest device holds, by term of device_memory_bytes; empty where its device lacks a "
        "figure"
    )
    executions: list[ExecutionAnswer]
    measurements: list[MeasurementAnswer] = Field(description="measured times, the newest first")
    links: dict[str, str]


class MovesAnswer(Answer):
    """The moves of a plan: replayed from the run's graph, they lead to it."""

    moves: list[dict[str, Any]]


class ExplainedStep(Answer):
    """One move, or several simplifications in a row, and the cost of the program after it."""

    first: int = Field(description="the number of its first move, from 1")
    moves: list[dict[str, Any]]
    blocks: int = Field(description="of the program after it")
    cost: dict[str, float | int]
    effect: dict[str, float | int] = Field(description="what it changed of each cost")
    without: dict[str, float | int] | None = Field(
        description="what the finished plan would cost more without it, and without those that build on it"
    )
    gone_with: list[int] = Field(
        description="numbers of later moves that build on it: left out then too, in whole or at some places"
    )


class BlockHistoryAnswer(Answer):
    """The origin of one block."""

    events: list[int] = Field(description="places in `events`, counted from 0")
    origins: list[str] = Field(description="the blocks of the imported program from which it stems")
    became: list[str] | None = Field(None, description="of a block that is gone: those that stem from it")


class ExplanationAnswer(Answer):
    """A plan's history with costs, and the origin of every block in it."""

    plan: str
    objectives: list[str]
    devices: str
    stages: StagesAnswer | None = Field(description="the pipeline; null for a plan without")
    stage_devices: list[str] = Field(
        description="the devices of each stage, where stages have different ones; else empty"
    )
    offload: OffloadAnswer | None = Field(description="what lies on the hosts; null where nothing does")
    start: dict[str, float | int] = Field(description="with every device computing everything")
    steps: list[ExplainedStep]
    cost: dict[str, float | int]
    as_stored: bool | None = Field(
        description="whether the history ends at the plan's cost, to the last digit"
    )
    cost_model: int = Field(description="version of the cost model that computed these costs")
    cost_model_note: str | None = Field(
        description="set where another version computed the plan's stored cost, which may then differ"
    )
    rules: dict[str, str] = Field(description="what each rule does, in a line")
    events: list[dict[str, Any]] = Field(description="what one move did to one block")
    blocks: dict[str, BlockHistoryAnswer]
