"""Tests of the public functions: files, names and values come in, mistakes are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deap.base import Toolbox

import tapestry
from tapestry import optimizer
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, Result, RunOptions
from tapestry.optimizer.analysis import affordability
from tapestry.optimizer.run.options import OptionError
from tapestry.teg.document import save
from tapestry.teg.graph import Graph
from tapestry.teg.programs.program import Program

SPLIT = "[gpu.0*gpu.1*gpu.2, -]"
QUICK: dict[str, Any] = {"evaluations": 200, "islands": 1}


def network(pin: str = "") -> Program:
    with tapestry.program("net") as p:
        x = p.input("x", batch=16, features=32)
        w = p.parameter("w", features=32, out=8)
        p.output("y", (x @ w).relu())
        if pin:
            p.pin(x, pin)
    return p


@pytest.fixture(scope="module")
def graph() -> Graph:
    return network().graph


@pytest.fixture(scope="module")
def result(graph: Graph) -> Result:
    return tapestry.optimize(graph, "dgx-h100", **QUICK)


def costs(found: Result) -> list[dict[str, float]]:
    return [dict(plan.cost) for plan in found.frontier]


def toolbox_with(name: str) -> Toolbox:
    toolbox = tapestry.default_toolbox()
    toolbox.register(name, tuple)
    return toolbox


def test_a_public_name_means_one_thing() -> None:
    for name in set(tapestry.__all__) & set(optimizer.__all__):
        assert getattr(tapestry, name) is getattr(optimizer, name)
    assert not hasattr(optimizer, "optimize"), "tapestry.optimize is the only one"


def test_a_program_is_a_graph_a_program_or_a_file(result: Result, graph: Graph, tmp_path: Path) -> None:
    save(graph, tmp_path / "net.json")
    for program in (network(), tmp_path / "net.json", str(tmp_path / "net.json")):
        assert costs(tapestry.optimize(program, load_mesh("dgx-h100"), **QUICK)) == costs(result)


def test_a_mesh_is_a_value_a_name_or_a_file(result: Result, graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\ndevice = "h100"\n[[axes]]\nname = "gpu"\nsize = 2\ntopology = "switch"\n')
    file.write_text(file.read_text() + "bandwidth_bytes_per_s = 1e11\nlatency_s = 1e-6\n")
    assert tapestry.optimize(graph, file, **QUICK).mesh.device_count == 2


def test_kernels_are_launched_as_stated(graph: Graph) -> None:
    found = tapestry.optimize(graph, "dgx-a100", launch="eager", **QUICK)
    captured = load_mesh("dgx-a100")
    assert found.mesh == captured.launched("eager") != captured
    (plan, *_) = found.frontier
    eager, alone = (tapestry.simulate(plan, mesh=mesh, execute=False) for mesh in (found.mesh, captured))
    assert eager.makespan_ticks == round(plan.cost["time_s"] * 1e12) > alone.makespan_ticks
    with pytest.raises(OptionError, match="launch: expected"):
        tapestry.optimize(graph, "dgx-a100", launch="later", **QUICK)


def test_the_pins_of_a_program_hold() -> None:
    for program, pins in (
        (network(SPLIT), None),
        (network(), {"x": SPLIT}),
        (network("[-, gpu.0]"), {"x": SPLIT}),
    ):
        found = tapestry.optimize(program, "dgx-h100", pins=pins, **QUICK)
        assert found.frontier
        assert {str(plan.placements.blocks["x"].strategy) for plan in found.frontier} == {
            "(gpu.0*gpu.1*gpu.2, -)"
        }


def test_limits_are_keywords_or_a_budget(graph: Graph) -> None:
    one = tapestry.optimize(graph, "dgx-h100", budget=tapestry.Budget(evaluations=200), islands=1)
    assert costs(one) == costs(tapestry.optimize(graph, "dgx-h100", **QUICK))
    assert tapestry.optimize(graph, "dgx-h100", seconds=0.05, islands=1).stopped


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "reported"),
    [
        (
            (7, "dgx-h100"),
            {},
            TypeError,
            "program: expected a program: a graph, .* not 7; import others by from_onnx",
        ),
        (("absent.onnx", "dgx-h100"), {}, ValueError, "there is no file 'absent.onnx'"),
        (("net", "dgx-h100"), {}, ValueError, "there is no file 'net'"),
        ((None, 8), {}, TypeError, "expected a mesh, a name such as 'dgx-h100' or the path .* not 8"),
        ((None, "dgx-h10"), {}, ValueError, "there is no mesh 'dgx-h10'; did you mean dgx-h100"),
        ((None, "h100"), {}, ValueError, "there is no mesh 'h100'"),
        (
            (None, "dgx-h100", "time_s"),
            {},
            TypeError,
            r"objectives: expected a list .*; write \['time_s'\]",
        ),
        ((None, "dgx-h100", ["tim_s"]), {}, ValueError, "there is no objective 'tim_s'; did you mean time_s"),
        (
            (None, "dgx-h100"),
            {"second": 1},
            TypeError,
            "optimize.. has no option 'second'; did you mean seconds",
        ),
        ((None, "dgx-h100"), {"shade": 1}, TypeError, "no option 'shade'; known are .*seconds"),
        ((None, "dgx-h100"), {"budget": 10}, TypeError, "budget: expected a Budget, not 10; write seconds="),
        (
            (None, "dgx-h100"),
            {"budget": tapestry.Budget(seconds=1), "seconds": 2},
            TypeError,
            "give seconds=, evaluations= and deadline_seconds=, or a budget=, not both",
        ),
        ((None, "dgx-h100"), {"seconds": "10"}, TypeError, "seconds: expected a number above 0, not '10'"),
        (
            (None, "dgx-h100"),
            {"seconds": -1},
            ValueError,
            "seconds: expected a number above 0, not -1",
        ),
        ((None, "dgx-h100"), {"seed": 1.5}, TypeError, "seed: expected a whole number .*, not 1.5"),
        (
            (None, "dgx-h100"),
            {"rules": ["fuse_cell"]},
            ValueError,
            "there is no rule 'fuse_cell'; did you mean fuse_cells",
        ),
        ((None, "dgx-h100"), {"rules": "fuse_cells"}, TypeError, "rules: expected a list of texts"),
        (
            (None, "dgx-h100"),
            {"constraints": "time_s<=1"},
            TypeError,
            "constraints: expected a list of texts",
        ),
        (
            (None, "dgx-h100"),
            {"pins": ["x"]},
            TypeError,
            "pins: expected texts by name, .* write {'linear': ",
        ),
        (
            (None, "dgx-h100"),
            {"pins": {"xx": "[-, -]"}},
            ValueError,
            "there is no block 'xx'; did you mean x",
        ),
        (
            (None, "dgx-h100"),
            {"devices": "al"},
            ValueError,
            "devices: expected one of any, all, not 'al'; did you mean all",
        ),
        ((None, "dgx-h100"), {"options": 3}, TypeError, "options: expected RunOptions, not 3"),
        ((None, "dgx-h100"), {"toolbox": 3}, TypeError, "toolbox: expected a deap.base.Toolbox, not 3"),
        (
            (None, "dgx-h10"),
            {"toolbox": toolbox_with("mutat")},
            ValueError,
            "no mesh 'dgx-h10'.* toolbox: there is no operator 'mutat'; did you mean mutate",
        ),
        ((None, "dgx-h100"), {"should_stop": 3}, TypeError, "should_stop: expected a function, not 3"),
        ((None, "dgx-h100"), {"dims": {"batch": 1}}, TypeError, "are for reading a file"),
    ],
)
def test_mistakes_are_reported_in_our_words(
    graph: Graph, arguments: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], reported: str
) -> None:
    program, *others = arguments
    with pytest.raises(kind, match=reported) as caught:
        tapestry.optimize(graph if program is None else program, *others, **options)
    assert "\n" not in str(caught.value)


def test_a_program_without_outputs_is_one_of_the_faults() -> None:
    with pytest.raises(OptionError) as caught:
        tapestry.optimize(tapestry.program("e"), "dgx-h10", seed=-1)
    program, mesh, seed = caught.value.faults
    assert "test_api.py:" in program and "requests.py" not in program
    assert program.endswith("program 'e' has no outputs; add p.output(name, tensor)")
    assert mesh.startswith("mesh: there is no mesh 'dgx-h10'")
    assert seed.startswith("seed: expected a whole number")


def test_a_plan_of_a_result_is_verified_by_role_id_or_value(result: Result) -> None:
    fastest = min(result.frontier, key=lambda plan: plan.cost["time_s"])
    for plan in ("fastest", fastest.id, fastest.id[:10], fastest):
        checked = tapestry.verify(result, plan)
        assert checked.ok and checked.executed and set(checked.max_error) == {"y"}
        assert checked.memory.predicted == fastest.cost["peak_memory_bytes"]
    assert not tapestry.verify(result, execute=False).executed


def test_a_plan_alone_needs_its_mesh_and_its_program(result: Result, graph: Graph) -> None:
    plan = result.frontier[0]
    assert not tapestry.verify(plan, mesh="dgx-h100").executed
    assert tapestry.verify(plan, mesh="dgx-h100", program=graph).max_error
    with pytest.raises(
        TypeError, match="a plan does not say where it runs: give the result with it, or mesh="
    ):
        tapestry.verify(plan)
    with pytest.raises(TypeError, match="give program=, or the result"):
        tapestry.verify(plan, mesh="dgx-h100", execute=True)
    with pytest.raises(TypeError, match="a result knows its program"):
        tapestry.verify(result, mesh="dgx-h100")


def test_a_plan_that_computes_something_else_fails(result: Result, graph: Graph) -> None:
    with tapestry.program("other") as p:
        x = p.input("x", batch=16, features=32)
        w = p.parameter("w", features=32, out=8)
        p.output("y", (x @ w).relu() + 1)
    checked = tapestry.verify(result.frontier[0], mesh="dgx-h100", program=p)
    assert not checked.ok
    assert checked.failures[0].startswith("output 'y' differs by ")
    assert repr(checked).startswith("Verification(FAILED, output 'y' differs by ")


def test_values_are_computed_only_where_that_is_affordable(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affordability, "LONGEST_EXECUTION_S", 0.0)
    assert not tapestry.verify(result).executed
    assert tapestry.verify(result, execute=True).executed
    monkeypatch.setattr(affordability.os, "sysconf", lambda _: 0)
    with pytest.raises(ValueError, match="too much to compute here; execute=False only counts"):
        tapestry.verify(result, execute=True)


def test_a_plan_is_simulated_with_the_inputs_of_the_program(result: Result) -> None:
    x, w = np.ones((16, 32), np.float32), np.full((32, 8), 2, np.float32)
    run = tapestry.simulate(result, "fastest", inputs={"x": x, "w": w})
    np.testing.assert_array_equal(run.outputs["y"], np.full((16, 8), 64.0, np.float32))
    dry = tapestry.simulate(result, "fastest", trace=True, execute=False)
    assert not dry.outputs and dry.events and dry.makespan_ticks == run.makespan_ticks
    assert repr(dry).endswith("values not computed)")
    with pytest.raises(ValueError, match=r"input 'w' of shape .* is missing"):
        tapestry.simulate(result, inputs={"x": x})
    with pytest.raises(
        ValueError, match=r"input 'w' of shape .* is missing; there is no input 'ww'; did you mean w"
    ):
        tapestry.simulate(result, inputs={"x": x, "ww": w})


def test_a_simulation_without_inputs_draws_them_and_says_so(result: Result) -> None:
    one, same, other = (tapestry.simulate(result, seed=seed) for seed in (3, 3, 4))
    assert repr(one).endswith("1 output of random inputs (seed 3))")
    np.testing.assert_array_equal(one.outputs["y"], same.outputs["y"])
    assert not np.array_equal(one.outputs["y"], other.outputs["y"])


def test_checks_follow_the_search(graph: Graph) -> None:
    for options in ({"verify": "execute"}, {"options": RunOptions(verify="execute")}):
        with pytest.raises(ValueError, match=r"come after the search: call tapestry\.verify\(result\)"):
            tapestry.optimize(graph, "dgx-h100", **options)


def test_numbers_of_numpy_are_numbers(graph: Graph) -> None:
    assert (
        tapestry.optimize(graph, "dgx-h100", evaluations=np.int64(20), islands=1, seed=np.uint8(7)).seed == 7
    )


def test_the_precision_of_a_search_is_that_of_its_simulation(graph: Graph) -> None:
    found = tapestry.optimize(graph, "dgx-h100", compute_dtype="bf16", **QUICK)
    plan = found.frontier[0]
    assert tapestry.simulate(found, plan).makespan_ticks == round(plan.cost["time_s"] * 1e12)


@pytest.mark.parametrize(
    ("call", "kind", "reported"),
    [
        (
            lambda r: tapestry.verify("dgx-h100"),
            TypeError,
            "expected the result of optimize.., or a plan .* not 'dgx-h100'",
        ),
        (lambda r: tapestry.verify(r, "kne"), ValueError, "has no plan 'kne'; did you mean knee"),
        (
            lambda r: tapestry.simulate(r, "zzz"),
            ValueError,
            "no plan 'zzz'; known are knee, fastest, smallest peak",
        ),
        (
            lambda r: tapestry.simulate(r, 3),
            TypeError,
            "expected a plan, the first digits of its id, or its role",
        ),
    ],
)
def test_a_wrong_plan_is_reported(
    result: Result, call: Callable[[Result], object], kind: type, reported: str
) -> None:
    with pytest.raises(kind, match=reported):
        call(result)


def test_an_id_that_could_be_several(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "id", property(lambda plan: f"ab{len(plan.moves)}"))
    assert len(result.frontier) > 1
    with pytest.raises(ValueError, match=r"plan 'a' could be ab.*; write more of its id"):
        tapestry.simulate(result, "a")
