"""Tests of the greedy choice that minimum cuts are compared with."""

from __future__ import annotations

from benchmarks.recomputation import CHOICES, LONGER, compare, greedily, text_of
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware.catalog import load_device
from tapestry.optimizer.structure.recomputation import StorageProblem
from tests.optimizer.run.test_recomputation import step

COSTS = UnshardedCosts(load_device("a100-sxm4-80gb"))


def test_a_greedy_choice_goes_from_everything_stored_to_all_that_helps() -> None:
    graph = step()
    found = greedily(graph, COSTS)
    assert found[0] == StorageProblem(graph, COSTS).estimate(frozenset())
    assert [ticks for ticks, _ in found] == sorted(ticks for ticks, _ in found)
    assert min(peak for _, peak in found) < found[0][1]


def test_both_choices_are_compared_at_the_same_times() -> None:
    found = compare("step", step(), COSTS)
    for choice in CHOICES:
        least = found[choice]["least"]
        assert (
            len(least) == len(LONGER)
            and least == sorted(least, reverse=True)
            and 0 < least[-1] <= least[0] <= 1
        )
    assert found["cuts"]["least"][-1] < 0.7
    assert text_of(found).startswith("step: ")
