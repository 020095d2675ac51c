"""Tasks of worker processes: an epoch of one island. State in, state out; variant arrays are loaded once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tapestry.costmodel.kernel_arrays import CompiledSpace, EvaluationState, new_state
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.placement.credits import Odds, Statistics, new_statistics
from tapestry.optimizer.placement.island import SEEN_SIZE, run_epoch
from tapestry.optimizer.placement.search_space import SearchSpace


@dataclass(frozen=True)
class VariantFile:
    """The location of a variant's arrays: a file that the coordinator writes in its own private folder."""

    token: str
    path: str


@dataclass(frozen=True)
class Epoch:
    """The inputs of one epoch of one island: everything that it depends on.

    If it is apart, its archive is not a copy of the variant's, and its goal is of its own; so many plans were evaluated
    before it began.
    """

    variant: VariantFile
    archive: Archive
    goal: Goal
    odds: Odds
    random_state: np.ndarray
    evaluations: int
    is_apart: bool = False
    evaluated_before: int = 0


@dataclass(frozen=True)
class EpochResult:
    """The result of an epoch: its archive, the statistics of its moves, and the number of plans evaluated.

    `best` are the least values of costs with a relative bound that it knows of.
    """

    archive: Archive
    statistics: Statistics
    evaluations: int
    best: np.ndarray


T = TypeVar("T")

_loaded: dict[str, tuple[CompiledSpace, SearchSpace, EvaluationState]] = {}
MOST_LOADED_VARIANTS = 6


def write_variant(folder: Path, token: str, space: CompiledSpace, search: SearchSpace) -> VariantFile:
    """Write a variant's arrays to a file that worker processes on this host can read."""
    path = folder / f"{token}.pickle"
    with path.open("wb") as file:
        pickle.dump((tuple(space), tuple(search)), file, protocol=pickle.HIGHEST_PROTOCOL)
    return VariantFile(token, str(path))


def _arrays(variant: VariantFile) -> tuple[CompiledSpace, SearchSpace, EvaluationState]:
    if variant.token not in _loaded:
        while len(_loaded) >= MOST_LOADED_VARIANTS:
            _loaded.pop(next(iter(_loaded)))
        with Path(variant.path).open("rb") as file:
            space, search = pickle.load(file)
        loaded = CompiledSpace(*space)
        _loaded[variant.token] = (loaded, SearchSpace(*search), new_state(loaded))
    return _loaded[variant.token]


def preload() -> None:
    """Do nothing: a process that is asked to has loaded this module, and with it the loops of the search."""


def run(epoch: Epoch) -> EpochResult:
    """Run an epoch; a pure function of `epoch`."""
    space, search, state = _arrays(epoch.variant)
    archive, goal = Archive(*(a.copy() for a in epoch.archive)), epoch.goal.own_best()
    statistics = new_statistics()
    seen = np.zeros(SEEN_SIZE, np.uint64)
    done = run_epoch(
        space,
        state,
        search,
        archive,
        goal,
        epoch.random_state,
        epoch.odds,
        statistics,
        seen,
        epoch.evaluations,
    )
    return EpochResult(archive, statistics, int(done), goal.best)


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
