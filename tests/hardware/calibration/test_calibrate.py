"""Calibration: from the times that a known device would take, its times are found again."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import replace
from statistics import median

import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.calibration.calibrate import FIT_S, Calibration, calibrate, fitted_mesh
from tapestry.hardware.calibration.choice import by_need, class_of, fewest_of, sampled, too_long
from tapestry.hardware.calibration.fitting import small_sample_factor
from tapestry.hardware.calibration.host import Host, RunError, this_processor
from tapestry.hardware.calibration.probes import probes
from tapestry.hardware.calibration.runs import Timing
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import on_one_device, predicted_s
from tapestry.hardware.catalog import mesh_from_dict
from tapestry.hardware.kernels import KernelFigures
from tapestry.hardware.mesh_text import mesh_text
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES

PRODUCT = [(p, Timing(1e-3, 0.0)) for p in probes() if p.name == "product 1x64x64x64 float32"]
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
    chosen = [p for p in probes() if p.name.split()[0] == "cumsum"][:6]
    once_s = dict(zip((p.name for p in chosen), (0.1, 3.0, 1.0, 0.5, 0.1, 0.1), strict=True))
    assert too_long(chosen, once_s, left_s=5 * 4.81) == []
    assert too_long(chosen, once_s, left_s=5 * 4.79) == [chosen[1]]
    assert too_long(chosen, once_s, left_s=5 * 0.9) == chosen[1:3]


def test_every_class_keeps_probes_enough_for_figures_of_its_own() -> None:
    chosen = list(probes())
    long = {p.name for p in too_long(chosen, {p.name: 1.0 for p in chosen}, left_s=0.0)}
    left = [p for p in chosen if p.name not in long]
    classes = {p.name: key for p in chosen if (key := class_of(p))}
    counted = Counter(classes.values())
    assert Counter(classes[p.name] for p in left) == {
        key: min(n, fewest_of(key)) for key, n in counted.items()
    }


def test_what_every_class_needs_comes_first_and_lies_far_apart() -> None:
    chosen = list(probes(("float32", "bfloat16")))
    needed, others = by_need(chosen)
    assert sorted(p.name for p in (*needed, *others)) == sorted(p.name for p in chosen)
    counted = Counter(map(class_of, chosen))
    assert Counter(map(class_of, needed)) == {key: min(n, fewest_of(key)) for key, n in counted.items()}
    for key in ("elementwise.fp32", "copy.fp32", "matrix_product.fp16"):
        work = [s.flops + s.moved for p in needed if class_of(p) == key and (s := sampled(p)) is not None]
        assert max(work) > 15 * min(work)


def test_every_class_that_runs_here_has_probes() -> None:
    measured = {class_of(p).partition(".")[0] for p in probes()}
    assert measured == set(KERNEL_CLASSES)


class Slow:
    """Runs whose programs take a second to load and a tenth to run, on a clock of their own."""

    def __init__(self, setting: Setting) -> None:
        self.loaded: dict[str, float] = {}
        self.bare_bytes = 3e8

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None: ...

    def load(self, name: str, explicit: object, *, is_part: bool) -> None:
        Slow.now_s += 1.0
        self.loaded[name] = 0.1

    def scratch_bytes(self, name: str) -> float:
        return len(name) * 1e6

    def measure(self, names: list[str], limit_s: float, *_: object) -> dict[str, Timing]:
        Slow.measured_s = limit_s
        return {name: Timing(1e-3, 0.0) for name in names}

    now_s = 0.0
    measured_s = 0.0


def slowly(limit_s: float, monkeypatch: pytest.MonkeyPatch) -> Calibration:
    monkeypatch.setattr("tapestry.hardware.calibration.calibrate.TimedRuns", Slow)
    monkeypatch.setattr(
        "tapestry.hardware.calibration.calibrate.fitted_mesh", lambda *_: load_mesh("cpu-node")
    )
    Slow.now_s = 0.0
    return calibrate("slow", HOST, Setting(), limit_s, lambda: Slow.now_s)


def test_the_time_is_shared_by_loading_measuring_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = slowly(500.0, monkeypatch)
    assert Slow.now_s == pytest.approx(0.4 * (500 - FIT_S), abs=1)
    assert Slow.measured_s == pytest.approx(500 - Slow.now_s - FIT_S)
    count = len(list(probes(("float32", "bfloat16"))))
    assert len(found.timings) == Slow.now_s == count - len(found.left_out)
    assert set(found.left_out.values()) == {"no time to load it"}


@pytest.mark.parametrize("limit_s", [5.0, 60.0, 110.0])
def test_too_little_time_is_refused_with_the_least(limit_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    needed, _ = by_need(list(probes(("float32", "bfloat16"))))
    least_s = 1.5 * len(needed) + FIT_S  # loaded, and five passes
    with pytest.raises(RunError, match=rf"^{limit_s:g} s are too few .* here: take --seconds") as caught:
        slowly(limit_s, monkeypatch)
    advised = re.findall(r"about (\d+) s here: take --seconds (\d+)", str(caught.value))[0]
    assert least_s == pytest.approx(int(advised[0]), rel=0.03)
    assert int(advised[0]) < int(advised[1]) < 1.3 * least_s
    assert Slow.now_s <= len(needed)


def test_few_probes_leave_a_wide_error() -> None:
    wanted = {
        p: 1e-3 * (1 + k) for k, p in enumerate(p for p in probes() if p.name.startswith(("argsort", "add")))
    }
    mesh = fitted_mesh("few", HOST, Setting(), [(p, Timing(s, 0.0)) for p, s in wanted.items()] + PRODUCT)
    kernels = mesh.device.kernels
    assert kernels["sort.fp32"].error >= 0.02 * small_sample_factor(3) > 0.04


@pytest.mark.slow
def test_slow_precisions_are_stated_as_they_are() -> None:
    chosen = [p for p in probes(("float32", "bfloat16")) if p.name.startswith(("product", "add"))]
    times = [(p, Timing(1e-3 if "bfloat16" in p.name else 1e-4, 0.0)) for p in chosen]
    mesh = fitted_mesh("emulated", HOST, Setting(), times)
    assert mesh.device.compute_dtype_default["bf16"] == "bf16"
    assert mesh_from_dict(tomllib.loads(mesh_text(mesh, with_device=True))) == mesh


def test_the_host_is_described() -> None:
    found = this_processor(2)
    assert found.title and found.memory_bytes > 2**28 and found.cache_bytes >= 2**15 and found.cores == 2
