"""Tasks of worker processes: an epoch of one island. State in, what has changed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.archive.rows import ArchiveChange, change_of, changed, with_capacity
from tapestry.optimizer.placement.credits import Odds, Statistics, new_statistics
from tapestry.optimizer.placement.island import SEEN_SIZE, run_epoch
from tapestry.optimizer.run.stopping import POLL_S
from tapestry.optimizer.run.variant_arrays import (
    UnknownVariant,
    VariantArrays,
    VariantError,
    load_variant,
    with_content,
)
from tapestry.teg.stopping import CheckStop


@dataclass(frozen=True)
class Epoch:
    """The inputs of one epoch of one island: everything that it depends on.

    `archive` has no unused rows; in the epoch, its front and its pool have this `capacity`. If the epoch is apart, its
    archive is not a copy of the variant's, and its goal is of its own; so many plans were evaluated before it began.
    """

    variant: VariantArrays
    archive: Archive
    capacity: tuple[int, int]
    goal: Goal
    odds: Odds
    random_state: np.ndarray
    evaluations: int
    is_apart: bool = False
    evaluated_before: int = 0


@dataclass(frozen=True)
class EpochAnswer:
    """The answer of a worker to an epoch: the change of its archive, statistics, and the plans evaluated."""

    change: ArchiveChange
    statistics: Statistics
    evaluations: int
    best: np.ndarray


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch: its archive, the statistics of its moves, and the number of plans evaluated.

    `best` are the least values of costs with a relative bound that it knows of.
    """

    archive: Archive
    statistics: Statistics
    evaluations: int
    best: np.ndarray


class WorkersLost(BrokenExecutor):
    """Error raised by an executor whose workers were all lost, for tasks that no worker can run any more."""


T = TypeVar("T")
Answer = EpochAnswer | UnknownVariant


def preload() -> None:
    """Do nothing: a process that is asked to has loaded this module, and with it the loops of the search."""


def run(epoch: Epoch) -> Answer:
    """Run an epoch; a pure function of `epoch`, but that a process may not know the arrays of its variant.

    Raises:
        VariantError: the archive is not of this variant; compiled code would read past its rows.
    """
    loaded = load_variant(epoch.variant)
    if isinstance(loaded, UnknownVariant):
        return loaded
    if epoch.archive.genes.shape[1] != len(loaded.state.genes):
        raise VariantError(f"the archive is of another variant than {epoch.variant.token[:12]}")
    archive, goal = with_capacity(epoch.archive, *epoch.capacity), epoch.goal.own_best()
    statistics = new_statistics()
    seen = np.zeros(SEEN_SIZE, np.uint64)
    done = run_epoch(
        loaded.space,
        loaded.state,
        loaded.search,
        archive,
        goal,
        epoch.random_state.copy(),
        epoch.odds,
        statistics,
        seen,
        epoch.evaluations,
    )
    return EpochAnswer(change_of(epoch.archive, archive), statistics, int(done), goal.best)


def results_of(
    executor: Executor, epochs: Sequence[Epoch], futures: Sequence[Future[Answer]], check_stop: CheckStop
) -> list[EpochResult]:
    """Wait for the answers to epochs, and return their results; workers that lack a variant's arrays get them.

    All are awaited before the first is used: an executor may write a waiting epoch's archive out only when a worker is
    free for it. As long as an executor `is_stalled`, having no workers, `check_stop` is called now and then.
    """
    answers = _awaited(executor, futures, check_stop)
    unknown = [k for k, answer in enumerate(answers) if isinstance(answer, UnknownVariant)]
    again = [executor.submit(run, _with_content(epochs[k])) for k in unknown]
    try:
        for k, answer in zip(unknown, _awaited(executor, again, check_stop), strict=True):
            answers[k] = answer
    except BaseException:
        for future in again:
            future.cancel()
        raise
    return [_result(epoch, answer) for epoch, answer in zip(epochs, answers, strict=True)]


def _awaited(executor: Executor, futures: Sequence[Future[Answer]], check_stop: CheckStop) -> list[Answer]:
    while wait(futures, timeout=POLL_S).not_done:
        if getattr(executor, "is_stalled", False):
            check_stop()
    return [future.result() for future in futures]


def _with_content(epoch: Epoch) -> Epoch:
    return replace(epoch, variant=with_content(epoch.variant))


def _result(epoch: Epoch, answer: Answer) -> EpochResult:
    assert isinstance(answer, EpochAnswer), "a worker was sent the bytes of a variant"
    # Plans of its front may yet move to its pool: it has as much room as the epoch had.
    archive = with_capacity(changed(epoch.archive, answer.change), *epoch.capacity)
    return EpochResult(archive, answer.statistics, answer.evaluations, answer.best)


class InlineExecutor(Executor):
    """An executor that runs everything immediately in this process: for tests, one island, and debugging."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run immediately; the future is done when it is returned."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
