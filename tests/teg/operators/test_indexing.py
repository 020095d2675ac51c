"""Tests of aligned gathers, scatters, scans and orderings against numpy's and the definition's own words."""

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.evaluate import evaluate, random_inputs, run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators import operator_named
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.verify import verify
from tapestry.teg.validate import validate
from tapestry.teg.zspace import ZRange


def run(operator, inputs, **attrs):
    """Run the whole block; return its value, and its definition with the output's type."""
    types = [TensorType(a.shape, a.dtype.name) for a in inputs]
    definition, outputs = define(operator, attributes(**attrs), types)
    return run_block(definition, None, inputs, outputs)[0], definition, outputs


def test_a_gather_with_all_dimensions_aligned_takes_along_its_axis(rng):
    table, indices = rng.standard_normal((3, 5, 4)), rng.integers(-5, 5, (3, 2, 4))

    got, definition, _ = run("gather", [table, indices], axis=1, aligned=((0, 0), (2, 2)))

    np.testing.assert_array_equal(got, np.take_along_axis(table, indices % 5, 1))
    assert [d.size for d in definition.signature.dims] == [3, 2, 4, 5]


def test_batches_of_a_gather_run_together_whatever_their_places(rng):
    table, indices = rng.standard_normal((6, 2, 3)), rng.integers(0, 6, (4, 3))

    got, _, _ = run("gather", [table, indices], axis=0, aligned=((2, 1),))

    wanted = np.stack([table[indices[:, k], :, k] for k in range(3)], axis=2)
    np.testing.assert_array_equal(got, wanted)


def test_what_lies_outside_is_clipped_or_zero():
    table, indices = np.array([10.0, 20.0, 30.0]), np.array([-1, 0, 2, 3])

    assert run("gather", [table, indices], axis=0, mode="clip")[0].tolist() == [10, 10, 30, 30]
    assert run("gather", [table, indices], axis=0, mode="fill")[0].tolist() == [0, 10, 30, 0]


@pytest.mark.parametrize(
    ("monoid", "function"), [("sum", np.add), ("prod", np.multiply), ("max", np.maximum)]
)
def test_a_scatter_combines_what_meets(monoid, function, rng):
    indices, updates = rng.integers(-4, 4, (6, 2)), rng.standard_normal((6, 2, 3))

    got, definition, _ = run("scatter", [indices, updates], axis=0, size=4, monoid=monoid)

    wanted = np.full((4, 3), {"sum": 0, "prod": 1, "max": -np.inf}[monoid], float)
    function.at(wanted, indices, updates)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    assert [d.kind for d in definition.signature.dims] == ["parallel", "parallel", monoid, monoid]


def test_the_last_update_stays_and_the_base_where_there_is_none():
    base, indices, updates = np.zeros(4), np.array([1, -1, 1]), np.array([5.0, 6.0, 7.0])

    assert run("scatter", [base, indices, updates], axis=0, monoid="last")[0].tolist() == [0, 7, 0, 6]


def test_a_shard_of_a_scatter_takes_the_updates_of_its_range(rng):
    base, indices, updates = np.zeros((8, 2)), np.array([0, 7, 3, 3]), rng.standard_normal((4, 2))
    whole, definition, outputs = run("scatter", [base, indices, updates], axis=0, monoid="last")

    part = run_block(definition, ZRange((2, 0), (5, 2)), [base, indices, updates], outputs)[0]

    np.testing.assert_array_equal(part, whole[2:5])
    np.testing.assert_array_equal(part[1], updates[3])


def test_a_scatter_outside_is_an_error_or_left_out():
    indices, updates = np.array([0, 3, -1]), np.array([1, 2, 4])

    assert run("scatter", [indices, updates], axis=0, size=3, monoid="sum", mode="drop")[0].tolist() == [
        1,
        0,
        0,
    ]
    with pytest.raises(ValueError, match=r"indices must lie in \[-3, 3\), not in \[-1, 3\]"):
        run("scatter", [indices, updates], axis=0, size=3, monoid="sum")


def test_a_scatter_counts_each_update_once():
    types = [TensorType((8192,), "int64"), TensorType((8192, 768), "float32")]
    definition, outputs = define("scatter", attributes(axis=0, size=50257, monoid="sum"), types)

    work = operator_named("scatter").work(definition, types, outputs)

    points = np.prod([d.size for d in definition.signature.dims])
    assert work.flops * points == pytest.approx(8192 * 768)


def test_scatters_say_what_is_wrong():
    indices, updates = np.array([0, 1]), np.ones((2, 3), np.float32)

    with pytest.raises(
        ValueError, match="attribute 'size' must be the result's size along the axis, not None"
    ):
        run("scatter", [indices, updates], axis=0, monoid="sum")
    with pytest.raises(ValueError, match=r"have shape \(2, 4\), not \(2, 3\)"):
        run("scatter", [np.zeros((5, 4), np.float32), indices, updates], axis=0, monoid="last")
    with pytest.raises(ValueError, match="'max' is or, 'min' is and"):
        run("scatter", [indices, updates > 0], axis=0, size=3, monoid="sum")
    with pytest.raises(ValueError, match="pair \\(0, 0\\) of 'aligned' must name a table dimension"):
        run("gather", [updates, indices], axis=0, aligned=((0, 0),))


def test_scans_go_both_ways_with_or_without_their_own_element():
    value = np.array([[1, 2, 3, 4]], np.int32)

    def scan(**attrs):
        return run("scan", [value], axis=1, **attrs)[0].tolist()

    assert scan(monoid="sum") == [[1, 3, 6, 10]]
    assert scan(monoid="sum", exclusive=True) == [[0, 1, 3, 6]]
    assert scan(monoid="sum", reverse=True) == [[10, 9, 7, 4]]
    assert scan(monoid="prod", exclusive=True, reverse=True) == [[24, 12, 4, 1]]
    assert scan(monoid="min", reverse=True) == [[1, 2, 3, 4]]


def test_a_running_logsumexp_is_the_logarithm_of_a_running_sum(rng):
    value = rng.standard_normal((3, 5))

    got = run("scan", [value], axis=0, monoid="logsumexp")[0]

    np.testing.assert_allclose(got, np.log(np.cumsum(np.exp(value), axis=0)), rtol=1e-12)


def test_of_equal_elements_the_first_or_the_last_is_the_greatest():
    value = np.array([[3, 7, 7, 1], [np.nan, 0, np.nan, 5]], np.float32)

    assert run("arg_reduce", [value], axis=1, kind="max")[0].tolist() == [1, 0]
    assert run("arg_reduce", [value], axis=1, kind="max", last=True)[0].tolist() == [2, 2]
    assert run("arg_reduce", [value[:1]], axis=1, kind="min")[0].tolist() == [3]


def test_sorting_keeps_the_order_of_equal_elements_both_ways():
    value = np.array([2, 5, 2, 9, 5])

    assert run("arg_sort", [value], axis=0, count=5, largest=False)[0].tolist() == [0, 2, 1, 4, 3]
    assert run("arg_sort", [value], axis=0, count=3, largest=True)[0].tolist() == [3, 1, 4]


def test_random_positions_fit_what_they_index(rng):
    b = GraphBuilder("positions")
    rows = b.source("rows", (200,), "int64")
    updates = b.source("updates", (200, 2), "float32")
    (summed,) = b.apply("scatter", (rows, updates), site="summed", axis=0, size=3, monoid="sum")
    b.sink(summed, site="out")
    graph = b.build()

    inputs = random_inputs(graph, rng)

    assert set(inputs["rows"].tolist()) == {0, 1, 2}
    assert evaluate(graph, inputs)["out"].shape == (3, 2)


def test_random_coordinates_stay_inside_the_flattened_table(rng):
    b = GraphBuilder("coordinates")
    row, column = (b.source(name, (50,), "int64") for name in ("row", "column"))
    table = b.source("table", (12,), "float32")
    expr = ("add", ("mul", ("input", 0), ("const", 4)), ("input", 1))
    dims = {"labels": (("i",), ("i",)), "dims": (("i", 50),), "dtype": "int64"}
    (places,) = b.apply("cell", (row, column), site="places", expr=expr, **dims)
    (read,) = b.apply("gather", (table, places), site="read", axis=0)
    b.sink(read, site="out")
    graph = b.build()

    inputs = random_inputs(graph, rng)

    assert set(inputs["row"].tolist()) == {0, 1}
    assert evaluate(graph, inputs)["out"].shape == (50,)


def test_what_is_made_of_nothing_is_a_correct_sharding(rng):
    b = GraphBuilder("nothing")
    rows, values = b.source("rows", (0,), "int64"), b.source("values", (0, 3), "float32")
    (sent,) = b.apply("scatter", (rows, values), site="sent", axis=0, size=5, monoid="max")
    (total,) = b.apply("reduce", (values,), site="total", labels=("a", "b"), output=("b",), monoid="sum")
    for site in (sent, total):
        b.sink(site)
    graph = b.build()

    assert validate(graph) == []
    assert verify(graph, expand(graph, Placements({}), MeshShape.of(device=2))) == []
    found = evaluate(graph, random_inputs(graph, rng))
    assert [v.tolist() for v in found.values()] == [[[-np.inf] * 3] * 5, [0.0] * 3]
