"""Recorded programs of two ranks, written by hand, joined to one: collectives compute what PyTorch says they do."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tapestry.teg.importers import ImportFailure
from tapestry.teg.importers.torch.ranks.joining import join
from tapestry.teg.importers.torch_import import import_listing
from tests.teg.importers.torch.ranks.recording import outputs

Shape = Sequence[int]
GIVEN = [np.arange(6, dtype=np.float32).reshape(2, 3) + 1, np.full((2, 3), 10, np.float32)]


def kind(*shape: int) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": "torch.float32"}


def rank(received: Shape, **event: Any) -> dict[str, Any]:
    """Record a rank that gives its source to one message, and returns twice what it gets."""
    message = {"message": 0, "sent": 0, "group": [0, 1], **event}
    nodes = [
        {
            "name": "got",
            "op": "call_function",
            "target": "tapestry.received.default",
            "args": [{"node": "x_1"}, 0],
        },
        {"name": "twice", "op": "call_function", "target": "aten.mul.Tensor", "args": [{"node": "got"}, 2.0]},
    ]
    return {
        "parts": {"SOURCES": {}, "CONSTANTS": {}, "OUTPUTS": {}},
        "inputs": {"x": kind(2, 3) | {"name": "x_1"}},
        "nodes": [node | {"op": "call_function", "kwargs": {}, "val": kind(*received)} for node in nodes],
        "sent": ["x_1"],
        "outputs": {"y": "twice"},
        "events": [message, {"event": "wait", "message": 0}],
    }


@pytest.mark.parametrize(
    ("event", "shape", "wanted"),
    [
        ({"event": "all_reduce", "op": "SUM"}, (2, 3), [GIVEN[0] + GIVEN[1]] * 2),
        ({"event": "all_reduce", "op": "PRODUCT"}, (2, 3), [GIVEN[0] * 10] * 2),
        ({"event": "all_reduce", "op": "MAX"}, (2, 3), [GIVEN[1]] * 2),
        ({"event": "all_reduce", "op": "MIN"}, (2, 3), [GIVEN[0]] * 2),
        ({"event": "reduce_scatter", "op": "SUM"}, (3,), [GIVEN[0][0] + 10, GIVEN[0][1] + 10]),
        ({"event": "all_gather"}, (4, 3), [np.concatenate(GIVEN)] * 2),
        ({"event": "broadcast", "root": 1}, (2, 3), [GIVEN[1]] * 2),
    ],
)
def test_a_collective_gives_every_rank_its_part(
    event: dict[str, Any], shape: Shape, wanted: list[np.ndarray]
) -> None:
    found = outputs([rank(shape, **event), rank(shape, **event)], GIVEN)
    assert len(found) == 2
    for mine, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, 2 * expected)


def message(received: Shape) -> list[dict[str, Any]]:
    """Record a message of rank 0 to rank 1."""
    sender = rank((2, 3), event="send", peer=1, tag=0) | {"nodes": [], "outputs": {}}
    return [sender, rank(received, event="receive", peer=0, tag=0, sent=None)]


def test_a_message_is_the_value_that_is_sent_in_the_shape_of_its_place() -> None:
    (found,) = outputs(message((3, 2)), GIVEN)
    np.testing.assert_array_equal(found, 2 * GIVEN[0].reshape(3, 2))


def test_messages_of_another_size_or_type_are_refused() -> None:
    with pytest.raises(ImportFailure, match="rank 1 receives 5 elements of float32, it is sent 6 of float32"):
        join(message((5,)), "hand")
    sender, receiver = message((2, 3))
    sender["inputs"]["x"]["dtype"] = "torch.int32"
    with pytest.raises(ImportFailure, match="rank 1 receives 6 elements of float32, it is sent 6 of int32"):
        join([sender, receiver], "hand")


def test_unsupported_operators_and_reductions_are_named() -> None:
    ranks = message((2, 3))
    ranks[1]["nodes"][1]["target"] = "aten.unheard_of.default"
    with pytest.raises(
        ImportFailure, match=r"unsupported operator aten.unheard_of.default \(node 'twice@1'\)"
    ):
        import_listing(join(ranks, "hand"))
    bits = [rank((2, 3), event="all_reduce", op="BXOR") for _ in range(2)]
    with pytest.raises(ImportFailure, match="reductions by BXOR"):
        join(bits, "hand")


def test_constants_of_a_module_keep_their_values() -> None:
    ranks = message((2, 3))
    values = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    ranks[1]["parts"]["CONSTANTS"]["x"] = {"data": base64.b64encode(values.tobytes()).decode()}
    ranks[1]["nodes"][1]["args"] = [{"node": "got"}, {"node": "x_1"}]
    (found,) = outputs(ranks, GIVEN)
    np.testing.assert_array_equal(found, GIVEN[0] * values)
