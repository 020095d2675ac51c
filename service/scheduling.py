"""Order of the jobs that wait, and when each is expected to begin: decided without I/O.

Jobs of higher priority go first. Of equal priority goes the oldest job of the tenant that has used least: seconds of
searching, those of long ago counting less, those that running jobs are expected to take counting in full, divided by
the tenant's weight. So a tenant with a thousand jobs delays the only job of another by those that run already.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import quantiles

from tapestry.optimizer.run.options import DEFAULT_SECONDS, RunOptions

LOWEST, USUAL, HIGHEST = -10, 0, 10  # priorities
HALF_LIFE_S = 3600.0  # after which a second of searching counts half
LEAST_S = 1.0  # that a job counts for, so that every claim moves its tenant back
EVALUATIONS_PER_S = 5000.0
EXECUTION_S = 5.0
IMPORT_S = 30.0
FEW = 5  # recent runs, below which an estimate is a guess
LEAST_LEFT_S = 1.0


@dataclass(frozen=True)
class Waiting:
    """A job that waits. `number` is less for earlier ones, `expected_s` for about how long it will run."""

    subject: str
    tenant: str
    priority: int
    number: int
    expected_s: float


@dataclass(frozen=True)
class Shares:
    """The seconds that tenants have used, and their weights, 1 where there is none: of twice the weight, twice as much.

    `used_s` are decayed seconds of ended jobs and the whole of what running ones are expected to take.
    """

    used_s: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    def level(self, tenant: str) -> float:
        """Return what a tenant has used, per unit of its weight."""
        return self.used_s.get(tenant, 0.0) / self.weights.get(tenant, 1.0)

    def cost(self, job: Waiting) -> float:
        """Return by how much a job raises the level of its tenant."""
        return max(job.expected_s, LEAST_S) / self.weights.get(job.tenant, 1.0)


@dataclass(frozen=True)
class Spread:
    """The durations of recent jobs over those expected of them: the median, and the ends of the middle 80 percent."""

    low: float
    median: float
    high: float
    is_guess: bool


@dataclass(frozen=True)
class ExpectedStart:
    """The time until a waiting job is expected to begin, in seconds, and the least and the most that it may be."""

    expected_s: float
    earliest_s: float
    latest_s: float


def expected_seconds(options: RunOptions) -> float:
    """Return for about how long a run searches: its limits decide."""
    limits = [limit for limit in (options.seconds, options.deadline_seconds) if limit is not None]
    if options.evaluations is not None:
        limits.append(options.evaluations / EVALUATIONS_PER_S)
    return max(min(limits, default=DEFAULT_SECONDS), LEAST_S)


def decayed(seconds: float, age_s: float) -> float:
    """Return what is left of used seconds after some time; a clock that was set back takes nothing away."""
    return seconds * math.pow(0.5, max(age_s, 0.0) / HALF_LIFE_S)


def next_job(heads: Iterable[Waiting], shares: Shares) -> Waiting | None:
    """Return the job to claim, of the oldest ones of each tenant and priority; None if there is none."""
    return min(heads, key=lambda job: _rank(job, shares.level(job.tenant)), default=None)


def in_order(waiting: Iterable[Waiting], shares: Shares) -> Iterator[Waiting]:
    """Yield jobs in the order in which they are claimed if no other comes and none ends meanwhile.

    `n` jobs of `t` tenants take O(n log n) steps.
    """
    jobs = sorted(waiting, key=lambda job: (-job.priority, job.number, job.subject))
    used = dict.fromkeys((job.tenant for job in jobs), 0.0)
    for _, equal in groupby(jobs, key=lambda job: job.priority):
        queues: dict[str, list[Waiting]] = {}
        for job in equal:
            queues.setdefault(job.tenant, []).append(job)
        for queue in queues.values():
            queue.reverse()
        heads = [(_rank(q[-1], shares.level(t) + used[t]), t) for t, q in queues.items()]
        heapq.heapify(heads)
        while heads:
            _, tenant = heads[0]
            job = queues[tenant].pop()
            yield job
            used[tenant] += shares.cost(job)
            if queues[tenant]:
                rank = _rank(queues[tenant][-1], shares.level(tenant) + used[tenant])
                heapq.heapreplace(heads, (rank, tenant))
            else:
                heapq.heappop(heads)


def _rank(job: Waiting, level: float) -> tuple[int, float, int, str]:
    return -job.priority, level, job.number, job.subject


def spread_of(ratios: Sequence[float]) -> Spread:
    """Return how durations of recent jobs relate to those expected; a wide guess where there are too few."""
    if len(ratios) < FEW:
        return Spread(0.5, 1.0, 3.0, is_guess=True)
    tenths = quantiles(ratios, n=10, method="inclusive")
    return Spread(tenths[0], tenths[4], tenths[8], is_guess=False)


def starts(
    order: Sequence[Waiting], running: Sequence[tuple[float, float]], places: int, spread: Spread
) -> list[ExpectedStart]:
    """Return when each job of an order is expected to begin, with so many places for jobs, one at least.

    `running` are the jobs that have a place: the seconds expected of each, and those since when it searches.
    """
    found = []
    for factor in (spread.median, spread.low, spread.high):
        free_at = [max(whole * factor - passed, LEAST_LEFT_S) for whole, passed in running]
        free_at += [0.0] * (places - len(free_at))
        heapq.heapify(free_at)
        begin = []
        for job in order:
            begin.append(free_at[0])
            heapq.heapreplace(free_at, free_at[0] + max(job.expected_s, LEAST_S) * factor)
        found.append(begin)
    return [ExpectedStart(*moments) for moments in zip(*found, strict=True)]
