"""The forms of bodies: what is asked and what is answered. Unknown members are errors on both sides."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from costmodel.objectives import NAMES
from hardware import mesh_names
from optimizer.optimize import DEFAULT_OBJECTIVES, DEVICES, LAYOUTS
from service.api.described import Printable
from service.checking import MODES
from service.lifecycle import Status
from teg.sharding.check import INPUT_OPTIONS, OUTPUT_OPTIONS

LARGEST = 2**63 - 1

Text = Annotated[str, Field(max_length=1000), Printable]


def _choice(default: str, known: tuple[str, ...], description: str) -> Any:
    """A text that is one of few; which, is checked with everything else that has a meaning."""
    return Field(default, description=description, json_schema_extra={"enum": list(known)})


def _figure(description: str, **schema: float) -> Any:
    """A figure that may be left out; its bounds are told here and checked with everything else."""
    return Field(None, description=description, json_schema_extra={**schema})


class Body(BaseModel):
    """A request's body: unknown members are errors, and `1` is no text."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BudgetBody(Body):
    """When the search ends: at the first limit reached. Without any, after ten seconds."""

    seconds: float | None = _figure("seconds of searching", exclusiveMinimum=0)
    evaluations: int | None = _figure("plans to evaluate", minimum=1)


class RunBody(Body):
    """A search to be made."""

    graph_id: str = Field(description="the program", pattern="^[0-9a-f]{32}$")
    mesh: Text | dict[str, Any] = Field(
        description="the name of a machine (`/v1/meshes`), or an object with the fields of a mesh file: name, "
        "device (a name of `/v1/devices`, or an object with its fields) and axes",
        examples=list(mesh_names()),
    )
    objectives: list[Annotated[Text, Field(json_schema_extra={"enum": list(NAMES)})]] = Field(
        list(DEFAULT_OBJECTIVES),
        max_length=100,
        description="what plans are judged by",
        json_schema_extra={"minItems": 1, "uniqueItems": True},
    )
    constraints: list[Text] = Field([], max_length=32, description="bounds such as `time_s<=5ms`")
    budget: BudgetBody = Field(BudgetBody(seconds=None, evaluations=None), description="when the search ends")
    seed: int = Field(
        0, description="seed of all randomness", json_schema_extra={"minimum": 0, "maximum": LARGEST}
    )
    islands: int | None = _figure("searches side by side; default: the worker's cores", minimum=1)
    rules: list[Text] | None = Field(
        None, max_length=1000, description="structural rules (`/v1/rules`); default: all"
    )
    pins: dict[Text, Text] = Field({}, max_length=10_000, description="site: spec of a block's output")
    start_from: Text | None = Field(None, description="a run of the same graph whose frontier is the start")
    compute_dtype: Text | None = Field(None, description="precision of contractions, such as bf16")
    devices: Text = _choice("any", DEVICES, "any: part of the machine may stay idle; all: every device works")
    inputs: Text = _choice(
        "chosen",
        INPUT_OPTIONS,
        "chosen: inputs are born as the plan wants them; replicated: whole everywhere",
    )
    outputs: Text = _choice(
        "sharded", OUTPUT_OPTIONS, "sharded: outputs stay as the plan leaves them; gathered: whole everywhere"
    )
    layouts: Text = _choice(
        "chosen",
        LAYOUTS,
        "chosen: plans choose physical layouts; native: every tensor in its device's default layout",
    )
    verify: Text = _choice(
        "auto",
        MODES,
        "auto: every plan is proven and counted, the telling ones are executed where that takes seconds; "
        "dry: none is executed; execute: all are; none: nothing is checked",
    )


class ExecutionBody(Body):
    """A plan to be run on the device simulator."""

    backend: Literal["numpy"] = Field("numpy", description="what computes")
    values: bool = Field(True, description="compute with seeded values; false: count alone")
    seed: int = Field(0, ge=0, le=LARGEST, description="seed of inputs and weights")


LayoutText = Annotated[str, Field(max_length=20_000)]


class DrawingBody(Body):
    """A layout to be drawn."""

    text: LayoutText = Field(description="a layout in any notation", examples=["f32[3,5]{1,0:T(2,2)}"])
    dtype: Text | None = Field(None, description="the element's type, for texts that do not say it")


class LayoutBody(DrawingBody):
    """A layout to be described."""

    at: list[Annotated[int, Field(ge=0, le=LARGEST)]] | None = Field(
        None, max_length=1000, description="coordinates: where does this element lie?"
    )
    offset: int | None = Field(
        None, ge=0, le=LARGEST, description="slots through all buffers: what lies there?"
    )


class Answer(BaseModel):
    """What is answered: these members and no others."""

    model_config = ConfigDict(extra="forbid")


class FaultAnswer(Answer):
    """One thing that is wrong."""

    pointer: str = Field(description="JSON pointer into the body, or #query/name, #header/name, #path/name")
    detail: str
    allowed: list[str] | None = None


class ProblemAnswer(Answer):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultAnswer] | None = None


class GraphAnswer(Answer):
    """A program without its document."""

    id: str
    name: str
    blocks: int
    lacks_values: bool = Field(description="its weights were too large to keep")
    created_at: datetime
    summary: dict[str, Any] | None
    links: dict[str, str]


class GraphsAnswer(Answer):
    """Programs, newest first."""

    items: list[GraphAnswer]
    next: str | None = Field(description="the cursor of the next page")


class AcceptedAnswer(Answer):
    """A job that waits for a worker."""

    id: str
    status: Status
    links: dict[str, str]


class RunAnswer(Answer):
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
    layouts: str
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


class RefusalAnswer(Answer):
    """A rule that was not used any more: it fails, gives another type, does not end or grows without bound."""

    rule: str
    reason: str
    cure: str


class RunDetailAnswer(RunAnswer):
    """A run with everything but its plans."""

    machine: dict[str, Any]
    history: list[dict[str, float]]
    rule_statistics: dict[str, dict[str, int]]
    refused_rules: list[RefusalAnswer] = Field(description="the search went on without these")
    versions: dict[str, str]
    host: dict[str, Any]
    timings: dict[str, float]


class RunsAnswer(Answer):
    """Runs, newest first."""

    items: list[RunAnswer]
    next: str | None = Field(description="the cursor of the next page")


class ObjectiveAnswer(Answer):
    """Something that plans are judged by."""

    name: str
    unit: str
    direction: Literal["minimize"]
    title: str
    formula: str


class PlanAnswer(Answer):
    """A plan of a frontier."""

    id: str
    plan: str = Field(description="derived from what the plan is: equal plans of two runs have equal ones")
    cost: dict[str, float | int]
    feasible: bool
    devices: str
    move_count: int
    verified: dict[str, Any] | None


class FrontierAnswer(Answer):
    """The plans that a run shows, least in its first objective first."""

    run: str
    status: Status
    objectives: list[ObjectiveAnswer]
    plans: list[PlanAnswer]


class ExecutionAnswer(Answer):
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


class MovesAnswer(Answer):
    """How a plan came about: replayed from the run's graph, these moves lead to it."""

    moves: list[dict[str, Any]]


class ExplainedStep(Answer):
    """One move, or several simplifications in a row, and what the program costs after it."""

    first: int = Field(description="the number of its first move, from 1")
    moves: list[dict[str, Any]]
    blocks: int = Field(description="of the program after it")
    cost: dict[str, float | int]
    effect: dict[str, float | int] = Field(description="what it changed of each cost")
    without: dict[str, float | int] | None = Field(
        description="what the finished plan would cost more without it; null where others build on it"
    )


class StoryAnswer(Answer):
    """How one block came about."""

    events: list[int] = Field(description="places in `events`, counted from 0")
    origins: list[str] = Field(description="the blocks of the program as it was handed in that it stems from")
    became: list[str] | None = Field(None, description="of a block that is gone: those that stem from it")


class ExplanationAnswer(Answer):
    """A plan's history with costs, and of every block that it met how that came about."""

    plan: str
    objectives: list[str]
    devices: str
    start: dict[str, float | int] = Field(description="with every device computing everything")
    steps: list[ExplainedStep]
    cost: dict[str, float | int]
    as_stored: bool | None = Field(
        description="whether the history ends at the plan's cost, to the last digit"
    )
    rules: dict[str, str] = Field(description="what each rule does, in a line")
    events: list[dict[str, Any]] = Field(description="what one move did to one block")
    blocks: dict[str, StoryAnswer]


class CatalogueAnswer(Answer):
    """All members of a catalogue."""

    items: list[dict[str, Any]]


class LyingAnswer(Answer):
    """An element, or padding, in its place."""

    coordinates: list[int] | None = Field(description="null where there is padding")
    is_padding: bool
    offset: int = Field(description="slots through all buffers laid end to end")
    buffer: int
    buffer_name: str
    slot: int = Field(description="counted in its buffer")
    byte: int | None = Field(description="counted in its buffer; null where elements share exponents")
    bit: int | None = Field(description="counted in that byte")


class LayoutAnswer(Answer):
    """A layout of a tensor: shapes, buffers and bytes, padding included."""

    text: str = Field(description="as its project prints it")
    notation: str
    title: str
    shape: list[int]
    element_bits: int
    element_count: int
    physical_shape: list[int] = Field(description="padded, most major first")
    buffer_count: int
    buffer_elements: int = Field(description="slots of each buffer")
    size_bytes: int
    padding_bytes: int
    padding_share: float
    element: LyingAnswer | None = Field(description="where the element at the coordinates lies")
    slot: LyingAnswer | None = Field(description="what lies at the offset")


class HealthAnswer(Answer):
    """A sign of life."""

    status: Literal["ok"]


class ReadyAnswer(Answer):
    """Whether the service can work; `workers` are those heard of in the last seconds."""

    status: Literal["ok"]
    workers: int
