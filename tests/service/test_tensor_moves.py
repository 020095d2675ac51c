"""Tests of where named tensors lie, and of what it costs to bring them elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan
from tapestry.service.store import TensorPlace
from tapestry.service.tensor_moves import TensorMove, moves_document, moves_to, places_of, with_moves
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.service.programs import two_layers

MESH = load_mesh("dgx-h100")
ALL = "gpu.0*gpu.1*gpu.2"


def plan(devices: str = "", x: str = f"({ALL}, -)") -> Plan:
    """Build a plan whose input `x` begins, and whose output ends, divided by rows."""
    rows = Placement(parse_strategy(x))
    return Plan(two_layers(), Placements({"x": rows, "result": rows}, devices=devices), (), {}, True)


def move(held: TensorPlace | None, subject: Plan) -> TensorMove:
    (found,) = moves_to(subject, MESH, {"x": ("t", held)})
    return found


def test_sources_and_sinks_lie_where_the_placements_put_them() -> None:
    places = places_of(plan("gpu:4", "(gpu.0, -)"), MESH, ["x", "result", "up"])
    assert {site: (p.spec, p.devices, p.shape, p.layout) for site, p in places.items()} == {
        "x": ("[gpu.0, -]", "gpu:4", (64, 64), ""),
        "result": ("[gpu.0, -]", "gpu:4", (64, 64), ""),
        "up": ("[-, -]", "gpu:4", (64, 256), ""),
    }
    gathered = plan()
    gathered = replace(
        gathered, placements=replace(gathered.placements, inputs="replicated", outputs="gathered")
    )
    assert {p.spec for p in places_of(gathered, MESH, ["x", "result"]).values()} == {"[-, -]"}


def test_a_tensor_that_lies_there_already_does_not_move() -> None:
    held = places_of(plan(), MESH, ["result"])["result"]
    assert move(held, plan()) == TensorMove("x", "t", "none", f"[{ALL}, -]", f"[{ALL}, -]")


def test_a_gather_is_charged() -> None:
    held = places_of(plan(), MESH, ["result"])["result"]
    found = move(held, plan(x="(-, -)"))
    assert (found.kind, found.held, found.wanted) == ("reshard", f"[{ALL}, -]", "[-, -]")
    assert found.traffic_bytes == 8 * (64 * 64 * 4) * 7 // 8
    assert found.time_s > 0 and found.loaded_bytes == 0


def test_a_tensor_divided_in_another_way_is_gathered_first() -> None:
    held = places_of(plan(), MESH, ["result"])["result"]
    factored = replace(held, shape=(8, 8, 64), spec=f"[{ALL}, -, -]")
    found = move(factored, plan())
    assert (found.kind, found.traffic_bytes) == ("reshard", 8 * (64 * 64 * 4) * 7 // 8)


@pytest.mark.parametrize("change", [{"devices": "gpu:4"}, {"mesh_digest": "0" * 32}, None])
def test_a_tensor_that_lies_on_no_part_of_this_mesh_is_loaded(change: dict[str, str] | None) -> None:
    held = places_of(plan(), MESH, ["result"])["result"]
    found = move(None if change is None else replace(held, **change), plan())
    assert (found.kind, found.traffic_bytes, found.time_s) == ("load", 0, 0.0)
    assert found.loaded_bytes == 64 * 64 * 4, "each row begins on one device"


def test_a_source_that_the_plan_does_not_read_needs_nothing() -> None:
    assert moves_to(plan(), MESH, {"gone": ("t", None)}) == ()


def test_moves_are_added_to_the_counts() -> None:
    moves = (
        TensorMove("x", "t", "reshard", "", "", 100, 2e-6),
        TensorMove("up", "u", "load", "", "", loaded_bytes=7),
    )
    document = moves_document(moves)
    assert (document["traffic_bytes"], document["time_s"], document["loaded_bytes"]) == (100, 2e-6, 7)
    counts = {"traffic_bytes": {"predicted": 1, "counted": 11}, "time_s": {"predicted": 0, "counted": 1e-6}}
    found = with_moves(counts, moves)
    assert found["with_moves"] == {"traffic_bytes": 111, "time_s": pytest.approx(3e-6)}
    assert found["traffic_bytes"] == counts["traffic_bytes"]
