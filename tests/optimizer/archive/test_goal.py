"""Tests of goals: forms by name, relative bounds that tighten, and fronts that are filtered as they do."""

import numpy as np
import pytest

from tapestry.costmodel.expression_parser import parse
from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objectives import NAMES, OBJECTIVES
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.archive import Archive, new_archive
from tapestry.optimizer.archive.constraints import all_constraints, parse_constraint
from tapestry.optimizer.archive.goal import Goal, insert_one, new_goal, objective_values, refilter
from tapestry.optimizer.archive.report import costs_of, goal_of

EIGHT = load_mesh("dgx-h100")


def values_of(goal: Goal, raw: np.ndarray) -> list[float]:
    value = np.zeros(len(goal.epsilon))
    objective_values(goal, raw, value)
    return value.tolist()


def some_costs(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(1, 10**12, len(COLUMNS))


def test_swapped_records_change_nothing_but_their_order(rng: np.random.Generator) -> None:
    raw, known = some_costs(rng), KnownObjectives()
    plain = dict(zip(NAMES, values_of(goal_of(OBJECTIVES, (), EIGHT, 0.005), raw), strict=True))
    reported = costs_of(raw, EIGHT)
    for _ in range(5):
        records = [OBJECTIVES[k] for k in rng.permutation(len(OBJECTIVES))]
        swapped = KnownObjectives(_of={o.name: o for o in records})
        found = values_of(goal_of(records, (), EIGHT, 0.005, swapped), raw)
        assert dict(zip((o.name for o in records), found, strict=True)) == plain
        assert costs_of(raw, EIGHT, swapped) == reported
    assert plain == pytest.approx(reported, rel=1e-12)
    assert known.columns == COLUMNS


def test_swapped_columns_change_nothing(rng: np.random.Generator) -> None:
    raw, known = some_costs(rng), KnownObjectives()
    plain = values_of(goal_of(OBJECTIVES, (), EIGHT, 0.005), raw)
    for _ in range(5):
        order = rng.permutation(len(COLUMNS))
        terms = [known.term_on(o, EIGHT) for o in OBJECTIVES]
        goal = new_goal(terms, [], [], [COLUMNS[k] for k in order], 0.005)
        assert values_of(goal, raw[order]) == pytest.approx(plain, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["max(time_s, 1e-3)", "energy_j*time_s", "sqrt(traffic_bytes) + 1", "time_s - 0.5*energy_j", "time_s^2"],
)
def test_what_is_not_linear_is_computed_in_the_loop_as_it_is_reported(
    text: str, rng: np.random.Generator
) -> None:
    known = KnownObjectives()
    objective = known.named(text)
    known = known.including([objective])
    goal = goal_of([objective], (), EIGHT, 0.005, known)
    assert goal.program_start.tolist()[-1] > 0, "a program"
    for _ in range(20):
        raw = some_costs(rng)
        assert values_of(goal, raw) == pytest.approx([costs_of(raw, EIGHT, known)[objective.name]], rel=1e-12)


def test_a_linear_expression_is_a_row_of_weights() -> None:
    known = KnownObjectives()
    goal = goal_of([known.named("0.7*time_s + 0.3*energy_j")], (), EIGHT, 0.005)
    assert len(goal.program) == 0
    assert set(np.array(COLUMNS)[goal.weights[0] > 0]) == {"time_ticks", "energy_pj"}


def tiny_archive() -> Archive:
    return new_archive(8, 4, 1, 1, 1, columns=2)


def insert_values(archive: Archive, goal: Goal, memory: int, time: int) -> bool:
    """Offer a plan of such costs; its genes are its time."""
    raw, edge = np.array([memory, time], np.int64), np.zeros(1, np.int8)
    genes = np.array([time], np.int16)
    return bool(
        insert_one(archive, goal, raw, np.zeros(1), genes, edge, edge, np.uint64(100 * memory + time))
    )


def front(archive: Archive) -> list[tuple[int, int]]:
    return sorted(map(tuple, archive.raw[: archive.size[0]].tolist()))


def relative_goal(bounds: float = np.inf) -> Goal:
    """Build the goal to minimize memory within 110% of the least time, and absolutely of `bounds` memory."""
    memory, time = parse("memory"), parse("time")
    return new_goal([memory], [(memory, bounds)], [(time, 1.1)], ("memory", "time"), 0.005)


def test_the_front_is_filtered_when_the_best_moves() -> None:
    archive, goal = tiny_archive(), relative_goal()

    assert insert_values(archive, goal, memory=5, time=100), "whatever comes first is the best"
    assert not insert_values(archive, goal, memory=4, time=120), "smaller, but too slow"
    assert insert_values(archive, goal, memory=4, time=109)
    assert front(archive) == [(4, 109)]
    assert insert_values(archive, goal, memory=9, time=80), "larger: it is kept for it moves the bound to 88"

    assert goal.best.tolist() == [80]
    assert front(archive) == [(9, 80)]
    assert sorted(archive.pool_raw[: archive.size[1], 1].tolist()) == [109, 120]
    nearest = archive.pool_violation[: archive.size[1]].min()
    assert nearest == pytest.approx(109 / 88 - 1), "measured by the bound as it stands"


def test_only_plans_that_keep_the_absolute_bounds_set_the_best() -> None:
    archive, goal = tiny_archive(), relative_goal(bounds=10)

    assert not insert_values(archive, goal, memory=50, time=1)
    assert goal.best.tolist() == [np.inf]
    assert insert_values(archive, goal, memory=9, time=100)
    assert goal.best.tolist() == [100]


def test_a_best_found_elsewhere_filters_too() -> None:
    archive, goal = tiny_archive(), relative_goal()
    for memory, time in ((5, 100), (4, 105), (3, 110)):
        insert_values(archive, goal, memory, time)
    goal.best[:] = 97
    refilter(archive, goal)
    assert front(archive) == []
    goal.best[:] = 100
    mine = goal.own_best()
    assert insert_values(archive, mine, memory=9, time=90)
    assert (goal.best.tolist(), mine.best.tolist()) == ([100], [90]), "what an epoch notes is its own"


def test_absolute_and_relative_bounds_keep_their_places() -> None:
    texts = ("time_s<=110%", "traffic_bytes<=5", "energy_j*time_s<=200%")
    goal = goal_of(OBJECTIVES[:1], all_constraints(texts, EIGHT), EIGHT, 0.005)
    assert goal.bounds.tolist() == [5.0, EIGHT.device.memory_bytes]
    assert goal.shares.tolist() == pytest.approx([1.1, 2.0])
    assert len(goal.weights) == 1 + 2 + 2
    assert str(parse_constraint("time_s<=110%")) == "time_s<=110%"
