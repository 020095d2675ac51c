"""Models of response bodies: these members and no others."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tapestry.service.api.option_models import with_response_options
from tapestry.service.lifecycle import Status


class Answer(BaseModel):
    """A response body: these members and no others."""

    model_config = ConfigDict(extra="forbid")


class FaultAnswer(Answer):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer into the body, or #query/name, #header/name, #path/name")
    detail: str
    allowed: list[str] | None = None


class ProblemAnswer(Answer):
    """A description of an error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultAnswer] | None = None
    size: dict[str, int] | None = Field(None, description="what is too large: its amounts by name")
    limit: dict[str, float] | None = Field(None, description="what these, or a quota, may be at most")
    used: dict[str, float] | None = Field(None, description="how much of a quota is used")


class ObjectiveAnswer(Answer):
    """An objective by which plans are evaluated."""

    name: str
    unit: str
    direction: Literal["minimize"]
    title: str
    description: str = Field(description="what it is, in words")
    expression: str = Field(
        description="how it is computed: an expression over what is counted for every plan, figures of the device, "
        "`device_count` and other objectives"
    )


class GraphAnswer(Answer):
    """A program without its document."""

    id: str
    name: str
    blocks: int
    lacks_values: bool = Field(description="its weights were too large to keep")
    created_at: datetime
    summary: dict[str, Any] | None
    objectives: list[ObjectiveAnswer] = Field(description="those of the resources that it prices itself")
    links: dict[str, str]


class GraphsAnswer(Answer):
    """Programs, newest first."""

    items: list[GraphAnswer]
    next: str | None = Field(description="the cursor of the next page")


class ImportAnswer(Answer):
    """A program that was uploaded and is read by a worker."""

    id: str
    status: Status
    name: str = Field(description="the program's name; empty for a TEG document, which has its own")
    size_bytes: int = Field(description="of what was uploaded")
    attempt: int
    position: int | None = Field(
        description="1 for the import that is read next, as things are; null once it is read"
    )
    graph_id: str | None = Field(
        description="the program, once the import has succeeded, unless it was deleted"
    )
    problem: dict[str, Any] | None = Field(
        description="why it failed: the problem document, with the same `errors`, of an upload that is read at once"
    )
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: dict[str, str]


class ImportsAnswer(Answer):
    """Imports, newest first."""

    items: list[ImportAnswer]
    next: str | None = Field(description="the cursor of the next page")


class RefusalAnswer(Answer):
    """A rule that was disabled: it fails, gives another type, does not end or grows without bound."""

    rule: str
    reason: str
    hint: str


class AcceptedAnswer(Answer):
    """A job that waits for a worker."""

    id: str
    status: Status
    links: dict[str, str]


class SubmittedRunAnswer(AcceptedAnswer):
    """A run that waits for a worker, or one that has answered an equal request before."""

    reused: bool = Field(description="the run was there before the request: nothing is searched again")


class ExecutionAcceptedAnswer(AcceptedAnswer):
    """An execution that waits for a worker."""

    unread: list[str] = Field(description="names in the given files that no input of the program has")


class TensorRequestAnswer(Answer):
    """The values of an execution; without given ones and stored tensors, inputs are seeded."""

    given: list[str] = Field(description="inputs whose values were given with the request")
    tensors: dict[str, str] = Field(description="inputs that are stored tensors, by their names")
    save: dict[str, str] = Field(description="outputs stored as tensors, by their names")
    outputs: bool = Field(description="the outputs are kept")


class QueueAnswer(Answer):
    """The place of a run that waits for a worker, and when it is expected to begin."""

    position: int = Field(description="1 for the run that is next, as things are now")
    expected_start: datetime | None = Field(
        description="by what runs and waits before it, and how long runs took lately; null while no worker is there"
    )
    earliest_start: datetime | None = Field(description="if all take as long as the shorter ones did")
    latest_start: datetime | None = Field(description="if all take as long as the longer ones did")
    guess: bool = Field(description="fewer than five runs have ended here: limits in place of durations")


@with_response_options
class RunAnswer(Answer):
    """The status of a run."""

    id: str
    status: Status
    phase: str
    graph_id: str
    graph: str
    mesh: str
    evaluations: int
    seconds: float
    front: int
    hypervolume: float
    best: dict[str, float] = Field(
        description="the least value of each objective, and of time and peak memory, among the plans so far"
    )
    trend: list[list[float]] = Field(
        description="how the hypervolume grew: pairs of seconds of searching and hypervolume, at most 32"
    )
    tags: list[str] = Field(description="words that people gave it, sorted")
    notes: str = Field(description="what people wrote about it")
    attempt: int
    stopped: str
    problem: dict[str, Any] | None
    priority: int | None = Field(description="the higher one goes first; null once the run has ended")
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: dict[str, str]


class OptionAnswer(Answer):
    """One option of a run, its title and its value as texts."""

    title: str
    text: str


class BoundScopeAnswer(Answer):
    """The plans that a bound holds for: all placements, prefetches and orders of copies of so many structures."""

    structures: int = Field(description="the original program, and rewritten forms that the search kept")
    views: list[str] = Field(description="groupings of the sub-axes of the mesh, such as `gpu.0 x gpu.1`")
    schedule_orders: list[str]
    devices: list[str] = Field(description="the parts of the mesh that work, such as `gpu:4`, or `all`")
    micro_batches: list[int] = Field(default=[1], description="in how many rounds plans run, 1 for none")


class BoundAnswer(Answer):
    """A value of a cost that no plan in the scope is below; it is proven, by duality, not estimated."""

    bound: float = Field(description="in the unit of the cost")
    best: float | None = Field(
        description="the least of the plans found in the scope; null where there is none"
    )
    gap: float | None = Field(description="the share of the best by which the bound may still be too large")
    scope: BoundScopeAnswer = Field(description="another structure may be better")


class RunDetailAnswer(RunAnswer):
    """A run with everything but its plans."""

    queue: QueueAnswer | None = Field(description="null once a worker has begun it")
    mesh_hash: str = Field(description="a hash of all figures of the mesh, which `links.mesh` has")
    mesh_is_named: bool = Field(
        description="whether a request may name the mesh: the catalog has the very same"
    )
    options: list[OptionAnswer] = Field(description="the options of the run as texts, to be read by people")
    request: dict[str, Any] = Field(description="the options as the request for such a run says them")
    history: list[dict[str, float]]
    rule_statistics: dict[str, dict[str, int]]
    refused_rules: list[RefusalAnswer] = Field(description="the search went on without these")
    bounds: dict[str, BoundAnswer] = Field(
        description="what no plan can be below, by objective and by cost with a limit; empty until the search is over, "
        "and for runs of earlier releases"
    )
    expected: dict[str, float] = Field(description="shares by which a minute more would lower objectives")
    versions: dict[str, str]
    host: dict[str, Any]
    timings: dict[str, float]


class RunsAnswer(Answer):
    """Runs, newest first."""

    items: list[RunAnswer]
    next: str | None = Field(description="the cursor of the next page")


class RunLabelsAnswer(Answer):
    """Values by which the list of runs can be filtered, each with the number of its runs."""

    tags: dict[str, int]
    meshes: dict[str, int]


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


class CatalogAnswer(Answer):
    """All members of a catalog."""

    items: list[dict[str, Any]]


class ElementPositionAnswer(Answer):
    """An element, or padding, at its place in a layout."""

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
    element: ElementPositionAnswer | None = Field(description="where the element at the coordinates lies")
    slot: ElementPositionAnswer | None = Field(description="what lies at the offset")
    value: str | None = Field(
        description="the element at the coordinates, of a layout that computes its elements and has no buffers"
    )


class HealthAnswer(Answer):
    """The answer of a health check."""

    status: Literal["ok"]


class ReadyAnswer(Answer):
    """Readiness of the service; `workers` are those heard of in the last seconds.

    `clock_skew_s` is the largest difference of one of their clocks from the database's, 0 where that is a file.
    """

    status: Literal["ok"]
    workers: int
    clock_skew_s: float
