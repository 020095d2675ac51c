"""What runs in a worker: an epoch of one island. State in, state out; a variant's arrays are loaded once."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tapestry.costmodel.kernelarrays import Space, State, new_state
from tapestry.optimizer.archive import Archive
from tapestry.optimizer.island import SEEN_SIZE, Goal, Statistics, new_statistics, run_epoch
from tapestry.optimizer.searchspace import SearchSpace


@dataclass(frozen=True)
class VariantFile:
    """Where the arrays of a variant lie: written by the coordinator in its own private folder."""

    token: str
    path: str


@dataclass(frozen=True)
class Epoch:
    """One epoch of one island: everything it depends on."""

    variant: VariantFile
    archive: Archive
    goal: Goal
    rule_weight: np.ndarray
    stream: np.ndarray
    evaluations: int


@dataclass(frozen=True)
class EpochResult:
    """What an epoch returns: its archive, what its moves achieved, plans evaluated."""

    archive: Archive
    statistics: Statistics
    evaluations: int


T = TypeVar("T")

_loaded: dict[str, tuple[Space, SearchSpace, State]] = {}
LARGEST_SHELF = 6


def write_variant(folder: Path, token: str, space: Space, search: SearchSpace) -> VariantFile:
    """Write a variant's arrays where workers of this machine find them."""
    path = folder / f"{token}.pickle"
    with path.open("wb") as file:
        pickle.dump((tuple(space), tuple(search)), file, protocol=pickle.HIGHEST_PROTOCOL)
    return VariantFile(token, str(path))


def _arrays(variant: VariantFile) -> tuple[Space, SearchSpace, State]:
    if variant.token not in _loaded:
        while len(_loaded) >= LARGEST_SHELF:
            _loaded.pop(next(iter(_loaded)))
        with Path(variant.path).open("rb") as file:
            space, search = pickle.load(file)
        loaded = Space(*space)
        _loaded[variant.token] = (loaded, SearchSpace(*search), new_state(loaded))
    return _loaded[variant.token]


def run(epoch: Epoch) -> EpochResult:
    """Run an epoch; a pure function of `epoch`."""
    space, search, state = _arrays(epoch.variant)
    archive = Archive(*(a.copy() for a in epoch.archive))
    statistics = new_statistics()
    seen = np.zeros(SEEN_SIZE, np.uint64)
    done = run_epoch(
        space,
        state,
        search,
        archive,
        epoch.goal,
        epoch.stream,
        epoch.rule_weight,
        statistics,
        seen,
        epoch.evaluations,
    )
    return EpochResult(archive, statistics, int(done))


class InlineExecutor(Executor):
    """Runs everything at once in this process: for tests, one island, and debugging."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run now; the future is done when it is returned."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
