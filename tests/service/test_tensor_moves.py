"""Tests of where named tensors lie, and of what it costs to bring them elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tapestry
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import MeshAxis
from tapestry.hardware.simulator.resharding import Sharding, distribute
from tapestry.optimizer import Plan
from tapestry.service.store import TensorPlace
from tapestry.service.tensor_moves import (
    HeldTensor,
    TensorMove,
    moves_document,
    moves_to,
    places_of,
    with_moves,
)
from tapestry.teg.loading import LoadCost
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Spec
from tapestry.teg.sharding.text import parse_strategy
from tests.service.programs import two_layers

UNMEASURED = replace(load_mesh("dgx-h100").axes[0], collectives=())
MESH = replace(load_mesh("dgx-h100"), axes=(UNMEASURED,))
ALL = "gpu.0*gpu.1*gpu.2"


def plan(devices: str = "", x: str = f"({ALL}, -)") -> Plan:
    """Build a plan whose input `x` begins, and whose output ends, divided by rows."""
    rows = Placement(parse_strategy(x))
    return Plan(two_layers(), Placements({"x": rows, "result": rows}, devices=devices), (), {}, True)


def move(held: TensorPlace | None, subject: Plan) -> TensorMove:
    (found,) = moves_to(subject, MESH, subject.graph, {"x": HeldTensor("t", held)})
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
    assert moves_to(plan(), MESH, plan().graph, {"gone": HeldTensor("t", None)}) == ()


def loaded(cost: LoadCost, subject: Plan) -> TensorMove:
    (found,) = moves_to(subject, MESH, subject.graph, {"x": HeldTensor("t", None, cost)})
    return found


def test_each_device_loads_its_part_at_the_stated_rate() -> None:
    """Check 16 KiB: each row is loaded once where rows are divided, and by all eight devices where they are whole."""
    cost = LoadCost(seconds=2.0, bytes_per_s=2.0**14)
    found = loaded(cost, plan())
    assert (found.kind, found.loaded_bytes, found.traffic_bytes, found.time_s) == ("load", 2**14, 0, 3.0)
    found = loaded(cost, plan(x="(-, -)"))
    assert (found.loaded_bytes, found.traffic_bytes, found.time_s) == (8 * 2**14, 0, 10.0)


@pytest.mark.parametrize(("x", "part_bytes"), [(f"({ALL}, -)", 2**14 // 8), ("(-, -)", 2**14)])
def test_a_device_that_holds_a_tensor_sends_the_others_their_parts(x: str, part_bytes: int) -> None:
    found = loaded(LoadCost(1.0, 2.0**14, "gpu:3"), plan(x=x))
    assert (found.kind, found.held, found.loaded_bytes) == ("load", "gpu:3", 2**14)
    assert found.traffic_bytes == 7 * part_bytes
    axis = MESH.axes[0]
    sent_s = 7 * (axis.latency_s + part_bytes / axis.bandwidth_bytes_per_s)
    assert found.time_s == pytest.approx(2.0 + sent_s)


def test_parts_go_over_the_slowest_axis_in_between() -> None:
    """Check two nodes of two devices: one is on the holder's node, two are beyond the slow link."""
    axes = (MeshAxis("node", 2, "switch", 1e9, 1e-3), MeshAxis("gpu", 2, "switch", 1e10, 1e-6))
    mesh = replace(MESH, axes=axes)
    sent = distribute((1000,), "float32", "node:1,gpu:0", Sharding(Spec((WHOLE,))), mesh)
    assert sent.traffic_bytes == 3 * 4000
    assert sent.ticks / 1e12 == pytest.approx(1e-6 + 4000 / 1e10 + 2 * (1e-3 + 4000 / 1e9))
    beside = distribute((1000,), "float32", "node:1,gpu:1", Sharding(Spec((WHOLE,))), mesh, "node:1,gpu:2")
    assert beside.traffic_bytes == 2 * 4000, "the holder does not take part"


@pytest.mark.parametrize("device", ["gpu:8", "node:0", "gpu", "gpu:x"])
def test_a_device_that_the_mesh_lacks_is_named_with_the_input(device: str) -> None:
    with pytest.raises(
        ValueError, match=f"input 'x': device '{device}' is none of mesh 'dgx-h100': name one"
    ):
        loaded(LoadCost(device=device), plan())


def test_a_program_states_what_loading_its_inputs_takes_unless_a_stored_tensor_is_given() -> None:
    with tapestry.program() as p:
        x = p.input("x", 64, 64, load=LoadCost(seconds=0.5))
        p.output("result", x.relu())
    subject = replace(plan(), graph=p.graph)
    (found,) = moves_to(subject, MESH, p.graph, {})
    assert (found.input, found.name, found.kind, found.time_s) == ("x", "", "load", 0.5)
    held = places_of(subject, MESH, ["x"])["x"]
    (found,) = moves_to(subject, MESH, p.graph, {"x": HeldTensor("t", held)})
    assert (found.name, found.kind, found.time_s) == ("t", "none", 0.0)


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
