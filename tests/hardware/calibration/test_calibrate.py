"""Calibration: from the times that a known device would take, its times are found again."""

from __future__ import annotations

import tomllib
from statistics import median

import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.calibration.calibrate import fitted_mesh
from tapestry.hardware.calibration.host import Host, this_processor
from tapestry.hardware.calibration.probes import probes
from tapestry.hardware.calibration.runs import Timing
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import on_one_device, predicted_s
from tapestry.hardware.catalog import mesh_from_dict
from tapestry.hardware.mesh_text import mesh_text

HOST = Host("a processor", "nobody", 2**36, 2**25, 1)
CHOSEN = ("add", "relu", "exp", "softmax", "product")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu-node", "dgx-a100"])
def test_a_known_device_is_found_again(name: str) -> None:
    known = load_mesh(name)
    plans = {p: on_one_device(p.graph) for p in probes() if p.name.split()[0] in CHOSEN}
    wanted = {p: predicted_s(explicit, known) for p, explicit in plans.items()}
    mesh = fitted_mesh("copy", HOST, Setting(), [(p, Timing(seconds, 0.0)) for p, seconds in wanted.items()])
    errors = [abs(predicted_s(explicit, mesh) / wanted[p] - 1) for p, explicit in plans.items()]
    assert median(errors) < 0.1
    assert max(errors) < 1.0
    assert mesh_from_dict(tomllib.loads(mesh_text(mesh, with_device=True))) == mesh


def test_the_host_is_described() -> None:
    found = this_processor(2)
    assert found.title and found.memory_bytes > 2**28 and found.cache_bytes >= 2**15 and found.cores == 2
