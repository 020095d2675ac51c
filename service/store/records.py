"""Records that go into the store and come out of it: values, independent of rows and sessions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple

from tapestry.optimizer import Plan, Progress, Result, RunOptions
from tapestry.optimizer.run.options import AUTO
from tapestry.service.store.tenancy import DEFAULT
from tapestry.service.store.tensor_values import TensorPlace, TensorRequest, TensorValue

Cursor = tuple[datetime, str]
Kind = Literal["run", "execution", "import"]


@dataclass(frozen=True)
class RunRequest:
    """A run to do: its options are checked; `mesh` is the mesh's document, its device written out."""

    graph_id: str
    mesh: Mapping[str, Any]
    options: RunOptions

    @cached_property
    def hash(self) -> str:
        """A hash of graph, mesh and options as they were asked for: equal requests have equal ones.

        The prior is none of it, nor are related runs that are looked up: they decide how soon plans are found, not
        what is asked.
        """
        wanted = self.options.changed(start_from=None) if self.options.start_from == AUTO else self.options
        options = {name: value for name, value in wanted.to_stored().items() if name != "prior"}
        content = [self.graph_id, self.mesh, options]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Idempotency:
    """A client's key for one request: `fingerprint` is a hash of the request, so that a key cannot stand for two."""

    scope: str
    key: str
    fingerprint: str


@dataclass(frozen=True)
class Submitted:
    """A job that was queued now, or before under the same key (`is_replay`), at the moment of the first request."""

    id: str
    is_replay: bool
    requested_at: datetime


@dataclass(frozen=True)
class SavedGraph:
    """A graph that was stored; `is_new` if it was not in the store before."""

    id: str
    is_new: bool


@dataclass(frozen=True)
class NewExecution:
    """An execution of a plan on the simulator: `counts` and `verified` as JSON, `trace` in Perfetto's format.

    `seed` is None where nothing was computed, and where a user gave the values.
    """

    backend: str
    seed: int | None
    counts: Mapping[str, Any]
    verified: Mapping[str, Any]
    created_at: datetime
    trace: Mapping[str, Any] | None = None
    request: TensorRequest | None = None


@dataclass(frozen=True)
class ComputedTensors:
    """The values that an execution leaves: `outputs` by name to keep with it, tensors to store by their names, and the
    `places` of these.
    """

    outputs: Mapping[str, TensorValue] = field(default_factory=dict)
    saved: Mapping[str, TensorValue] = field(default_factory=dict)
    places: Mapping[str, TensorPlace] = field(default_factory=dict)


@dataclass(frozen=True)
class FinishedRun:
    """A search that has ended, with its options as asked for and the results of its checks, to be stored as a whole.

    `verified` and `executions` are by plan id; a plan that was not checked is missing in both. `prior` is the snapshot
    that the search began with, `started_from` the runs.
    """

    result: Result
    options: RunOptions
    created_at: datetime
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    verified: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    executions: Mapping[str, NewExecution] = field(default_factory=dict)
    prior: str = "none"
    started_from: str | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class NewBatchEntry:
    """An entry of a batch that is asked for: its run, or the problem because of which there can be none."""

    graph_id: str
    mesh_name: str
    seed: int
    request: RunRequest | None
    problem: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StoredBatch:
    """A batch in the store, with as many entries as `count`."""

    id: str
    name: str
    count: int
    created_at: datetime


@dataclass(frozen=True)
class BatchStanding:
    """Standing of a batch: its entries by status, and the least value of each objective over all of its runs."""

    statuses: Mapping[str, int]
    best: Mapping[str, float]


@dataclass(frozen=True)
class StoredBatchEntry:
    """An entry of a stored batch; `status` is that of its run, or `failed` where there is none."""

    number: int
    graph_id: str
    mesh_name: str
    seed: int
    run_id: str | None
    status: str
    problem: Mapping[str, Any] | None


@dataclass(frozen=True)
class LearnedRate:
    """The sums of what all runs tell of a rule on operators of a class, for a kind of mesh and an objective focus.

    `snapshots` are the runs that made such moves; the counts and sums are those of `optimizer.run.plan.Rate`.
    """

    rule: str
    operator_class: str
    mesh_kind: str
    focus: str
    snapshots: int
    applicable: int
    applied: int
    improved: int
    credit: float
    volume: float


class Kin(NamedTuple):
    """The properties by which programs are related: equal ones, the same family, a similar number of blocks."""

    structural_hash: str
    family: str | None
    blocks: int

    def is_related_to(self, other: Kin) -> bool:
        return self.structural_hash == other.structural_hash or (
            self.family is not None and self.family == other.family
        )


@dataclass(frozen=True)
class StoredGraph:
    """A stored graph without its document; `summary` is that of its import, where it was stored."""

    id: str
    name: str
    blocks: int
    lacks_values: bool
    created_at: datetime
    summary: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rewriting:
    """The derivation of a program from another: by these moves, as JSON, and of their result this `part`.

    The part is `program` or `before` where it was divided (`rewrites.preparation`), else empty for all of it.
    """

    source_id: str
    part: str
    moves: Sequence[Mapping[str, Any]]
    created_at: datetime


@dataclass(frozen=True)
class StoredPlan:
    """A stored plan without its placements; `key` is its primary key in the store.

    `moves` is empty where only its frontier was read; `move_count` is their number. `devices` is the submesh
    that works, such as `gpu:4`, or `all`; `micro_batches` are 1 for a plan without,
    `recompute` is None for one that stores everything, `offload` for one that does on the devices, and `stages` for
    one without (`Plan.stages`), of which `devices` is each stage's submesh. `cost_model` is the version of the
    cost model that computed `cost`, and the `time` with its error, as JSON; None for a plan of before it was stored.
    `origin` is that of `Plan`, as JSON; None likewise.
    """

    key: int
    id: str
    run_id: str
    feasible: bool
    on_frontier: bool
    cost: Mapping[str, float]
    cost_model: int
    time: Mapping[str, Any] | None
    devices: str
    micro_batches: int
    recompute: Mapping[str, int] | None
    offload: Mapping[str, int] | None
    stages: Mapping[str, Any] | None
    origin: Mapping[str, str] | None
    move_count: int
    verified: Mapping[str, Any] | None
    moves: Sequence[Mapping[str, Any]] = ()
    placements: Mapping[str, Any] | None = None

    @property
    def public_id(self) -> str:
        """The unique name of this plan among those of all runs."""
        return f"{self.run_id}-{self.id}"


@dataclass(frozen=True)
class NewMeasurement:
    """The measured time of a plan: `seconds` of one step, the median over `repeats`, on `measured_on` in words.

    `repeat_error` is how far repeats lie apart: half the distance of the quartiles, over the median.
    """

    seconds: float
    measured_on: str
    repeats: int | None = None
    repeat_error: float | None = None


@dataclass(frozen=True, kw_only=True)
class StoredMeasurement(NewMeasurement):
    """A measured time of a stored plan."""

    id: str
    created_at: datetime


@dataclass(frozen=True)
class StoredExecution:
    """An execution of a stored plan, from the queue to its end, without its trace."""

    id: str
    plan_key: int
    plan_id: str
    run_id: str
    status: str
    backend: str
    values: bool
    seed: int | None
    counts: Mapping[str, Any] | None
    verified: Mapping[str, Any] | None
    problem: Mapping[str, Any] | None
    has_trace: bool
    request: TensorRequest
    created_at: datetime
    ended_at: datetime | None

    @property
    def has_outputs(self) -> bool:
        """True if its outputs are there to be fetched."""
        return self.request.outputs and self.counts is not None

    @property
    def public_plan_id(self) -> str:
        """The unique name of its plan among those of all runs."""
        return f"{self.run_id}-{self.plan_id}"


@dataclass(frozen=True)
class ImportRequest:
    """The way to read an uploaded program: a file of a form, or a TEG document (`is_document`); limits as counts.

    `suffix` specifies the format of a file, `data` are the names of its external data. `versions` are those of the
    libraries for which the upload's hash was made.
    """

    is_document: bool
    name: str
    suffix: str
    dims: Mapping[str, int]
    data: tuple[str, ...]
    most_bytes: int
    most_blocks: int
    versions: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "dims": dict(self.dims),
            "data": list(self.data),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ImportRequest:
        return cls(**{**document, "data": tuple(document["data"])})


@dataclass(frozen=True)
class StoredImport:
    """An import, from the queue to its end; `hash` is that of its upload, `size_bytes` the size of its files."""

    id: str
    name: str
    hash: str
    request: ImportRequest
    size_bytes: int
    status: str
    attempt: int
    graph_id: str | None
    problem: Mapping[str, Any] | None
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class RunSummary:
    """A stored run without its frontier. Once it has begun, its options hold the islands that it is done with.

    `priority` decides which waiting run goes first, the higher one; None once the run has ended. `best` has the least
    value of each objective, and of time and peak memory, on the frontier now; `trend` are points (seconds,
    hypervolume), at most 32. `tags` and `notes` are what people wrote about the run.
    """

    id: str
    graph_id: str
    graph_name: str
    mesh_name: str
    options: RunOptions
    status: str
    phase: str
    stopped: str
    attempt: int
    cancel_requested: bool
    priority: int | None
    problem: Mapping[str, Any] | None
    evaluations: int
    seconds: float
    front: int
    hypervolume: float
    best: Mapping[str, float]
    trend: Sequence[Sequence[float]]
    tags: Sequence[str]
    notes: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class QueuePlace:
    """The place of a run that waits, 1 for the next one, and the moments at which it is expected and may begin.

    These are None where no worker is there. An estimate is a guess where too few runs have ended.
    """

    position: int
    expected_start: datetime | None
    earliest_start: datetime | None
    latest_start: datetime | None
    is_guess: bool


@dataclass(frozen=True)
class StoredRun:
    """A stored run: summary, mesh, frontier in order, rules by name as (applied, improved) or `refused`, history.

    `bounds` are the documents of `LowerBound` by objective, `expected` the share by which each would fall in another
    minute of searching; none before the search is over.
    """

    summary: RunSummary
    mesh: Mapping[str, Any]
    frontier: tuple[StoredPlan, ...]
    timings: Mapping[str, float]
    rules: Mapping[str, tuple[int, int]]
    refused: Sequence[Mapping[str, str]]
    bounds: Mapping[str, Mapping[str, Any]]
    expected: Mapping[str, float]
    history: tuple[Mapping[str, float], ...]
    versions: Mapping[str, str]
    host: Mapping[str, Any]


@dataclass(frozen=True)
class RunEvent:
    """An event of a run; see docs/service.md for the kinds and their data."""

    number: int
    kind: str
    data: Any
    created_at: datetime


@dataclass(frozen=True)
class Job:
    """A job of a tenant that a worker has claimed: its writes are fenced by owner and attempt.

    Its process died `deaths` times. `claimed_s` is when it was claimed, by the monotonic clock of the worker's machine:
    its tenant is charged for the seconds since then. `origin` has the id of the request that made it, and its place in
    a trace, as far as it had any.
    """

    kind: Kind
    subject: str
    owner: str
    attempt: int
    attempts_without_progress: int
    cancel_requested: bool
    deaths: int = 0
    tenant: str = DEFAULT
    origin: Mapping[str, str] = field(default_factory=dict)
    claimed_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class RunUpdate:
    """The changes found since a worker's last update: `added` plans join the frontier, `removed` ids leave it.

    `rules` and `refused` (in the form of `service.refusals`) are those of the whole run so far.
    """

    saved: bytes
    phase: str
    progress: Progress
    added: Sequence[Plan]
    removed: Sequence[str]
    rules: Mapping[str, tuple[int, int]]
    refused: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class WorkerHeartbeat:
    """The last heartbeat of a worker: its number, its time by the worker's clock, and by how much that is ahead of the
    database's; None where the database has no clock of its own. `pss_bytes` is the memory of its processes.
    """

    name: str
    host: str
    pid: int
    status: str
    subject: str | None
    seen_at: datetime
    beat: int
    ahead_s: float | None
    pss_bytes: int


@dataclass(frozen=True)
class StoredSize:
    """Something that may be deleted: since when nothing happens to it any more, and about how many bytes it takes."""

    id: str
    since: datetime
    size_bytes: int


@dataclass(frozen=True)
class SharedEpoch:
    """An epoch of an attempt at a run that its worker shares with others: the token of its variant, and its bytes."""

    run_id: str
    attempt: int
    number: int
    variant: str
    content: bytes


@dataclass(frozen=True)
class AnsweredEpoch:
    """The answer of another worker to the epoch of a number: bytes, or what went wrong."""

    number: int
    worker: str
    answer: bytes | None
    fault: str | None
