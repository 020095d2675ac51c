"""Tests that the small functions inside reductions and sorts are recognized by their meaning, not by their spelling."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from tapestry.teg.importers import ImportFailure, from_stablehlo
from tests.teg.importers.stablehlo.programs import run_text

VALUES = np.array([[3, 1, 3, 0, 2], [-1, -1, -2, -1, -5]], np.float32)


def sort(comparator: str) -> str:
    return (
        "func.func @main(%x: tensor<2x5xf32>, %y: tensor<2x5xi32>) -> (tensor<2x5xf32>, tensor<2x5xi32>) {\n"
        '%r:2 = "stablehlo.sort"(%x, %y) ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):\n"
        f"{comparator}\nstablehlo.return %c : tensor<i1>\n}}) {{dimension = 1 : i64, is_stable = true}}"
        " : (tensor<2x5xf32>, tensor<2x5xi32>) -> (tensor<2x5xf32>, tensor<2x5xi32>)\n"
        "return %r#0, %r#1 : tensor<2x5xf32>, tensor<2x5xi32>\n}"
    )


def reduce_pairs(body: str) -> str:
    return (
        "func.func @main(%x: tensor<2x5xf32>) -> (tensor<2xf32>, tensor<2xi32>) {\n"
        "%p = stablehlo.iota dim = 1 : tensor<2x5xi32>\n"
        "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>\n%zero = stablehlo.constant dense<0> : tensor<i32>\n"
        '%r:2 = "stablehlo.reduce"(%x, %p, %low, %zero) ({\n'
        "^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):\n"
        f"{body}\nstablehlo.return %v, %w : tensor<f32>, tensor<i32>\n}}) {{dimensions = array<i64: 1>}}"
        " : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)\n"
        "return %r#0, %r#1 : tensor<2xf32>, tensor<2xi32>\n}"
    )


def compare(direction: str, a: str, b: str, kind: str = "f32") -> str:
    return f"stablehlo.compare {direction}, {a}, {b} : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>"


CHOOSE = (
    "%v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>\n"
    "%w = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>"
)
FIRST = "\n".join(
    [
        f"%g = {compare('GT', '%a', '%b')}\n%n = {compare('NE', '%a', '%a')}\n%e = {compare('EQ', '%a', '%b')}",
        f"%l = {compare('LT', '%i', '%j', 'i32')}\n%t = stablehlo.and %e, %l : tensor<i1>",
        "%u = stablehlo.or %g, %n : tensor<i1>\n%c = stablehlo.or %u, %t : tensor<i1>",
        "%v = stablehlo.select %u, %a, %b : tensor<i1>, tensor<f32>",
        "%w = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>",
    ]
)


def test_the_first_position_of_the_largest_is_one_block() -> None:
    graph = from_stablehlo(reduce_pairs(FIRST))
    assert [b.operator for b in graph.blocks if b.operator.startswith("arg")] == ["arg_reduce"]
    values, places = run_text(reduce_pairs(FIRST), VALUES)
    np.testing.assert_array_equal(values, [3, -1])
    np.testing.assert_array_equal(places, [0, 0])


def test_the_last_position_of_the_largest_is_combined_in_pairs() -> None:
    body = f"%c = {compare('GT', '%a', '%b')}\n{CHOOSE}"
    graph = from_stablehlo(reduce_pairs(body))
    assert not [b for b in graph.blocks if b.operator == "arg_reduce"]
    values, places = run_text(reduce_pairs(body), VALUES)
    np.testing.assert_array_equal(values, [3, -1])
    np.testing.assert_array_equal(places, [2, 3])


@pytest.mark.parametrize("written", [compare("GT", "%a", "%b"), compare("LT", "%b", "%a")])
def test_descending_sorts_keep_equal_elements_in_order(written: str) -> None:
    values, places = run_text(sort(f"%c = {written}"), VALUES, np.tile(np.arange(5, dtype=np.int32), (2, 1)))
    np.testing.assert_array_equal(values, [[3, 3, 2, 1, 0], [-1, -1, -1, -2, -5]])
    np.testing.assert_array_equal(places, [[0, 2, 4, 1, 3], [0, 1, 3, 2, 4]])


def test_sorts_by_the_second_operand() -> None:
    keys = np.array([[4, 0, 3, 1, 2], [0, 1, 2, 4, 3]], np.int32)
    values, places = run_text(sort(f"%c = {compare('LT', '%i', '%j', 'i32')}"), VALUES, keys)
    np.testing.assert_array_equal(places, [[0, 1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(values, np.take_along_axis(VALUES, np.argsort(keys, 1), 1))


def test_comparators_that_compute_are_refused() -> None:
    text = sort(f"%s = stablehlo.add %a, %a : tensor<f32>\n%c = {compare('LT', '%s', '%b')}")
    with pytest.raises(ImportFailure, match="its comparator orders by one or two of the operands"):
        from_stablehlo(text)


def test_a_body_that_computes_with_an_argument_comes_in() -> None:
    text = (
        "func.func @main(%x: tensor<2x5xf32>) -> tensor<2xf32> {\n"
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%r = "stablehlo.reduce"(%x, %z) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n'
        "%one = stablehlo.constant dense<1.0> : tensor<f32>\n%s = stablehlo.multiply %b, %one : tensor<f32>\n"
        "%t = stablehlo.add %a, %s : tensor<f32>\nstablehlo.return %t : tensor<f32>\n"
        "}) {dimensions = array<i64: 1>} : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>\n"
        "return %r : tensor<2xf32>\n}"
    )
    (found,) = run_text(text, VALUES)
    np.testing.assert_array_equal(found, VALUES.sum(1))
