"""What goes into the store and what comes out: values, apart from rows and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from optimizer import Budget, Result


@dataclass(frozen=True)
class Execution:
    """A plan that was run on the simulator: `counts` and `verified` as JSON, `trace` in Perfetto's form."""

    backend: str
    seed: int | None
    counts: Mapping[str, Any]
    verified: Mapping[str, Any]
    created_at: datetime
    trace: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FinishedRun:
    """A search that is over, with what was asked of it and what was checked, to be stored as a whole.

    `verified` and `executions` are by plan id; a plan that was not checked is missing in both.
    """

    result: Result
    budget: Budget
    created_at: datetime
    versions: Mapping[str, str]
    host: Mapping[str, Any]
    verified: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    executions: Mapping[str, Execution] = field(default_factory=dict)
    rules: Sequence[str] | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    compute_dtype: str | None = None


@dataclass(frozen=True)
class GraphSummary:
    """A stored graph without its document."""

    id: str
    name: str
    blocks: int
    lacks_values: bool
    created_at: datetime


@dataclass(frozen=True)
class StoredPlan:
    """A stored plan without its placements; `key` is its place in the store."""

    key: int
    id: str
    run_id: str
    graph_id: str
    feasible: bool
    cost: Mapping[str, float]
    moves: Sequence[Mapping[str, Any]]
    verified: Mapping[str, Any] | None


@dataclass(frozen=True)
class RunSummary:
    """A stored run without its frontier."""

    id: str
    graph_id: str
    graph_name: str
    mesh_name: str
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    budget_seconds: float | None
    budget_evaluations: int | None
    seed: int
    islands: int
    compute_dtype: str | None
    status: str
    stopped: str
    evaluations: int
    seconds: float
    created_at: datetime


@dataclass(frozen=True)
class StoredRun:
    """A stored run: summary, machine, frontier in order, rules by name as (applied, improved), history."""

    summary: RunSummary
    mesh: Mapping[str, Any]
    frontier: tuple[StoredPlan, ...]
    timings: Mapping[str, float]
    rules: Mapping[str, tuple[int, int]]
    pins: Mapping[str, str]
    history: tuple[Mapping[str, float], ...]
    versions: Mapping[str, str]
    host: Mapping[str, Any]
