"""The service's answers as values. Members that a newer service adds are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from tapestry.client.policies import least_plan
from tapestry.optimizer.run.options import OPTIONS, RunOptions

ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Record:
    """A part of an answer, whose fields have the names that they have in JSON; `document` is the JSON as it came."""

    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False, kw_only=True)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Convert a JSON object; each value becomes what the type of its field says."""
        kinds = _kinds(cls)  # type: ignore[arg-type]  # a class can be hashed
        values = {name: _value(kinds[name], document[name]) for name in kinds if name != "document"}
        return cls(**values, document=document)


@cache
def _kinds(record: type) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)}


def _value(kind: Any, value: Any) -> Any:
    if get_origin(kind) is UnionType:
        return None if value is None else _value(next(k for k in get_args(kind) if k is not NoneType), value)
    if get_origin(kind) is Mapping:
        return {name: _value(get_args(kind)[1], member) for name, member in value.items()}
    if get_origin(kind) is tuple:
        return tuple(_value(get_args(kind)[0], member) for member in value)
    if kind is datetime:
        return datetime.fromisoformat(value)
    return kind.from_json(value) if isinstance(kind, type) and issubclass(kind, Record) else value


@dataclass(frozen=True)
class ObjectiveRecord(Record):
    """A cost by which plans are evaluated; less is better."""

    name: str
    unit: str
    direction: str
    title: str
    description: str
    expression: str


@dataclass(frozen=True, repr=False)
class GraphRecord(Record):
    """A program in the service, without its document; `summary` is what an import says of it."""

    id: str
    name: str
    blocks: int
    lacks_values: bool
    created_at: datetime
    summary: Mapping[str, Any] | None
    objectives: tuple[ObjectiveRecord, ...]
    links: Mapping[str, str]

    def __repr__(self) -> str:
        return f"GraphRecord({self.name!r}, {self.blocks} blocks, id {self.id})"


@dataclass(frozen=True)
class ImportRecord(Record):
    """A program that was uploaded and is read by a worker; `position` is its place in the queue while it waits."""

    id: str
    status: str
    name: str
    size_bytes: int
    position: int | None
    graph_id: str | None
    problem: Mapping[str, Any] | None

    @property
    def has_ended(self) -> bool:
        """True if it will not change any more."""
        return self.status in ENDED


@dataclass(frozen=True)
class SubmittedRun(Record):
    """The answer to a request for a run; `reused`: the run was there before, and has answered an equal request."""

    id: str
    status: str
    reused: bool
    links: Mapping[str, str]

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True, repr=False)
class RunRecord(Record):
    """The status of a run. Once it has begun, its options hold the islands that it is done with.

    Of the runs that wait, one of a higher `priority` goes first; None once it has ended. `best` has the least value of
    each objective among its plans, `trend` pairs of seconds and hypervolume; people gave it `tags` and `notes`.
    """

    id: str
    status: str
    phase: str
    graph_id: str
    graph: str
    mesh: str
    options: RunOptions
    evaluations: int
    seconds: float
    front: int
    hypervolume: float
    best: Mapping[str, float]
    trend: tuple[Any, ...]
    tags: tuple[str, ...]
    notes: str
    attempt: int
    stopped: str
    problem: Mapping[str, Any] | None
    priority: int | None
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: Mapping[str, str]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Convert a JSON object, in which the options of the run are members of their own."""
        members = {option.path[0] for option in OPTIONS} & document.keys()
        options = RunOptions.from_json({name: document[name] for name in members})
        return replace(super().from_json({**document, "options": options}), document=document)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self.graph!r} on {self.mesh}, {self.status}, {self.front} plans)"

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class BoundScopeRecord(Record):
    """The plans that a bound holds for: all placements, prefetches and orders of copies of so many structures.

    Those are the program and rewritten forms of it, in these views of the mesh, on these parts of it, in so
    many micro-batches.
    """

    structures: int
    views: tuple[str, ...]
    schedule_orders: tuple[str, ...]
    devices: tuple[str, ...]
    micro_batches: tuple[int, ...]


@dataclass(frozen=True)
class BoundRecord(Record):
    """A proven value of a cost that no plan in the `scope` is below, and the best found there, if any.

    `gap` is the share of the best by which it may still be too large.
    """

    bound: float
    best: float | None
    gap: float | None
    scope: BoundScopeRecord


@dataclass(frozen=True)
class QueueRecord(Record):
    """The place of a run that waits, 1 for the next one, and when it is expected to begin.

    The moments are None while no worker is there; `guess` says that too few runs have ended to estimate well.
    """

    position: int
    expected_start: datetime | None
    earliest_start: datetime | None
    latest_start: datetime | None
    guess: bool


@dataclass(frozen=True, repr=False)
class RunDetail(RunRecord):
    """A run with everything but its plans.

    `bounds` are the proven ones by objective and by cost with a limit, and `expected` the share by which each objective
    would fall in another minute, an extrapolation; both are empty until the search is over. `request` are the options
    as a request for such a run says them. `queue` is its place while it waits, else None.
    """

    queue: QueueRecord | None
    mesh_hash: str
    mesh_is_named: bool
    request: Mapping[str, Any]
    history: tuple[Mapping[str, float], ...]
    rule_statistics: Mapping[str, Mapping[str, int]]
    refused_rules: tuple[Mapping[str, str], ...]
    bounds: Mapping[str, BoundRecord]
    expected: Mapping[str, float]
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    timings: Mapping[str, float]


@dataclass(frozen=True)
class ClassTimeRecord(Record):
    """A part of a plan's time, such as `softmax.fp32`, and the standard deviation of its logarithm."""

    name: str
    seconds: float
    error: float


@dataclass(frozen=True)
class TimeRecord(Record):
    """The median time of a plan, which lies from `low` to `high` with the `probability`.

    `classes` are its parts with an error in common each, the least certain first.
    """

    seconds: float
    low: float
    high: float
    probability: float
    error: float
    classes: tuple[ClassTimeRecord, ...]


@dataclass(frozen=True)
class DifferenceRecord(Record):
    """The difference of two times: by how many `seconds` the other is slower, with the standard deviation `error_s`.

    It is negative where the other is faster. The faster one is faster with the `probability`; the model cannot tell if
    the difference is `within_error`. It rests on the class `rests_on`, by `lead_s`.
    """

    seconds: float
    error_s: float
    probability: float
    within_error: bool
    rests_on: str
    lead_s: float


@dataclass(frozen=True)
class LeadRecord(DifferenceRecord):
    """The lead of a plan over the `other`, the fastest of its frontier; that of the fastest, over the next."""

    other: str


@dataclass(frozen=True, repr=False)
class CostedPlan(Record):
    """A plan with its costs by objective, its time with the error, and what its checks say (`verdict`).

    `origin` is the `kind` of source that it comes from, with the `name` of a seed; None where that is not known.
    """

    id: str
    plan: str
    cost: Mapping[str, float]
    cost_model: int
    cost_model_note: str | None
    time: TimeRecord | None
    feasible: bool
    devices: str
    micro_batches: int
    recompute: Mapping[str, int] | None
    offload: Mapping[str, int] | None
    stages: Mapping[str, Any] | None
    origin: Mapping[str, str] | None
    move_count: int
    verified: Mapping[str, Any] | None
    verdict: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self.verdict}, {self.move_count} moves)"


@dataclass(frozen=True, repr=False)
class PlanRecord(CostedPlan):
    """A plan of a frontier, with its lead over another; None where there is none to compare with."""

    lead: LeadRecord | None


@dataclass(frozen=True, repr=False)
class MeasurementRecord(Record):
    """A time of a plan, measured where it really ran: seconds of one step, and how far repeats lie apart."""

    id: str
    seconds: float
    repeats: int | None
    repeat_error: float | None
    measured_on: str
    created_at: datetime

    def __repr__(self) -> str:
        return f"MeasurementRecord({self.seconds:.4g} s on {self.measured_on})"


@dataclass(frozen=True, repr=False)
class PlanDetail(PlanRecord):
    """A plan with its decisions, history, executions and measured times.

    `loading` is what is paid once, before its first step; `memory` what the fullest device holds, in bytes by term.
    """

    run: str
    graph_id: str
    mesh: str
    objectives: tuple[str, ...]
    on_frontier: bool
    moves: tuple[Mapping[str, Any], ...]
    placements: Mapping[str, Any]
    loading: Mapping[str, Any] | None
    memory: Mapping[str, int]
    executions: tuple[Mapping[str, Any], ...]
    measurements: tuple[MeasurementRecord, ...]
    links: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class Frontier(Record):
    """The plans of a run, sorted by its first objective, the least first.

    `checks` counts them by verdict; `unchecked_because` says why some are not checked.
    """

    run: str
    status: str
    objectives: tuple[ObjectiveRecord, ...]
    checks: Mapping[str, int]
    unchecked_because: str | None
    plans: tuple[PlanRecord, ...]

    def __repr__(self) -> str:
        return f"Frontier(run {self.run}, {self.status}, {len(self.plans)} plans)"

    def least(self, objective: str, under: Mapping[str, float | str] | None = None) -> PlanRecord:
        """Return the plan with the least cost by one objective, of those that keep the bounds.

        `under` maps objectives to the most that a plan may cost: a number in the objective's unit, or a text such as
        `40GiB`. Plans whose checks failed, and those that share a suspected rule with one, are not considered.

        >>> frontier.least("energy_j", under={"time_s": "5ms"})  # doctest: +SKIP

        Raises:
            ArgumentError: an objective or a unit that is not known; near names are given.
            NoPlanError: no plan keeps all bounds; the message has the least that there is of each.
        """
        return least_plan(self.plans, objective, under or {}, f"run {self.run}")

    def fastest(self, under: Mapping[str, float | str] | None = None) -> PlanRecord:
        """Return the plan with the least time, of those that keep the bounds, as `least("time_s", under)`."""
        return self.least("time_s", under)


@dataclass(frozen=True)
class FinishedSearch:
    """A run that has ended, its frontier, and whether it had answered an equal request before."""

    run: RunDetail
    frontier: Frontier
    reused: bool


@dataclass(frozen=True)
class EventRecord:
    """An event of a run, with the number that the service gives it; docs/service.md lists the kinds."""

    number: int
    kind: str
    data: Any

    @property
    def ends_run(self) -> bool:
        """True for the last event of a run."""
        return self.kind == "status" and self.data["status"] in ENDED
