"""Tests of the texts of failures and slowdowns."""

import pytest

from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.failure import Failure, parse_failure, parse_slowdown
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.hardware.simulator.programs import mesh_of
from tests.hardware.simulator.test_loss import ROWS, chain

PODS = MeshShape.of(node=2, gpu=4)


@pytest.mark.parametrize(
    ("text", "devices"),
    [("gpu:3@0.4", (3, 7)), ("node:1@0.4", (4, 5, 6, 7)), ("node:1,gpu:0@0.4", (4,))],
)
def test_a_failure_names_devices_by_coordinates(text: str, devices: tuple[int, ...]) -> None:
    assert parse_failure(text, PODS) == Failure(devices, 0.4)


@pytest.mark.parametrize(
    "text", ["gpu:4@0.4", "gpu:3", "gpu:3@1", "gpu:3@-0.1", "gpu:3@nan", "tpu:0@0.4", "gpu@0.4", ""]
)
def test_a_failure_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be axis:coordinate@moment, such as gpu:3@0\.4"):
        parse_failure(text, PODS)


def test_a_failure_of_all_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no device"):
        parse_failure("gpu:0@0.4", MeshShape.of(gpu=1))


def test_a_slow_device_slows_its_blocks_and_slow_links_their_copies() -> None:
    four = MeshShape.of(gpu=4)
    mesh = mesh_of(four)
    split = expand(chain(), Placements({"c0": ROWS, "c1": ROWS}), four)  # c2 gathers
    calm = simulate(split, mesh, dry=True)
    slow = simulate(split, mesh, dry=True, slowdown=parse_slowdown(["gpu:1=2"], four))
    assert slow.compute_ticks[1] == 2 * calm.compute_ticks[1]
    assert slow.compute_ticks[0] == calm.compute_ticks[0]
    links = simulate(split, mesh, dry=True, slowdown=parse_slowdown(["gpu=3"], four))
    assert links.makespan_ticks > calm.makespan_ticks
    assert links.compute_ticks.tolist() == calm.compute_ticks.tolist()


@pytest.mark.parametrize("text", ["gpu:9=2", "gpu:1=0.5", "gpu:1", "tpu=2", "gpu=inf"])
def test_a_slowdown_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be axis:coordinate=factor"):
        parse_slowdown([text], PODS)
