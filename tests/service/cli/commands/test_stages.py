"""Tests of plans with stages (convention "stages") at the command line: shown, explained, run, traced, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan
from tapestry.optimizer.archive.report import costs_of
from tapestry.rewrites import Move
from tapestry.service.store import Store
from tapestry.teg.document import save
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.stages import Stages
from tapestry.teg.sharding.text import parse_strategy
from tests.service.conftest import Run, complaint
from tests.service.programs import costed_run, two_layers
from tests.teg.sharding.looped import training

GRAPH = two_layers()
STAGES = {"count": 2, "schedule": "gpipe", "blocks": [2, 2]}
UNSUPPORTED = "does not support plans with stages (pipelines) yet"


def pipelined(count: int) -> Plan:
    """Build a plan with two layers on two of `count` stages, whose costs are those of the plain model."""
    blocks = {
        "y": Placement(parse_strategy("(gpu.0, -, -)"), part=1),
        "result": Placement(parse_strategy("(-, -)"), part=1),
        "down": Placement(parse_strategy("(-, -)"), part=1),
    }
    placements = Placements(blocks, devices="gpu:2", stages=Stages(count, "gpipe"))
    moves = (
        Move("set_option", "devices", "gpu:2"),
        Move("set_option", "stages", f"{count} x gpipe"),
        Move("reshard", "y", "(gpu.0, -, -)"),
    )
    mesh, known = load_mesh("dgx-h100"), known_objectives(GRAPH)
    tally = reference_cost(GRAPH, placements, mesh, resources=known.resources)
    return Plan(GRAPH, placements, moves, costs_of(tally.vector(), mesh, known), True)


@pytest.fixture
def run_id(home: Path) -> str:
    """Store a run with a plan of two stages, one of four, and one without."""
    home.mkdir()
    finished = costed_run(GRAPH)
    plans = (finished.result.frontier[0], pipelined(2), pipelined(4))
    result = replace(finished.result, frontier=plans)
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    found = store.runs.save_finished(replace(finished, result=result, verified={}, executions={}))
    store.close()
    return found


def plan_of(shown: Any, count: int) -> str:
    """Return the id of the plan with so many stages."""
    return next(p["id"] for p in shown["frontier"] if p["stages"] and p["stages"]["count"] == count)


def test_a_plan_with_stages_is_shown_and_explained(tapestry: Run, run_id: str) -> None:
    shown = tapestry("show", run_id, "--json").json
    known = {plan["id"]: plan["stages"] for plan in shown["frontier"]}
    two = plan_of(shown, 2)
    assert known.pop(two) == STAGES
    assert known.pop(plan_of(shown, 4)) == {"count": 4, "schedule": "gpipe", "blocks": [2, 2, 0, 0]}
    assert list(known.values()) == [None]
    assert tapestry("show", two, "--json").json["stages"] == STAGES
    table = tapestry("show", run_id).out
    head = next(line for line in table.splitlines() if line.startswith("plan "))
    assert " stages " in head
    row = next(line for line in table.splitlines() if line.startswith(two[:8]))
    assert " 2 x gpipe " in row

    explained = tapestry("explain", two)
    assert (
        "It runs in 2 stages (gpu:2 each), which take turns by the schedule gpipe; the parts of this pipeline have 4 "
        "and 0 blocks." in explained.out
    )


def test_a_plan_with_stages_is_run_and_its_trace_names_them(
    tapestry: Run, run_id: str, tmp_path: Path
) -> None:
    two = plan_of(tapestry("show", run_id, "--json").json, 2)
    tapestry("simulate", two, "--trace", tmp_path / "trace.json", "--no-store")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names == [f"device {k} (stage {k // 2})" for k in range(4)]


@pytest.mark.parametrize("form", ["table", "jax-specs", "dtensor", "ttnn", "tt", "teg"])
def test_tables_refuse_a_plan_with_stages(tapestry: Run, run_id: str, form: str) -> None:
    two = plan_of(tapestry("show", run_id, "--json").json, 2)
    assert UNSUPPORTED in complaint(tapestry("export", two, "--to", form))


@pytest.mark.parametrize("form", ["jax", "torch"])
def test_modules_of_a_plan_with_stages_are_exported(tapestry: Run, run_id: str, form: str) -> None:
    two = plan_of(tapestry("show", run_id, "--json").json, 2)
    module = tapestry("export", two, "--to", form).out
    assert module.startswith('"""two_layers on 4 devices, in 2 stages of gpu=2.')
    compile(module, form, "exec")


@pytest.mark.parametrize(
    "options", [("--fail", "gpu:1@0.5"), ("--tensor", "x=stored"), ("--save", "result=kept")]
)
def test_runs_refuse_what_stages_do_not_support(tapestry: Run, run_id: str, options: tuple[str, str]) -> None:
    shown = tapestry("show", run_id, "--json").json
    plain = next(plan["id"] for plan in shown["frontier"] if plan["stages"] is None)
    tapestry("simulate", plain, "--save", "result=stored", "--no-store")
    four = plan_of(shown, 4)
    assert UNSUPPORTED in complaint(tapestry("simulate", four, *options, "--no-store"))


def test_devices_of_a_plan_with_stages_may_be_slow(tapestry: Run, run_id: str) -> None:
    four = plan_of(tapestry("show", run_id, "--json").json, 4)
    slow = tapestry("simulate", four, "--slow", "gpu:2=3", "--json", "--no-store").json["disturbed"]
    assert slow["values"]["ok"]
    assert "uses all devices" in complaint(
        tapestry("simulate", plan_of(tapestry("show", run_id, "--json").json, 2), "--slow", "gpu:2=3")
    )


def test_stages_of_different_devices_are_searched_explained_and_run(tapestry: Run, tmp_path: Path) -> None:
    program = tmp_path / "training.json"
    save(training(64, "float32"), program)
    options = ("--mesh", "dgx-h100+dgx-a100", "--fix", "pipeline=2,micro_batches=4", "--evaluations", 300)
    found = tapestry("optimize", program, *options, "--islands", 1, "--quiet", "--json").json["frontier"]
    explained = tapestry("explain", found[0]["id"]).out
    assert "Devices are h100-sxm5-80gb in stage 0, a100-sxm4-80gb in stage 1." in explained
    assert tapestry("explain", found[0]["id"], "--json").json["as_stored"] is True
    run = tapestry("simulate", found[0]["id"]).out
    assert "equal the unsharded reference: yes" in run or "equals the unsharded reference: yes" in run
