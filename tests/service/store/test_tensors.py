"""Tests of tensors in the store: named ones stay with their place, those of executions go with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from tapestry.service.store import (
    ComputedTensors,
    Store,
    StoreError,
    TensorPlace,
    TensorRequest,
    TensorValue,
    UnknownId,
)
from tapestry.teg.dtypes import NAMES, numpy_dtype
from tapestry.teg.loading import LoadCost
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later

PLACE = TensorPlace("dgx-h100", "0" * 32, "gpu:4", (2, 3), "[gpu.0, -]", "")
PAIR = {
    "w": TensorValue.of(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "b": TensorValue.of(np.array(3, dtype=np.int64)),
}


@pytest.mark.parametrize("dtype", NAMES)
def test_a_value_of_any_type_comes_back(dtype: str) -> None:
    array = np.ones((3, 2)).astype(numpy_dtype(dtype)).T
    found = TensorValue.of(array)
    assert (found.dtype, found.shape) == (dtype, (2, 3))
    np.testing.assert_array_equal(found.array, array)
    assert found.digest != TensorValue.of(array.reshape(3, 2)).digest


def test_named_tensors_stay_with_value_and_place(store: Store) -> None:
    store.tensors.put(PAIR, NOON, {"w": PLACE})
    assert [(t.name, t.dtype, t.shape, t.size_bytes, t.place) for t in store.tensors.all()] == [
        ("b", "int64", (), 8, None),
        ("w", "float32", (2, 3), 24, PLACE),
    ]
    assert store.tensors.load("w")[1] == PAIR["w"]
    found = store.tensors.get("w")
    assert (found.digest, found.stored_at) == (PAIR["w"].digest, NOON)


def test_many_store_and_delete_one_name_at_once(store: Store, store_url: str) -> None:
    """Check that none is refused, and that what was put last is there."""
    others = [Store(store_url) for _ in range(3)]

    def work(k: int) -> None:
        for _ in range(15):
            others[k].tensors.put({"shared": TensorValue.of(np.full(2, k))}, NOON)
            with suppress(UnknownId):
                others[k].tensors.drop(["shared"])

    with ThreadPoolExecutor(len(others)) as pool:
        list(pool.map(work, range(len(others))))
    store.tensors.put({"shared": PAIR["w"]}, NOON)
    assert store.tensors.load("shared")[1] == PAIR["w"]
    for other in others:
        other.close()


def test_what_loading_a_tensor_costs_stays_until_it_lies_on_a_mesh(store: Store) -> None:
    cost = LoadCost(0.5, 25e9, "gpu:3")
    store.tensors.put(PAIR, NOON, load=cost)
    store.tensors.copy("w", "w2", later(1))
    assert [store.tensors.get(name).load for name in ("w", "b", "w2")] == [cost] * 3
    store.tensors.put({"w": PAIR["w"]}, later(2), {"w": PLACE}, cost)
    assert (store.tensors.get("w").load, store.tensors.get("w").place) == (None, PLACE)


def test_a_tensor_of_the_same_name_is_replaced_with_its_place(store: Store) -> None:
    store.tensors.put(PAIR, NOON, {"w": PLACE})
    store.tensors.put({"w": PAIR["b"]}, later(1))
    found = store.tensors.get("w")
    assert (found.shape, found.place, found.stored_at) == ((), None, later(1))


def test_a_copy_lies_where_the_tensor_lies(store: Store) -> None:
    store.tensors.put(PAIR, NOON, {"w": PLACE})
    store.tensors.copy("w", "w2", later(1))
    store.tensors.drop(["w"])
    assert store.tensors.load("w2")[1] == PAIR["w"]
    assert store.tensors.get("w2").place == PLACE


def test_an_unknown_name_is_refused_with_near_ones_and_drops_nothing(store: Store) -> None:
    store.tensors.put({"weight": PAIR["w"]}, NOON)
    with pytest.raises(UnknownId, match="there is no tensor 'wieght'; did you mean weight"):
        store.tensors.drop(["weight", "wieght"])
    assert store.tensors.get("weight").shape == (2, 3)
    with pytest.raises(UnknownId):
        store.tensors.load("none")[1]
    with pytest.raises(UnknownId):
        store.tensors.copy("none", "other", NOON)


def test_an_execution_keeps_what_it_was_given_and_what_it_computed(store: Store) -> None:
    run = finished_run(two_layers())
    plan = store.runs.find(store.runs.save_finished(run)).frontier[1]
    request = TensorRequest(given=("x",), tensors={"up": "w"}, save={"result": "y"}, outputs=True)
    submitted = store.executions.submit(
        plan.key,
        backend="numpy",
        values=True,
        seed=None,
        created_at=later(1),
        request=request,
        given={"x": PAIR["w"]},
    )
    found = store.executions.get(submitted.id)
    assert (found.request.to_json(), found.has_outputs) == (request.to_json(), False)
    assert store.executions.tensors(submitted.id, "input") == {"x": PAIR["w"]}
    job = store.jobs.claim("ada", later(2), LEASE_S)
    assert job is not None
    computed = ComputedTensors({"result": PAIR["b"]}, {"y": PAIR["b"]}, {"y": PLACE})
    (outcome,) = run.executions.values()
    store.jobs.end_execution(job, later(3), "finished", execution=outcome, computed=computed)
    assert store.executions.get(submitted.id).has_outputs
    assert store.executions.tensors(submitted.id, "output") == {"result": PAIR["b"]}
    assert (store.tensors.load("y")[1], store.tensors.get("y").place) == (PAIR["b"], PLACE)


def test_a_failed_execution_stores_nothing(store: Store) -> None:
    plan = store.runs.find(store.runs.save_finished(finished_run(two_layers()))).frontier[1]
    request = TensorRequest(save={"result": "y"})
    store.executions.submit(
        plan.key, backend="numpy", values=True, seed=0, created_at=later(1), request=request
    )
    job = store.jobs.claim("ada", later(2), LEASE_S)
    assert job is not None
    store.jobs.end_execution(job, later(3), "failed", problem={"code": "x", "title": "x", "detail": "x"})
    assert store.tensors.all() == ()
    with pytest.raises(StoreError):
        store.tensors.get("y")
