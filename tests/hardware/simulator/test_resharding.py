"""Tests of the move of one tensor between shardings, by hand on eight GPUs of one axis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.simulator.resharding import Sharding, reshard
from tapestry.hardware.timing import step_ticks
from tapestry.teg.sharding.text import parse_spec

MESH = load_mesh("dgx-h100")
ALL = "gpu.0*gpu.1*gpu.2"


def moved(held: str, wanted: str, devices: str = "") -> tuple[int, int]:
    run = reshard(
        (16, 32), "float32", Sharding(parse_spec(held)), Sharding(parse_spec(wanted)), MESH, devices
    )
    return run.traffic_bytes, run.makespan_ticks


@pytest.mark.parametrize(
    ("held", "wanted"), [("[-, -]", "[-, -]"), (f"[{ALL}, -]", f"[{ALL}, -]"), ("[-, -]", "[gpu.0, -]")]
)
def test_what_a_device_holds_already_is_not_moved(held: str, wanted: str) -> None:
    assert moved(held, wanted) == (0, 0)


def test_a_gather_brings_every_device_what_it_lacks() -> None:
    received = 16 * 32 * 4 * 7 // 8
    traffic, ticks = moved(f"[{ALL}, -]", "[-, -]")
    assert traffic == 8 * received
    assert ticks == int(step_ticks(MESH.axis("gpu"), "all_gather", 8, received, 1))


def test_rows_become_columns() -> None:
    """Check that each of eight devices keeps an eighth of its part, and receives the rest."""
    traffic, ticks = moved(f"[{ALL}, -]", f"[-, {ALL}]")
    assert traffic == 8 * (16 * 32 * 4 // 8) * 7 // 8
    assert ticks > 0


def test_a_part_of_the_mesh_moves_among_itself() -> None:
    traffic, _ = moved("[gpu.0*gpu.1, -]", "[-, -]", "gpu:4")
    assert traffic == 4 * 16 * 32 * 4 * 3 // 4


def test_another_layout_is_a_copy_on_every_device() -> None:
    device = replace(MESH.device, layouts=("row_major", "tile_32x32"))
    mesh = replace(MESH, device=device)
    spec = parse_spec("[-, -]")
    run = reshard((64, 64), "float32", Sharding(spec), Sharding(spec, "row_major"), mesh)
    assert (run.traffic_bytes, run.makespan_ticks > 0) == (0, True)
