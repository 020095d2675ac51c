"""Tests of executions with given values and stored tensors, done as a worker does them."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.simulator.resharding import Sharding, reshard
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.store import Store, StoredExecution, TensorRequest, TensorValue
from tapestry.service.worker import executing
from tapestry.service.worker.executing import ExecutionRefused, do_execution
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.teg.builder import define
from tapestry.teg.graph import Graph, attributes
from tapestry.teg.loading import LoadCost
from tapestry.teg.sharding.text import parse_spec
from tests.service.programs import costed_run, two_layers
from tests.service.worker.conftest import Bench


class Inline(InlineExecutor):
    """An executor in this process, with the constructor and the end of a pool."""

    def __init__(self, _: int) -> None:
        super().__init__()

    def abandon(self) -> None:
        """Do nothing, since there is no process."""


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> type[Executor]:
    monkeypatch.setattr(executing, "ProcessIslands", Inline)
    return Inline


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = {"x": (8, 8), "up": (8, 32), "down": (32, 8)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def stored(arrays: dict[str, np.ndarray]) -> dict[str, TensorValue]:
    return {name: TensorValue.of(array) for name, array in arrays.items()}


class Executions:
    """A stored plan of `two_layers`, whose block `y` is split by rows in two, executed on request."""

    def __init__(self, bench: Bench, graph: Graph | None = None) -> None:
        self.bench, self.store = bench, bench.store
        run_id = self.store.runs.save_finished(costed_run(graph or two_layers(width=8)))
        self.plan = self.store.runs.find(run_id).frontier[0]

    def do(self, given: dict[str, np.ndarray] | None = None, **request: Any) -> StoredExecution:
        requested = TensorRequest(given=tuple(given or ()), **request)
        submitted = self.store.executions.submit(
            self.plan.key,
            backend="numpy",
            values=True,
            seed=0,
            created_at=datetime.now(UTC),
            request=requested,
            given=stored(given or {}),
        )
        job = self.store.jobs.claim("worker", datetime.now(UTC), 60.0, ("execution",))
        assert job is not None and job.subject == submitted.id
        do_execution(self.store, ClaimedJob(job, 60.0, self.bench.draining))
        return self.store.executions.get(submitted.id)


@pytest.fixture
def executions(bench: Bench) -> Executions:
    return Executions(bench)


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    result: np.ndarray = np.maximum(given["x"] @ given["up"], 0) @ given["down"]
    return result


def test_given_values_are_computed_with_and_outputs_kept(executions: Executions) -> None:
    done = executions.do(values(), outputs=True)
    assert done.verified is not None and done.verified["values"]["ok"] is True
    assert (done.seed, done.values, done.has_outputs) == (None, True, True)
    found = executions.store.executions.tensors(done.id, "output")
    np.testing.assert_allclose(found["result"].array, expected(values()), rtol=1e-5)
    assert "moves" not in (done.counts or {})


def test_seeded_values_may_be_kept_too(executions: Executions) -> None:
    done = executions.do(outputs=True)
    assert done.seed == 0
    assert executions.store.executions.tensors(done.id, "output").keys() == {"result"}
    assert executions.store.executions.tensors(executions.do().id, "output") == {}


def test_a_stored_tensor_that_lies_on_no_mesh_is_loaded_without_charge(executions: Executions) -> None:
    executions.store.tensors.put(stored({"weights/up": values()["up"]}), datetime.now(UTC))
    given = {name: array for name, array in values().items() if name != "up"}
    done = executions.do(given, tensors={"up": "weights/up"})
    assert done.verified is not None and done.verified["values"]["ok"] is True
    assert done.counts is not None
    (move,) = done.counts["moves"]["tensors"]
    assert (move["input"], move["name"], move["kind"], move["traffic_bytes"]) == (
        *("up", "weights/up", "load"),
        0,
    )
    assert move["loaded_bytes"] == 8 * 8 * 32 * 4, "it begins whole on eight devices"
    assert done.counts["moves"]["loaded_bytes"] == move["loaded_bytes"]
    counted = done.counts["traffic_bytes"]["counted"]
    assert done.counts["with_moves"]["traffic_bytes"] == counted


def test_what_loading_a_stored_tensor_takes_is_charged(executions: Executions) -> None:
    """Check 1 KiB that comes to one device at 1 KiB/s, and goes to the seven others whole."""
    cost = LoadCost(seconds=2.0, bytes_per_s=2.0**10, device="gpu:3")
    executions.store.tensors.put(stored({"up": values()["up"]}), datetime.now(UTC), load=cost)
    given = {name: array for name, array in values().items() if name != "up"}
    done = executions.do(given, tensors={"up": "up"})
    assert done.counts is not None
    moves, counted = done.counts["moves"], done.counts["time_s"]["counted"]
    assert (moves["loaded_bytes"], moves["traffic_bytes"]) == (2**10, 7 * 2**10)
    assert moves["time_s"] == pytest.approx(3.0, abs=1e-3)
    assert done.counts["with_moves"]["time_s"] == moves["time_s"] + counted
    executions.store.tensors.put(stored({"up": values()["up"]}), datetime.now(UTC), load=LoadCost(device="x"))
    with pytest.raises(ValueError, match="input 'up': device 'x' is none of mesh 'dgx-h100'"):
        executions.do(given, tensors={"up": "up"})


def test_what_a_program_states_for_loading_an_input_is_charged(bench: Bench) -> None:
    graph = two_layers(width=8)
    (x,) = (block for block in graph.sources if block.site == "x")
    stated = dict(x.definition.attributes) | {"load_seconds": 0.5}
    priced = replace(x, definition=define("source", attributes(**stated), ())[0])
    done = Executions(bench, graph.replace(priced if b is x else b for b in graph.blocks)).do()
    assert done.counts is not None and done.verified is not None
    (move,) = done.counts["moves"]["tensors"]
    assert (move["input"], move["name"], move["kind"], move["time_s"]) == ("x", "", "load", 0.5)
    assert done.verified["values"]["ok"] is True


def test_an_output_stays_in_its_place_and_the_next_input_starts_there(executions: Executions) -> None:
    """Check that nothing moves: the sink leaves `result` whole on every device, and `x` begins so."""
    executions.do(values(), save={"result": "y"})
    tensor = executions.store.tensors.get("y")
    assert tensor.place is not None
    assert (tensor.place.mesh, tensor.place.spec, tensor.place.devices) == ("dgx-h100", "[-, -]", "")
    given = {name: array for name, array in values().items() if name != "x"}
    again = executions.do(given, tensors={"x": "y"}, outputs=True)
    assert again.counts is not None
    assert [move["kind"] for move in again.counts["moves"]["tensors"]] == ["none"]
    found = executions.store.executions.tensors(again.id, "output")["result"].array
    np.testing.assert_allclose(found, expected({**values(), "x": expected(values())}), rtol=1e-4)


def test_a_tensor_elsewhere_on_the_mesh_is_moved_and_charged(executions: Executions, store: Store) -> None:
    executions.do(values(), save={"result": "y"})
    place = store.tensors.get("y").place
    assert place is not None
    split = type(place)(**{**place.to_json(), "shape": place.shape, "spec": "[gpu.0*gpu.1*gpu.2, -]"})
    store.tensors.put({"y": store.tensors.load("y")[1]}, datetime.now(UTC), {"y": split})
    given = {name: array for name, array in values().items() if name != "x"}
    done = executions.do(given, tensors={"x": "y"})
    gathered = reshard(
        (8, 8),
        "float32",
        Sharding(parse_spec(split.spec)),
        Sharding(parse_spec("[-, -]")),
        load_mesh("dgx-h100"),
    )
    assert done.counts is not None
    (move,) = done.counts["moves"]["tensors"]
    assert (move["kind"], move["held"], move["wanted"]) == ("reshard", split.spec, "[-, -]")
    assert move["traffic_bytes"] == gathered.traffic_bytes == 8 * 8 * 8 * 4 * 7 // 8
    assert move["time_s"] == gathered.makespan_ticks / 1e12 > 0
    total, counted = done.counts["with_moves"], done.counts
    assert total["traffic_bytes"] == counted["traffic_bytes"]["counted"] + move["traffic_bytes"]
    assert total["time_s"] == pytest.approx(counted["time_s"]["counted"] + move["time_s"])
    assert (
        done.verified is not None
        and done.verified["traffic"]["predicted"] == done.verified["traffic"]["counted"]
    )


def test_a_tensor_that_was_dropped_meanwhile_fails_the_execution_with_its_name(
    executions: Executions,
) -> None:
    with pytest.raises(ExecutionRefused, match="input 'x': there is no tensor 'gone'"):
        executions.do(tensors={"x": "gone"})
    assert executions.store.tensors.all() == ()


def test_values_that_do_not_fit_any_more_fail_with_all_faults(executions: Executions) -> None:
    with pytest.raises(ValueError, match=r"input 'x' must have shape \(8, 8\).*input 'up' .* is missing"):
        executions.do({"x": np.zeros((2, 2), np.float32)})
