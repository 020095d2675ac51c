"""The forms of bodies: what is asked and what is answered, with examples that the tests send."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from optimizer.optimize import DEFAULT_OBJECTIVES
from service.lifecycle import Status

Text = Annotated[str, Field(max_length=1000)]
Id = Annotated[str, Field(max_length=64)]


class Body(BaseModel):
    """A request's body: unknown members are errors, and `1` is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BudgetBody(Body):
    """When the search ends: the first limit reached. Neither: ten seconds."""

    seconds: float | None = Field(None, description="seconds of searching", examples=[10])
    evaluations: int | None = Field(None, description="plans to evaluate")


class RunBody(Body):
    """A search to be made."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "graph_id": "0123456789abcdef0123456789abcdef",
                    "mesh": "dgx-h100",
                    "objectives": ["time_s", "peak_memory_bytes"],
                    "constraints": ["peak_memory_bytes<=60GiB"],
                    "budget": {"seconds": 2},
                    "seed": 0,
                }
            ]
        },
    )

    graph_id: Id = Field(description="the program")
    mesh: Text | dict[str, Any] = Field(
        description="the name of a machine, or an object with the fields of a mesh file"
    )
    objectives: list[Text] = Field(
        list(DEFAULT_OBJECTIVES), max_length=32, description="what plans are judged by"
    )
    constraints: list[Text] = Field([], max_length=32, description="bounds such as 'time_s<=5ms'")
    budget: BudgetBody = Field(BudgetBody(seconds=None, evaluations=None), description="when the search ends")
    seed: int = Field(0, description="seed of all randomness")
    islands: int | None = Field(None, description="searches side by side; default: the worker's cores")
    rules: list[Text] | None = Field(None, max_length=1000, description="structural rules; default: all")
    pins: dict[Text, Text] = Field({}, max_length=10_000, description="site: spec of a block's output")
    start_from: Id | None = Field(None, description="a run of the same graph whose frontier is the start")
    compute_dtype: Text | None = Field(None, description="precision of contractions, such as bf16")
    devices: Text = Field(
        "any", description="any: part of the machine may stay idle; all: every device works"
    )
    inputs: Text = Field("chosen", description="chosen or replicated")
    outputs: Text = Field("sharded", description="sharded or gathered")
    verify: Text = Field("auto", description="auto, none, dry or execute")


class ExecutionBody(Body):
    """A plan to be run on the device simulator."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"backend": "numpy", "values": True, "seed": 0}]},
    )

    backend: Literal["numpy"] = Field("numpy", description="what computes")
    values: bool = Field(True, description="compute with seeded values; false: count alone")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of inputs and weights")


class FaultAnswer(BaseModel):
    """One thing that is wrong."""

    pointer: str = Field(description="JSON pointer into the body, or #query/name, #header/name, #path/name")
    detail: str
    allowed: list[str] | None = None


class ProblemAnswer(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultAnswer] | None = None


class GraphAnswer(BaseModel):
    """A program without its document."""

    id: str
    name: str
    blocks: int
    lacks_values: bool = Field(description="its weights were too large to keep")
    created_at: datetime
    summary: dict[str, Any] | None
    links: dict[str, str]


class GraphsAnswer(BaseModel):
    """Programs, newest first."""

    items: list[GraphAnswer]
    next: str | None = Field(description="the cursor of the next page")


class AcceptedAnswer(BaseModel):
    """A job that waits for a worker."""

    id: str
    status: Status
    links: dict[str, str]


class RunAnswer(BaseModel):
    """How a run stands."""

    id: str
    status: Status
    phase: str
    graph_id: str
    graph: str
    mesh: str
    objectives: list[str]
    constraints: list[str]
    budget: dict[str, float | int | None]
    seed: int
    islands: int | None
    rules: list[str] | None
    pins: dict[str, str]
    start_from: str | None
    compute_dtype: str | None
    devices: str
    inputs: str
    outputs: str
    verify: str
    evaluations: int
    seconds: float
    front: int
    hypervolume: float
    attempt: int
    stopped: str
    problem: dict[str, Any] | None
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: dict[str, str]


class RunDetailAnswer(RunAnswer):
    """A run with everything but its plans."""

    machine: dict[str, Any]
    history: list[dict[str, float]]
    rule_statistics: dict[str, dict[str, int]]
    versions: dict[str, str]
    host: dict[str, Any]
    timings: dict[str, float]


class RunsAnswer(BaseModel):
    """Runs, newest first."""

    items: list[RunAnswer]
    next: str | None = Field(description="the cursor of the next page")


class ObjectiveAnswer(BaseModel):
    """Something that plans are judged by."""

    name: str
    unit: str
    direction: Literal["minimize"]
    title: str
    formula: str


class PlanAnswer(BaseModel):
    """A plan of a frontier."""

    id: str
    plan: str = Field(description="derived from what the plan is: equal plans of two runs have equal ones")
    cost: dict[str, float | int]
    feasible: bool
    devices: str
    move_count: int
    verified: dict[str, Any] | None


class FrontierAnswer(BaseModel):
    """The plans that a run shows, least in its first objective first."""

    run: str
    status: Status
    objectives: list[ObjectiveAnswer]
    plans: list[PlanAnswer]


class ExecutionAnswer(BaseModel):
    """How an execution stands; counts and verified come with its end."""

    id: str
    status: Status
    plan: str
    run: str
    backend: str
    values: bool
    seed: int | None
    counts: dict[str, Any] | None
    verified: dict[str, Any] | None
    problem: dict[str, Any] | None
    created_at: datetime
    ended_at: datetime | None
    links: dict[str, str]


class PlanDetailAnswer(PlanAnswer):
    """A plan with its decisions and history."""

    run: str
    graph_id: str
    mesh: str
    objectives: list[str]
    on_frontier: bool
    moves: list[dict[str, Any]]
    placements: dict[str, Any]
    executions: list[ExecutionAnswer]
    links: dict[str, str]


class MovesAnswer(BaseModel):
    """How a plan came about: replayed from the run's graph, these moves lead to it."""

    moves: list[dict[str, Any]]


class CatalogueAnswer(BaseModel):
    """All members of a catalogue."""

    items: list[dict[str, Any]]


class HealthAnswer(BaseModel):
    """Whether the service is well; `workers` are those heard of in the last seconds."""

    status: Literal["ok", "unavailable"]
    database: bool | None = None
    workers: int | None = None
