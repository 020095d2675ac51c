"""Calibration: from the times that a known device would take, its times are found again."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace
from statistics import median

import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.calibration.calibrate import class_of, fitted_mesh, too_long
from tapestry.hardware.calibration.host import Host, this_processor
from tapestry.hardware.calibration.probes import probes
from tapestry.hardware.calibration.runs import Timing
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import on_one_device, predicted_s
from tapestry.hardware.catalog import mesh_from_dict
from tapestry.hardware.kernels import KernelFigures
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


@pytest.mark.slow
def test_fresh_outputs_are_found_again() -> None:
    node = load_mesh("cpu-node")
    device = replace(
        node.device, cache_bytes=2**23, cache_bytes_per_s=8e11, fresh_bytes=2**25, fresh_bytes_per_s=2e9
    )
    known = replace(
        node, device=replace(device, kernels={"elementwise": KernelFigures(cache_efficiency=0.8)})
    )
    times = [
        (p, Timing(predicted_s(on_one_device(p.graph), known), 0.0))
        for p in probes()
        if p.name.split()[0] in ("add", "relu", "sum", "product")
    ]
    found = fitted_mesh("copy", HOST, Setting(), times).device
    assert found.fresh_bytes == 2**25
    assert found.fresh_bytes_per_s == pytest.approx(2e9, rel=0.1)


def test_probes_that_do_not_fit_the_time_are_left_out_the_longest_first() -> None:
    chosen = [p for p in probes() if p.name.split()[0] == "add"][:6]
    once_s = dict(zip((p.name for p in chosen), (0.1, 3.0, 1.0, 0.5, 0.1, 0.1), strict=True))
    assert too_long(chosen, once_s, left_s=5 * 4.81) == []
    assert too_long(chosen, once_s, left_s=5 * 4.79) == [chosen[1]]
    assert too_long(chosen, once_s, left_s=5 * 0.9) == chosen[1:3]


def test_every_class_keeps_probes_enough_for_figures_of_its_own() -> None:
    chosen = list(probes())
    left = [p for p in chosen if p not in too_long(chosen, {p.name: 1.0 for p in chosen}, left_s=0.0)]
    classes = {p.name: key for p in chosen if (key := class_of(p))}
    counted = Counter(classes.values())
    assert Counter(classes[p.name] for p in left) == {key: min(n, 3) for key, n in counted.items()}


def test_the_host_is_described() -> None:
    found = this_processor(2)
    assert found.title and found.memory_bytes > 2**28 and found.cache_bytes >= 2**15 and found.cores == 2
