"""Tests of epochs on workers that share no files with the coordinator: they ask for the arrays of a variant."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.optimizer.run import variant_arrays
from tapestry.optimizer.run.workers import Epoch, EpochAnswer, InlineExecutor, run
from tests.optimizer.run.test_reproducible import repeats
from tests.optimizer.searches import search


class Remote(Executor):
    """An executor that runs here, but like processes of other hosts: by bytes, without files, forgetting variants."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.received: list[int] = []
        self.requests = 0
        self.changes = 0
        self.loaded: OrderedDict[str, Any] = OrderedDict()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        args = tuple(self._elsewhere(argument) for argument in args)
        future = InlineExecutor().submit(self._apart, fn, *args, **kwargs)
        answer = pickle.dumps(future.result())
        self.received.append(len(answer))
        if args and isinstance(args[0], Epoch):
            self.sent.append(len(pickle.dumps(args[0])))
            found = future.result()
            self.requests += not isinstance(found, EpochAnswer)
            self.changes += found.change.entered if isinstance(found, EpochAnswer) else 0
        return future

    @staticmethod
    def _elsewhere(argument: Any) -> Any:
        if not isinstance(argument, Epoch):
            return argument
        epoch = pickle.loads(pickle.dumps(argument))
        return replace(epoch, variant=replace(epoch.variant, path="/nowhere/x"))

    def _apart(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        ours, variant_arrays._loaded = variant_arrays._loaded, self.loaded
        try:
            return fn(*args, **kwargs)
        finally:
            variant_arrays._loaded = ours


@pytest.mark.slow
@pytest.mark.parametrize("most", [8, 1])
def test_workers_without_the_files_give_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_arrays, "MOST_LOADED_VARIANTS", most)
    remote, options = Remote(), {"seed": 5, "islands": 2, "evaluations": 20_000}
    assert repeats(search(executor=remote, **options), search(executor=InlineExecutor(), **options))
    assert remote.requests > 0
    if most > 1:
        assert remote.requests < len(remote.sent) / 3, "a worker keeps what it was sent"
    assert remote.changes > 0


class Widening(InlineExecutor):
    """An executor that widens the plans of an archive by a gene, as if they were of a larger program."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future:
        if fn is run and args[0].archive.size[0]:
            archive = args[0].archive
            args = (
                replace(args[0], archive=archive._replace(genes=np.pad(archive.genes, ((0, 0), (0, 1))))),
            )
        return super().submit(fn, *args, **kwargs)


def test_an_archive_of_another_variant_is_refused() -> None:
    with pytest.raises(variant_arrays.VariantError, match="is of another variant"):
        search(executor=Widening(), islands=1, evaluations=2_000)
