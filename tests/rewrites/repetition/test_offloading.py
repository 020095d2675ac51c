"""Tests of offloading: which readers have a value from the host, where the waypoint is, and that it is taken back."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.rewrites import Move, apply_move, rule_named
from tapestry.rewrites.move import StaleMove
from tapestry.rewrites.repeating import after_readers
from tapestry.rewrites.saturation import saturate
from tapestry.rewrites.waypoints import waypoint_before
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.host import is_on_host
from tests.teg.sharding.looped import training

STORED = training(8)
READERS = ["found", "step.w2", "gated"]


def offloaded(choice: str) -> Graph:
    return apply_move(STORED, Move("offload", "active", choice))


def order(graph: Graph) -> list[str]:
    return [block.site for block in graph.blocks]


@pytest.mark.parametrize("early", (1, 2))
def test_late_readers_read_the_waypoint_right_after_the_early_ones(early: int) -> None:
    after = offloaded(after_readers(early))
    assert [b.site for b, _ in after.readers["active"]] == [*READERS[:early], "active~host"]
    assert [b.site for b, _ in after.readers["active~host"]] == READERS[early:]
    assert is_on_host(after.by_site["active~host"])
    sites = order(after)
    assert sites.index("active~host") == sites.index(READERS[early - 1]) + 1
    assert [s for s in sites if s != "active~host"] == order(STORED)
    inputs = random_inputs(STORED, np.random.default_rng(0))
    for site, value in evaluate(STORED, inputs).items():
        np.testing.assert_array_equal(evaluate(after, inputs)[site], value)


@pytest.mark.parametrize(("early", "before"), ((1, "error"), (1, "step.w2"), (0, "found"), (2, "back")))
def test_a_copy_may_end_later(early: int, before: str) -> None:
    sites = order(offloaded(waypoint_before(before, early)))
    assert sites.index("active~host") == sites.index(before) - 1


@pytest.mark.parametrize(
    ("early", "before"), ((1, "found"), (1, "back"), (2, "hidden"), (1, "nowhere"), (3, "loss"))
)
def test_a_copy_ends_between_early_and_late_readers(early: int, before: str) -> None:
    with pytest.raises(StaleMove, match="what there is: offload at active"):
        offloaded(waypoint_before(before, early))


def test_a_waypoint_is_taken_back_and_is_kept_by_simplification() -> None:
    after = offloaded(after_readers(1))
    assert (
        "active~host"
        in saturate(after, [rule_named("canonical_cell"), rule_named("equal_blocks")]).graph.by_site
    )
    back = apply_move(after, Move("remove_waypoint", "active~host"))
    assert back.structural_hash == STORED.structural_hash
