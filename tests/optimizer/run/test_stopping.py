"""Tests that a request to stop takes effect between units of work, and that no work follows it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.view import default_view
from tapestry.optimizer import Progress, Result
from tapestry.optimizer.run import coordinator, first_plans, stopping, variants
from tapestry.optimizer.run.stopping import StopRequested, await_all
from tapestry.optimizer.structure.evaluation import Evaluator
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.costmodel.programs import GRAPHS
from tests.optimizer.searches import EIGHT, search

pytestmark = pytest.mark.slow


class Request:
    """A user who asks for a stop at the `number`-th question whether to stop; it counts questions and work."""

    def __init__(self, number: int) -> None:
        self.number, self.checks = number, 0
        self.work_after = 0

    def __call__(self) -> bool:
        self.checks += 1
        return self.checks >= self.number

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.work_after += self.checks >= self.number
            return function(*arguments, **keywords)

        return call


def stopped_at(number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Request, Result, list[str]]:
    """Search with a stop at the `number`-th question; return the request, the result, and the phases reported."""
    request, phases = Request(number), list[str]()

    def note(progress: Progress) -> None:
        phases.append(progress.phase)

    with monkeypatch.context() as patch:
        patch.setattr(PlanSpace, "_family", request.counted(PlanSpace._family))
        patch.setattr(Evaluator, "kept", request.counted(Evaluator.kept))
        patch.setattr(first_plans, "insert_plans", request.counted(first_plans.insert_plans))
        patch.setattr(coordinator, "run", request.counted(coordinator.run))
        result = search(GRAPHS["perceptron"](), should_stop=request, on_progress=note)
    return request, result, phases


def questions_before(phase: str) -> int:
    """Count the questions that a search asks before it reports a phase."""
    request, seen = Request(10**9), list[int]()

    def note(progress: Progress) -> None:
        if progress.phase == phase:
            seen.append(request.checks)

    search(GRAPHS["perceptron"](), should_stop=request, on_progress=note)
    return seen[0]


def test_a_stop_while_compiling_takes_effect_at_once_and_leaves_no_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = questions_before("seeding")
    for number in (1, 2, last // 4, last // 2, last - 1, last):
        request, result, phases = stopped_at(number, monkeypatch)
        assert (result.stopped, result.frontier, result.shortfall) == ("cancelled", (), None)
        assert (request.checks, request.work_after) == (number, 0)
        assert phases == ["compiling"]


def test_a_stop_while_seeding_keeps_the_first_plans_and_adds_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    last = questions_before("seeding")
    for number in range(last + 2, last + 5):
        request, result, phases = stopped_at(number, monkeypatch)
        assert (result.stopped, phases) == ("cancelled", ["compiling", "seeding"])
        assert result.frontier
        assert request.work_after == 0


def test_a_stop_while_seeding_publishes_what_there_is() -> None:
    request, saved = Request(questions_before("seeding") + 2), list[Any]()

    result = search(GRAPHS["perceptron"](), should_stop=request, on_checkpoint=saved.append)

    assert [snapshot.is_last for snapshot in saved] == [True]
    assert len(saved[0].values) >= len(result.frontier) > 0


def test_a_space_asks_for_each_block_and_each_tensor() -> None:
    graph, checks = GRAPHS["attention"](), list[int]()
    PlanSpace(graph, EIGHT, default_view(MeshShape(EIGHT.axis_sizes)), check_stop=lambda: checks.append(1))
    tensors = sum(len(block.outputs) for block in graph.blocks)
    assert len(checks) == len(graph.blocks) + tensors


def test_a_child_that_is_stopped_while_compiling_ends_the_last_round(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping_now, built = list[bool](), list[int]()
    build = variants.PlanSpace

    def child(*arguments: Any, **keywords: Any) -> PlanSpace:
        stopping_now.append(True)
        space = build(*arguments, **keywords)
        built.append(1)
        return space

    rounds = list[Progress]()

    def note(progress: Progress) -> None:
        if progress.phase == "searching":
            rounds.append(progress)
            monkeypatch.setattr(variants, "PlanSpace", child)

    result = search(evaluations=50_000_000, seed=3, should_stop=lambda: bool(stopping_now), on_progress=note)

    assert (result.stopped, built) == ("cancelled", [])
    assert result.evaluations == rounds[-1].evaluations
    assert result.frontier


def test_waiting_for_workers_ends_with_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "POLL_S", 0.0)
    waiting, checks = [Future[None](), Future[None]()], list[int]()

    def check() -> None:
        checks.append(1)
        if len(checks) == 3:
            raise StopRequested

    with pytest.raises(StopRequested):
        await_all(waiting, check)

    assert len(checks) == 3
    assert all(future.cancelled() for future in waiting)


def test_the_error_of_a_worker_is_raised() -> None:
    failed = Future[None]()
    failed.set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await_all([failed], lambda: None)
