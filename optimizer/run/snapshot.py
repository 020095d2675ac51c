"""Snapshots of a running search: its front, plans on demand, and a checkpoint to resume from."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapestry.costmodel.objective import Objective
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.report import current_constraints, plan_of
from tapestry.optimizer.run.checkpoint import Checkpoint, freeze
from tapestry.optimizer.run.plan import Budget, Plan, Progress
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import Variant
from tapestry.teg.brief import counted, shown


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A search between two rounds; a value that does not change while the search continues.

    `values` `(n, m)` is the common front of feasible plans over all variants, mutually non-dominated and not
    thinned; `plan(i)` builds row `i`. `bounds` are the relative bounds as they stand. `rules` counts per rule how
    often it was applied and how often it helped. `is_last` marks the end of the search, `stopped` is then the reason
    why it ended.
    """

    progress: Progress
    objectives: tuple[Objective, ...]
    values: np.ndarray
    bounds: tuple[Constraint, ...]
    rules: Mapping[str, tuple[int, int]]
    is_last: bool
    _checkpoint: Checkpoint
    _members: Sequence[tuple[Variant, int]]

    def __repr__(self) -> str:
        progress = self.progress
        parts = (
            counted(len(self.values), "plan"),
            f"{progress.evaluations:,} evaluations in {progress.seconds:.1f} s",
        )
        return shown("Snapshot", (*parts, f"stopped: {self.stopped}" if self.is_last else ""))

    @property
    def stopped(self) -> str:
        """The reason why the search has ended; empty while it runs."""
        return self._checkpoint.stopped

    def plan(self, row: int) -> Plan:
        """Build the plan of row `row` of `values`."""
        return plan_of(*self._members[row])

    def checkpoint(self) -> Checkpoint:
        """Return the complete state, from which `optimize(resume=...)` continues."""
        return self._checkpoint


class Publisher:
    """A publisher that calls back with a snapshot about every `period_s` seconds, and once at the end."""

    def __init__(
        self,
        call: Callable[[Snapshot], None] | None,
        period_s: float,
        objectives: tuple[Objective, ...],
        constraints: tuple[Constraint, ...],
    ) -> None:
        self._call, self._period_s, self._objectives = call, period_s, objectives
        self._relative = tuple(c for c in constraints if c.is_relative)
        self._next_s = 0.0

    def publish_if_due(
        self, state: SearchState, rng: Mapping[str, Any], budget: Budget, is_last: bool = False
    ) -> None:
        """Call back with a snapshot if it is time; `rng` is the generator's state between the rounds."""
        now = time.perf_counter()
        if self._call is None or (now < self._next_s and not is_last):
            return
        self._next_s = now + self._period_s
        self._call(self._snapshot(state, rng, budget, is_last))

    def _snapshot(
        self, state: SearchState, rng: Mapping[str, Any], budget: Budget, is_last: bool
    ) -> Snapshot:
        values, owner = state.all_values()
        report = state.history[-1] if state.history else state.progress("searching", budget, values)
        checkpoint = freeze(state, rng)
        pairs = zip(state.variants, checkpoint.variants, strict=True)
        frozen = [replace(variant, archive=saved.archive, origins=saved.origins) for variant, saved in pairs]
        row_of = np.concatenate([np.arange(len(v.archive.value)) for v in frozen])
        front = np.flatnonzero(nondominated(values))
        return Snapshot(
            report,
            self._objectives,
            values[front],
            current_constraints(self._relative, state.submeshes[0]),
            state.rule_statistics(),
            is_last,
            checkpoint,
            [(frozen[int(owner[k])], int(row_of[k])) for k in front],
        )
