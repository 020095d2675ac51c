"""Tests that the same seed, islands and evaluations give the same frontier on any executor, timed runs by count."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tapestry.optimizer import Budget, Result
from tapestry.optimizer.run.workers import InlineExecutor
from tests.cases import first, rotating
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import frontier, search

EPOCH = 16_384  # evaluations per island and round; a smaller budget keeps only some islands busy


def repeats(result: Result, other: Result) -> bool:
    same = (result.evaluations, result.rules, [p.hypervolume for p in result.history])
    return frontier(result) == frontier(other) and same == (
        other.evaluations,
        other.rules,
        [p.hypervolume for p in other.history],
    )


@pytest.mark.parametrize(
    ("program", "islands"), first(1, [("perceptron", 1), ("attention", 1), ("attention", 3)])
)
def test_twice_the_same(program: str, islands: int) -> None:
    several = {"islands": islands, "evaluations": 2 * islands * EPOCH}
    runs = [search(GRAPHS[program](), seed=5, executor=InlineExecutor(), **several) for _ in range(2)]
    assert len(runs[0].frontier) > 5
    assert repeats(*runs)


@pytest.mark.slow
def test_another_seed_searches_otherwise() -> None:
    one, other = (search(seed=seed, evaluations=6000) for seed in (5, 6))  # more than how it begins takes
    assert frontier(one) != frontier(other)


@pytest.mark.slow
def test_another_number_of_islands_searches_otherwise() -> None:
    one, other = (search(seed=5, islands=islands, evaluations=6000) for islands in (1, 2))
    assert frontier(one) != frontier(other)


@pytest.mark.slow
def test_processes_give_what_one_process_gives() -> None:
    options = {"seed": 5, "islands": 2, "evaluations": 4 * EPOCH}
    inline = search(executor=InlineExecutor(), **options)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert repeats(inline, search(executor=pool, **options))
        assert repeats(inline, search(executor=pool, **options)), "twice"
    assert repeats(inline, search(**options)), "and with processes of its own"


@pytest.mark.parametrize("workers", rotating(2, (1, 2)))
def test_fewer_workers_than_islands_give_the_same(workers: int) -> None:
    """Check that epochs that wait for a worker start from the round's front, not from later results."""
    options = {"seed": 4, "islands": 6, "evaluations": 15 * EPOCH}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        assert repeats(search(executor=InlineExecutor(), **options), search(executor=pool, **options))


@pytest.mark.slow
@pytest.mark.parametrize("islands", [1, 2])
def test_a_timed_run_is_reproduced_by_its_evaluations(islands: int) -> None:
    timed = search(seed=9, budget=Budget(seconds=0.7), islands=islands, executor=InlineExecutor())
    assert timed.stopped in ("budget", "converged")

    again = search(seed=9, evaluations=timed.evaluations, islands=islands, executor=InlineExecutor())

    assert again.evaluations == timed.evaluations
    assert frontier(again) == frontier(timed)


class Watched(Executor):
    """An executor that runs inline, and counts its tasks."""

    def __init__(self) -> None:
        self.tasks = 0
        self.inner = InlineExecutor()

    def submit(self, fn, /, *args, **kwargs):
        self.tasks += 1
        return self.inner.submit(fn, *args, **kwargs)


@pytest.mark.slow
def test_any_executor_will_do() -> None:
    watched = Watched()
    options = {"seed": 5, "islands": 3, "evaluations": 3 * EPOCH}
    assert repeats(search(executor=watched, **options), search(executor=InlineExecutor(), **options))
    assert watched.tasks >= 6, "one to warm up and one to search per island, in every round"


@pytest.mark.parametrize("evaluations", rotating(2, (1, 40, 700, 5000)))
def test_as_many_evaluations_as_requested(evaluations: int) -> None:
    found = search(evaluations=evaluations, islands=2, executor=InlineExecutor())
    assert evaluations <= found.evaluations <= max(evaluations * 1.2, evaluations + 1000)
    assert found.frontier
