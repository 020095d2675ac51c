"""Tests of what a search begins with: a front after the first compilation, and every start in its turn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Snapshot
from tapestry.optimizer.run.coordinator import MOST_ON_PROBATION, PROBATION
from tapestry.optimizer.run.parts import ALL_PARTS
from tests.costmodel.programs import GRAPHS
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import search
from tests.teg.sharding.looped import training

EIGHT = load_mesh("dgx-h100")


def begun(**options: object) -> list[Checkpoint]:
    """Run a search, and return its checkpoints from before every round."""
    snapshots: list[Snapshot] = []
    options = {"seed": 3, "evaluations": 48_000, **options}
    search(GRAPHS["observed"](), on_checkpoint=snapshots.append, checkpoint_s=0, **options)
    return [snapshot.checkpoint() for snapshot in snapshots]


def test_a_front_comes_before_all_else_is_prepared() -> None:
    first, *_, last = begun()
    assert len(first.variants) == 1 and int(first.variants[0].archive.size[0]) > 1
    assert [start.kind for start in first.starts[:4]] == ["exact", "recomputation", "offloading", "program"]
    assert any(start.kind == "presearch" for start in first.starts)
    assert last.starts == () and len(last.variants) > 4


def test_where_devices_differ_equal_ones_come_first() -> None:
    first, *_ = begun(mesh=load_mesh("dgx-h100+dgx-a100"), stages=1, evaluations=1000)
    assert [start.kind for start in first.starts[:4]] == ["exact", "program", "recomputation", "offloading"]
    assert first.starts[1].submesh == 1  # the largest part, a whole node


def test_what_one_kind_of_devices_lacks_is_lacking() -> None:
    """Search a step whose state might wait on the hosts, of which only the first node has any."""
    graph = training(64, "float32", state=True)
    found = search(graph, mesh=load_mesh("dgx-h100+mi300x-8"), stages=1, evaluations=500)
    assert found.frontier and all(plan.offload is None for plan in found.frontier)


def test_in_each_round_one_start_is_begun() -> None:
    waiting = [[start for start in saved.starts if start.kind != "view"] for saved in begun()]
    for before, after in pairwise(waiting):
        assert not before or before[0] not in after


def test_parts_of_the_mesh_stay_though_they_hold_nothing_yet() -> None:
    parts = {saved.variants[k].submesh for saved in begun()[-1:] for k in range(len(saved.variants))}
    assert parts >= {0, 1, 2, 3}


@pytest.fixture(scope="module")
def long_search() -> list[Checkpoint]:
    """Return the checkpoints of a search in which variants come and go."""
    return begun(evaluations=60_000)


def test_what_is_near_stays_for_a_while(long_search: list[Checkpoint]) -> None:
    left = [{v.number: v.probation for v in each.variants if v.probation} for each in long_search]
    assert max(map(len, left)) in range(1, MOST_ON_PROBATION + 1)
    assert all(0 < epochs <= PROBATION for each in left for epochs in each.values())
    for before, after in pairwise(left):
        assert all(after[number] <= before[number] for number in before.keys() & after.keys())


def test_a_number_is_one_variants_even_after_it_was_dropped(long_search: list[Checkpoint]) -> None:
    """Check that no file of a dropped variant is taken for that of a later one."""
    kinds = {(v.number, v.submesh, v.structure) for each in long_search for v in each.variants}
    numbers = [{v.number for v in each.variants} for each in long_search]
    assert len(kinds) == len({number for number, _, _ in kinds}) > len(numbers[-1])
    for before, mine, after in zip(long_search, numbers, numbers[1:], strict=False):
        assert max(mine) < before.numbered
        assert all(number >= before.numbered for number in after - mine)


@pytest.mark.slow
def test_resumed_with_starts_left_a_search_gives_the_same() -> None:
    options = {"seed": 3, "islands": 2, "evaluations": 20_000}
    snapshots: list[Snapshot] = []
    whole = search(GRAPHS["observed"](), on_checkpoint=snapshots.append, checkpoint_s=0, **options)
    for at in (1, 4, 6):
        saved = Checkpoint.from_bytes(snapshots[at].checkpoint().to_bytes())
        assert saved.starts
        assert reported(search(GRAPHS["observed"](), resume=saved, **options)) == reported(whole)


def test_parts_of_the_search_that_are_left_out_are_not_begun() -> None:
    left_out = ("exact", "presearch", "recomputation", "offloading", "reduction")
    some = replace(ALL_PARTS, **dict.fromkeys(left_out, False))
    saved = begun(parts=some, mesh=EIGHT)
    assert {start.kind for start in saved[0].starts} == {"program", "micro_batches", "stages"}
    assert not any(start.kind in ("exact", "presearch") for each in saved for start in each.starts)
