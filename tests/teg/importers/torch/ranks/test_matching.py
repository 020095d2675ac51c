"""Messages and collectives of ranks: which belong together, and who waits forever."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.torch.ranks.matching import match

PAIR = [0, 1]


def send(message: int, peer: int, **more: Any) -> dict[str, Any]:
    return {"event": "send", "message": message, "peer": peer, "tag": 0, "group": PAIR, **more}


def receive(message: int, peer: int, **more: Any) -> dict[str, Any]:
    return send(message, peer, **more) | {"event": "receive"}


def reduce(message: int, op: str = "SUM", kind: str = "all_reduce") -> dict[str, Any]:
    return {"event": kind, "message": message, "op": op, "group": PAIR}


def wait(message: int) -> dict[str, Any]:
    return {"event": "wait", "message": message}


def test_messages_of_a_pair_arrive_in_the_order_in_which_they_are_sent() -> None:
    one = [send(0, 1, tag=5), send(1, 1), send(2, 1), wait(0), wait(1), wait(2)]
    two = [receive(0, 0), receive(1, 0), receive(2, 0, tag=5), wait(2), wait(1), wait(0)]
    found = match([one, two])
    assert [found[1, k].ends["send"][1]["message"] for k in range(3)] == [1, 2, 0]
    assert found[0, 1] is found[1, 0]


def test_collectives_of_a_group_are_in_one_order() -> None:
    found = match(
        [[reduce(0), wait(0), reduce(2, "MAX"), wait(2)], [reduce(0), reduce(1, "MAX"), wait(0), wait(1)]]
    )
    assert {rank: event["op"] for rank, event in found[1, 1].ends.values()} == {0: "MAX", 1: "MAX"}


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (
            ([], [receive(0, 0), wait(0)]),
            "rank 1 waits forever: rank 1 receives from rank 0, which does not send it",
        ),
        (([send(0, 1)], []), "rank 0 sends to rank 1, which does not receive it"),
        (([send(0, 1, tag=1)], [receive(0, 0, tag=2), wait(0)]), "rank 1 waits forever"),
        (
            # Each waits for the other one before it sends.
            ([receive(0, 1), wait(0), send(2, 1)], [receive(0, 0), wait(0), send(2, 0)]),
            "rank 0 waits forever: rank 0 receives from rank 1, which does not send it; rank 1 waits forever",
        ),
        (
            ([reduce(0), wait(0)], []),
            "rank 0 waits forever: rank 0 takes part in all_reduce number 0, rank 1 does not",
        ),
        (([reduce(0)], [reduce(0, "MAX")]), "rank 0 calls all_reduce SUM where rank 1 calls all_reduce MAX"),
        (([reduce(0)], [reduce(0, kind="reduce_scatter")]), "rank 1 calls reduce_scatter SUM"),
    ],
)
def test_ranks_that_do_not_meet_are_refused(events: tuple[Any, Any], fault: str) -> None:
    with pytest.raises(ImportFailure, match=fault):
        match(events)
