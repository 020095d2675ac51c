"""Tests of what is shown of a stored plan."""

from __future__ import annotations

from pathlib import Path

import pytest

import tapestry as library
from tapestry.hardware import load_mesh
from tapestry.hardware.timing import step_ticks
from tapestry.teg.document import save
from tapestry.teg.loading import LoadCost
from tests.cases import first
from tests.service.conftest import Run

SIZE_BYTES = 64 * 64 * 4


@pytest.mark.parametrize("device", first(1, ["gpu:0", ""]))
def test_loading_is_predicted_beside_the_costs_of_a_step(tapestry: Run, tmp_path: Path, device: str) -> None:
    """Check a plan that begins its input whole everywhere: each device loads it, or one that sends it to seven."""
    with library.program("loaded") as p:
        x = p.input("x", 64, 64, load=LoadCost(seconds=0.5, bytes_per_s=1e9, device=device))
        p.output("y", x.relu())
    document = tmp_path / "loaded.teg.json"
    save(p.graph, document)
    limits = ("--evaluations", 300, "--islands", 1, "--quiet", "--inputs", "replicated")
    run = tapestry("optimize", document, "--mesh", "dgx-h100", *limits, "--json").json["run"]
    plan = tapestry("show", run, "--json").json["frontier"][0]["id"]
    shown = tapestry("show", f"{run}/{plan}", "--json").json
    counts = [
        tapestry("simulate", f"{run}/{plan}", "--steps", steps, "--json").json["steps"] for steps in (1, 3)
    ]

    gpu = load_mesh("dgx-h100").axes[0]
    sent_s = 7 * int(step_ticks(gpu, "fetch", 2, SIZE_BYTES)) / 1e12 if device else 0
    loaded_bytes = SIZE_BYTES if device else 8 * SIZE_BYTES
    assert shown["loading"]["time_s"] == pytest.approx(0.5 + loaded_bytes / 1e9 + sent_s)
    assert shown["loading"]["traffic_bytes"] == (7 * SIZE_BYTES if device else 0)
    assert shown["cost"]["time_s"] < 1e-3, "the cost of a step does not have it"
    # Counted before the first step, and no other.
    assert [[step["counts"].get("moves") for step in steps] for steps in counts] == [
        [shown["loading"]],
        [shown["loading"], None, None],
    ]
    assert "once, before the first step, inputs are loaded: 50" in tapestry("show", f"{run}/{plan}").out


def test_what_a_device_holds_is_broken_down(tapestry: Run, tmp_path: Path) -> None:
    with library.program("held") as p:
        p.output("y", p.input("x", 64, 64).relu())
    document = tmp_path / "held.teg.json"
    save(p.graph, document)
    limits = ("--evaluations", 50, "--islands", 1, "--quiet", "--objectives", "device_memory_bytes,time_s")
    run = tapestry("optimize", document, "--mesh", "dgx-h100", *limits, "--json").json["run"]
    plan = tapestry("show", run, "--json").json["frontier"][0]["id"]

    shown = tapestry("show", f"{run}/{plan}", "--json").json
    explained = tapestry("explain", f"{run}/{plan}", "--quiet", "--json").json

    assert sum(shown["memory"].values()) == shown["cost"]["device_memory_bytes"]
    assert explained["memory"] == shown["memory"]
    for command in (("show",), ("explain", "--quiet")):
        out = tapestry(command[0], f"{run}/{plan}", *command[1:]).out
        assert "fullest device holds" in out and "+ 300.0 MiB context +" in out
