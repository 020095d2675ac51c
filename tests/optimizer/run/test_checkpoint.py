"""Tests that a search continued from a checkpoint gives the uninterrupted results: plans, counts, history."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.optimizer import Budget, Checkpoint, CheckpointError, Result, Snapshot, StaleCheckpoint
from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.run.checkpoint import MAGIC, SavedVariant
from tapestry.optimizer.run.serialization import serialize
from tapestry.optimizer.run.workers import InlineExecutor
from tests.cases import rotating
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.resumed import reported
from tests.optimizer.run.test_processes import are_gone, children_of, command_of
from tests.optimizer.searches import EIGHT, search

EVALUATIONS = 220_000
FEW = 40_000


class Watcher:
    """A callback that keeps every snapshot, and raises in the snapshot of the given number."""

    def __init__(self, raise_at: int | None = None) -> None:
        self.snapshots: list[Snapshot] = []
        self.raise_at = raise_at

    def __call__(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        if len(self.snapshots) == self.raise_at and not snapshot.is_last:
            raise Drained

    @property
    def saved(self) -> list[bytes]:
        return [snapshot.checkpoint().to_bytes() for snapshot in self.snapshots]


class Drained(Exception):
    """Error raised when a caller ends a search."""


def watched(program: str, **options: Any) -> tuple[Result, Watcher]:
    watcher = Watcher()
    result = search(GRAPHS[program](), on_checkpoint=watcher, checkpoint_s=0, **options)
    return result, watcher


@pytest.fixture(scope="module")
def leftovers() -> tuple[Result, Watcher]:
    """Run a search that tries structural moves and keeps some of their results; return it with all its snapshots."""
    return watched("observed", seed=2, islands=2, evaluations=EVALUATIONS, executor=InlineExecutor())


@pytest.fixture(scope="module")
def brief() -> tuple[Result, Watcher]:
    """Run a search of a few rounds; return it with all its snapshots."""
    return watched("observed", seed=2, islands=2, evaluations=FEW, executor=InlineExecutor())


@pytest.mark.slow
def test_the_search_below_rewrites_the_program(leftovers: tuple[Result, Watcher]) -> None:
    last = leftovers[1].snapshots[-1].checkpoint()
    assert max(len(variant.moves) for variant in last.variants) >= 2
    assert sum(len(variant.taken) for variant in last.variants) > 1


@pytest.mark.slow
def test_watching_changes_nothing(leftovers: tuple[Result, Watcher]) -> None:
    alone = search(
        GRAPHS["observed"](), seed=2, islands=2, evaluations=EVALUATIONS, executor=InlineExecutor()
    )
    assert reported(alone) == reported(leftovers[0])


@pytest.mark.parametrize(
    ("searched", "at"), [("brief", 1), *rotating(2, [("leftovers", at) for at in (0, 4, -2, -1)])]
)
def test_resumed_anywhere_a_search_gives_the_same(
    searched: str, at: int, request: pytest.FixtureRequest
) -> None:
    result, watcher = request.getfixturevalue(searched)
    evaluations = FEW if searched == "brief" else EVALUATIONS
    saved = Checkpoint.from_bytes(watcher.saved[at])
    again = search(
        GRAPHS["observed"](),
        seed=2,
        islands=2,
        evaluations=evaluations,
        executor=InlineExecutor(),
        resume=saved,
    )
    assert reported(again) == reported(result)
    assert again.seconds >= saved.timings["search_s"], "the clock goes on"


@pytest.mark.slow
def test_stopped_again_and_again(leftovers: tuple[Result, Watcher]) -> None:
    options = {"seed": 2, "islands": 2, "evaluations": EVALUATIONS, "executor": InlineExecutor()}
    saved: Checkpoint | None = None
    attempts = 0
    while saved is None or not saved.stopped:
        watcher = Watcher(raise_at=4)
        try:
            result = search(
                GRAPHS["observed"](), resume=saved, on_checkpoint=watcher, checkpoint_s=0, **options
            )
        except Drained:
            attempts += 1
        saved = Checkpoint.from_bytes(watcher.saved[-1])
    assert attempts >= 2
    assert reported(result) == reported(leftovers[0])


@pytest.mark.parametrize(
    ("program", "islands", "at"), rotating(3, [("attention", 1, 2), ("observed", 2, 3), ("observed", 2, 7)])
)
def test_resumed_in_a_fresh_process(program: str, islands: int, at: int, tmp_path: Path, root: Path) -> None:
    executor = InlineExecutor()
    result, watcher = watched(program, seed=2, islands=islands, evaluations=EVALUATIONS, executor=executor)
    path = tmp_path / "saved"
    path.write_bytes(watcher.saved[at])
    answer = subprocess.run(
        [sys.executable, "-m", "tests.optimizer.run.resumed", str(path), program, str(EVALUATIONS)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(answer.stdout) == reported(result)
    assert any(variant.taken for variant in watcher.snapshots[-1].checkpoint().variants)


@pytest.mark.slow
def test_what_a_callback_raises_ends_the_search_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = children_of(os.getpid())
    with pytest.raises(Drained):
        search(islands=2, evaluations=EVALUATIONS, on_checkpoint=Watcher(raise_at=2), checkpoint_s=0)
    assert list(tmp_path.iterdir()) == []
    mine = children_of(os.getpid()) - before
    assert are_gone({pid for pid in mine if "spawn_main" in command_of(pid)})


@pytest.mark.slow
def test_snapshots_are_values_that_say_how_the_search_stands(leftovers: tuple[Result, Watcher]) -> None:
    result, watcher = leftovers
    assert [s.is_last for s in watcher.snapshots] == [False] * (len(watcher.snapshots) - 1) + [True]
    assert [s.stopped for s in watcher.snapshots] == [""] * (len(watcher.snapshots) - 1) + ["budget"]
    assert [s.progress for s in watcher.snapshots[1:]] == list(result.history)
    assert watcher.snapshots[0].progress.evaluations < watcher.snapshots[1].progress.evaluations
    assert watcher.snapshots[-1].rules == result.rules
    names = [objective.name for objective in result.objectives]
    for snapshot in (watcher.snapshots[0], watcher.snapshots[-1]):
        assert nondominated(snapshot.values).all()
        assert len(snapshot.values) == snapshot.progress.front
        for row in (0, len(snapshot.values) // 2, len(snapshot.values) - 1):
            plan = snapshot.plan(row)
            assert plan.feasible
            assert [plan.cost[name] for name in names] == pytest.approx(snapshot.values[row], rel=1e-12)
    plans = {watcher.snapshots[-1].plan(row).id for row in range(len(watcher.snapshots[-1].values))}
    assert {plan.id for plan in result.frontier} <= plans, "not thinned"


@pytest.mark.slow
def test_snapshots_come_now_and_then_and_at_the_end() -> None:
    watcher = Watcher()
    search(evaluations=100_000, on_checkpoint=watcher, checkpoint_s=3600)
    assert [(s.is_last, s.stopped) for s in watcher.snapshots] == [(False, ""), (True, "budget")]
    watcher = Watcher()
    search(search=False, on_checkpoint=watcher)
    assert [(s.is_last, s.stopped) for s in watcher.snapshots] == [(True, "seeds")]


def test_the_hypervolume_is_of_one_box_from_the_first_report_on(brief: tuple[Result, Watcher]) -> None:
    result, watcher = brief
    volumes = [snapshot.progress.hypervolume for snapshot in watcher.snapshots]
    assert volumes[0] > 0
    assert all(after >= before * (1 - 1e-6) for before, after in pairwise(volumes))
    first, last = (snapshot.checkpoint().base for snapshot in (watcher.snapshots[0], watcher.snapshots[-1]))
    assert first.corner is not None and np.array_equal(first.corner, last.corner)
    assert list(result.history) == [snapshot.progress for snapshot in watcher.snapshots[1:]]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Archive):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, SavedVariant):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)


def test_bytes_are_read_back_bit_for_bit(brief: tuple[Result, Watcher]) -> None:
    for snapshot in brief[1].snapshots:
        saved = snapshot.checkpoint()
        again = Checkpoint.from_bytes(saved.to_bytes())
        different = [
            f.name for f in fields(saved) if not same(getattr(saved, f.name), getattr(again, f.name))
        ]
        assert different == []
        assert again.to_bytes() == saved.to_bytes()


def test_damaged_bytes_are_refused(brief: tuple[Result, Watcher], rng: np.random.Generator) -> None:
    content = brief[1].saved[1]
    for place in rng.integers(0, len(content), 200):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError, match="no checkpoint to go on from"):
            Checkpoint.from_bytes(bytes(damaged))
    for length in (0, 10, len(MAGIC), len(MAGIC) + 40, len(content) // 2, len(content) - 1):
        with pytest.raises(CheckpointError):
            Checkpoint.from_bytes(content[:length])


def test_other_bytes_are_refused() -> None:
    zipped = io.BytesIO()
    np.savez(zipped, a=np.zeros(3))
    for content in (
        pickle.dumps({"version": 1}),
        zipped.getvalue(),
        serialize(b"tapestry search 0\n", {}, {}),
        serialize(MAGIC, {}, {}),
        serialize(MAGIC, {"variants": []}, {"history": np.zeros((0, 5))}),
    ):
        with pytest.raises(CheckpointError):
            Checkpoint.from_bytes(content)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"program": "attention"}, "program"),
        ({"mesh": EIGHT.part((("gpu", 4),))}, "mesh and another request"),
        ({"seed": 3}, "request"),
        ({"islands": 3}, "request"),
        ({"objectives": ("time_s", "traffic_bytes")}, "request"),
        ({"constraints": ("peak_memory_bytes<=1GiB",)}, "request"),
        ({"rules": ()}, "request"),
        ({"outputs": "gathered"}, "request"),
    ],
)
def test_a_checkpoint_of_another_search_is_stale(
    brief: tuple[Result, Watcher], changed: dict[str, Any], what: str
) -> None:
    saved = brief[1].snapshots[1].checkpoint()
    options = {"program": "observed", "seed": 2, "islands": 2, "executor": InlineExecutor(), **changed}
    with pytest.raises(StaleCheckpoint, match=f"of another {what}: start anew"):
        search(GRAPHS[options.pop("program")](), resume=saved, **options)


def test_a_checkpoint_of_another_release_is_stale(
    brief: tuple[Result, Watcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = Checkpoint.from_bytes(brief[1].saved[1])
    monkeypatch.setattr("tapestry.optimizer.run.initialization._release", lambda: "another")
    with pytest.raises(StaleCheckpoint, match="of another release"):
        search(GRAPHS["observed"](), seed=2, islands=2, executor=InlineExecutor(), resume=saved)


def test_a_larger_budget_goes_on_from_the_end_and_a_spent_one_ends_at_once(
    brief: tuple[Result, Watcher],
) -> None:
    saved = Checkpoint.from_bytes(brief[1].saved[-1])
    options = {"seed": 2, "islands": 2, "executor": InlineExecutor(), "resume": saved}
    longer = search(GRAPHS["observed"](), evaluations=FEW + 40_000, **options)
    assert longer.evaluations >= FEW + 40_000
    assert list(longer.history[: len(saved.history)]) == list(saved.history)
    spent = search(GRAPHS["observed"](), budget=Budget(seconds=saved.timings["search_s"] / 2), **options)
    assert (spent.evaluations, spent.stopped) == (saved.evaluations, "budget")


def test_either_resumed_or_started_from_plans(brief: tuple[Result, Watcher]) -> None:
    result, watcher = brief
    with pytest.raises(ValueError, match="give one of them"):
        search(resume=watcher.snapshots[0].checkpoint(), start_from=result.frontier)
