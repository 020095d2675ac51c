"""Models of response bodies about runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from tapestry.service.api.models import AcceptedAnswer, Answer
from tapestry.service.api.option_models import with_response_options
from tapestry.service.lifecycle import Status


class RefusalAnswer(Answer):
    """A rule that was disabled: it fails, gives another type, does not end or grows without bound."""

    rule: str
    reason: str
    hint: str


class SubmittedRunAnswer(AcceptedAnswer):
    """A run that waits for a worker, or one that has answered an equal request before."""

    reused: bool = Field(description="the run was there before the request: nothing is searched again")


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
