"""Tests of searches on several views of a mesh: which are tried first, that all are, and that no plan is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.view import groupings
from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.run.first_plans import insert_exact
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.variants import (
    new_variant,
)
from tapestry.optimizer.run.view_choice import ranked_views
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.importers.files import read_program
from tests.cases import rotating
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.resumed import reported
from tests.optimizer.run.test_variants import submesh
from tests.optimizer.run.test_warm_start import EPSILON, values, worst_factor
from tests.optimizer.searches import search

pytestmark = pytest.mark.slow

SIXTEEN = load_mesh("2x-dgx-h100")
OPTIONS: dict[str, Any] = {
    "mesh": SIXTEEN,
    "seed": 1,
    "islands": 2,
    "evaluations": 60_000,
    "executor": InlineExecutor(),
}


@pytest.fixture(scope="module")
def searched() -> tuple[Result, list[Snapshot]]:
    """Run a search until it has tried all views; return it with all its snapshots."""
    snapshots: list[Snapshot] = []
    result = search(GRAPHS["attention"](), on_checkpoint=snapshots.append, checkpoint_s=0, **OPTIONS)
    return result, snapshots


def test_a_mesh_of_three_sub_axes_has_one_view() -> None:
    on = submesh()
    assert ranked_views(on, GRAPHS["attention"](), RunOptions()) == ([on.view], 0)


def test_the_first_view_is_about_the_best(root: Path) -> None:
    on, graph = (
        submesh("8x-dgx-h100"),
        read_program(root / "tests/data/graphs/llama2_7b_1layer_b1_s2048.onnx"),
    )
    views, evaluated = ranked_views(on, graph, RunOptions())
    assert evaluated > 0
    fastest = {}
    for view in groupings(on.view.mesh_shape, 3):
        variant = new_variant(0, on.on_view(view), graph, (), RunOptions())
        list(insert_exact(variant, 8))
        fastest[view.axes] = int(variant.archive.raw[: variant.archive.size[0], TIME].min())
    assert fastest[views[0].axes] <= 1.01 * min(fastest.values())
    assert fastest[on.view.axes] > 1.01 * min(fastest.values()), "the finest view is not"


def test_all_views_are_begun(searched: tuple[Result, list[Snapshot]]) -> None:
    saved = [snapshot.checkpoint() for snapshot in searched[1]]
    kinds = [[start.kind for start in checkpoint.starts] for checkpoint in saved]
    assert kinds[0][-1] == "views" and kinds[-1] == []
    assert any("view" in names for names in kinds), "of three views one is the first and one the best"
    whole = {saved[-1].views[variant.submesh] for variant in saved[-1].variants}
    assert len(whole) > 1, "plans of several views are on the front"


@pytest.mark.parametrize("at", rotating(3, (0, 3, -2)))
def test_resumed_between_views_a_search_gives_the_same(
    searched: tuple[Result, list[Snapshot]], at: int
) -> None:
    result, snapshots = searched
    saved = Checkpoint.from_bytes(snapshots[at].checkpoint().to_bytes())
    again = search(GRAPHS["attention"](), resume=saved, **OPTIONS)
    assert reported(again) == reported(result)


def test_a_warm_start_finds_the_view_of_each_plan(searched: tuple[Result, list[Snapshot]]) -> None:
    earlier = searched[0].frontier
    result = search(GRAPHS["attention"](), start_from=earlier, **{**OPTIONS, "evaluations": 1})
    assert result.started_from == len(earlier)
    assert worst_factor(values(result), values(searched[0])) <= 1 + EPSILON
