"""Timed runs: programs run in a process of their own, for as long as asked, and faults are named."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.calibration.host import RunError
from tapestry.hardware.calibration.probes import probes
from tapestry.hardware.calibration.runs import FEWEST_PASSES, TimedRuns
from tapestry.hardware.calibration.timed import COLD_BYTES, MOST_COPIES, Load, Setting, with_copies
from tapestry.hardware.calibration.validation import median_error, on_one_device, validate
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.programs import program
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements

pytestmark = pytest.mark.slow  # each process loads torch
pytest.importorskip("torch")
MEASUREMENTS = 5


def products(count: int, size: int = 256) -> Graph:
    """Multiply a matrix so often."""
    with program("products") as p:
        x = p.input("x", row=size, column=size)
        for k in range(count):
            x = x.contract(p.parameter(f"w{k}", column=size, out=size), "column").rename(out="column")
        p.output("y", x)
    return p.graph


@pytest.fixture(scope="module")
def runs() -> Iterator[TimedRuns]:
    with TimedRuns(Setting()) as started:
        yield started


def test_more_work_takes_longer(runs: TimedRuns) -> None:
    """Compare the least of several measurements of programs that end before others take the processor from them."""
    names: list[str] = []
    counts = ("1 products", "20 products")
    for name in counts:
        runs.load(name, on_one_device(products(int(name.split()[0]), size=128)))
    found = [
        runs.measure(counts, 0.0, time.monotonic, lambda fraction, name: names.append(name))
        for _ in range(MEASUREMENTS)
    ]
    one, twenty = (min(each[name].seconds for each in found) for name in counts)
    assert 5 < twenty / one < 80
    assert sorted(names) == sorted(counts * FEWEST_PASSES * MEASUREMENTS)


def test_predicted_and_measured_stand_side_by_side(runs: TimedRuns) -> None:
    plans = {"three": on_one_device(products(3))}
    (found,) = validate(plans, load_mesh("cpu-node"), runs, 0.0, time.monotonic)
    assert found.name == "three" and found.predicted_s > 0
    assert found.error == found.predicted_s / found.measured.seconds - 1
    assert median_error([found]) == abs(found.error)
    low, high = found.interval_s
    assert 0 < low < found.predicted_s < high
    document = found.to_json()
    assert (document["low_s"], document["high_s"]) == (low, high)
    assert document["inside_90"] == (low <= found.measured.seconds <= high)


def test_memory_beside_the_tensors_is_counted(runs: TimedRuns) -> None:
    runs.load("memory", on_one_device(products(1)))
    assert 5e7 < runs.bare_bytes < 2e9  # of Python with PyTorch
    assert 0 <= runs.scratch_bytes("memory") < 1e9


def test_ranks_of_a_plan_run_together() -> None:
    graph, pair = products(2), MeshShape.of(gpu=2)
    with TimedRuns(Setting(ranks=2)) as together:
        together.load("pair", expand(graph, Placements({}), pair))
        assert together.measure(["pair"], 0.0, time.monotonic)["pair"].seconds > 0


def test_a_process_that_has_ended_is_reported() -> None:
    with TimedRuns(Setting()) as ended:
        ended.workers[0][0].kill()
        with pytest.raises(RunError, match="'lost': the process that ran it has ended"):
            ended.load("lost", on_one_device(products(1)))


def test_a_program_that_cannot_run_is_named(runs: TimedRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tapestry.hardware.calibration.runs.to_torch", lambda explicit: "import no_such_library"
    )
    with pytest.raises(RunError, match="'broken': ModuleNotFoundError: No module named 'no_such_library'"):
        runs.load("broken", on_one_device(products(1)))


def test_probes_are_programs_of_one_block_with_names_of_their_own() -> None:
    found = list(probes())
    assert len({probe.name for probe in found}) == len(found) > 80
    for probe in found:
        blocks = [b for b in probe.graph.blocks if b.operator not in ("source", "sink") and not b.is_view]
        assert len(blocks) == 1, probe.name


def test_copies_of_parameters_take_turns_until_no_cache_holds_them() -> None:
    torch = pytest.importorskip("torch")
    sources = {"x": torch.zeros(8), "w": torch.arange(COLD_BYTES // 16, dtype=torch.float32)}
    found = with_copies(sources, ["w", "not read"])
    assert found[0] is sources and len(found) == 4
    assert all(each["x"] is sources["x"] and torch.equal(each["w"], sources["w"]) for each in found)
    assert len({each["w"].data_ptr() for each in found}) == 4
    assert len(with_copies({"w": torch.zeros(8)}, ["w"])) == MOST_COPIES
    assert with_copies(sources, []) == [sources]


def test_only_parts_of_larger_programs_have_copies_of_their_parameters(
    runs: TimedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Load] = []
    monkeypatch.setattr(runs, "_answer", lambda order: orders.append(order) or 0.0)
    for is_part in (False, True):
        runs.load(f"part {is_part}", on_one_device(products(2)), is_part=is_part)
    assert [order.cold for order in orders] == [(), ("w0", "w1")]


def test_long_sources_repeat_their_first_numbers() -> None:
    graph = products(1)
    short = random_inputs(graph, np.random.default_rng(3), 1000)["x"].ravel()
    assert np.array_equal(short[:1000], short[1000:2000])
    assert len(np.unique(short)) == 1000
    whole = random_inputs(graph, np.random.default_rng(3), 2**16)["x"]
    assert np.array_equal(whole, random_inputs(graph, np.random.default_rng(3))["x"])
