"""Tests of operations that JAX does not write, or not in every form: small modules against numpy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from tapestry.teg.importers import ImportFailure, from_stablehlo
from tests.teg.importers.stablehlo.programs import run_text

RNG = np.random.default_rng(9)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def module(body: str, arguments: str, result: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def test_batch_norm_training() -> None:
    text = module(
        '%o, %m, %v = "stablehlo.batch_norm_training"(%x, %s, %b) {epsilon = 0.01 : f32, feature_index = 1 : i64}'
        " : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)\n"
        "return %o, %m, %v : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>",
        "%x: tensor<4x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>",
        "(tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)",
    )
    x, scale, offset = normal(4, 3), normal(3), normal(3)
    out, mean, variance = run_text(text, x, scale, offset)
    np.testing.assert_allclose(mean, x.mean(0), atol=1e-6)
    np.testing.assert_allclose(variance, x.var(0), atol=1e-6)
    np.testing.assert_allclose(
        out, (x - x.mean(0)) / np.sqrt(x.var(0) + 0.01) * scale + offset, rtol=1e-4, atol=1e-5
    )


def test_batch_norm_gradient_is_the_derivative_of_training() -> None:
    text = module(
        '%a, %b, %c = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {epsilon = 0.01 : f32, feature_index = 1 : i64}'
        " : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>)"
        " -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)\n"
        "return %a, %b, %c : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>",
        "%x: tensor<4x3xf64>, %s: tensor<3xf64>, %m: tensor<3xf64>, %v: tensor<3xf64>, %g: tensor<4x3xf64>",
        "(tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)",
    )
    x, scale, upstream = RNG.standard_normal((4, 3)), RNG.standard_normal(3), RNG.standard_normal((4, 3))

    def loss(at: np.ndarray, by: np.ndarray) -> float:
        return float(np.sum(upstream * (at - at.mean(0)) / np.sqrt(at.var(0) + 0.01) * by))

    by_value, by_scale, by_offset = run_text(text, x, scale, x.mean(0), x.var(0), upstream)
    step = np.zeros((4, 3))
    step[1, 2] = 1e-6
    assert by_value[1, 2] == pytest.approx((loss(x + step, scale) - loss(x - step, scale)) / 2e-6, rel=1e-5)
    assert by_scale.sum() == pytest.approx(loss(x, np.ones(3)))
    np.testing.assert_allclose(by_offset, upstream.sum(0))


def test_select_and_scatter_sends_numbers_to_the_first_largest() -> None:
    text = module(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%r = "stablehlo.select_and_scatter"(%x, %s, %z) ({\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %c : tensor<i1>\n}, {\n"
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%c = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %c : tensor<f32>\n})"
        " {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}"
        " : (tensor<7xf32>, tensor<3xf32>, tensor<f32>) -> tensor<7xf32>\nreturn %r : tensor<7xf32>",
        "%x: tensor<7xf32>, %s: tensor<3xf32>",
        "tensor<7xf32>",
    )
    (found,) = run_text(text, np.array([1, 5, 5, 2, 9, 9, 0], np.float32), np.array([10, 20, 40], np.float32))
    np.testing.assert_array_equal(found, [0, 10, 0, 0, 60, 0, 0])


def test_tuples_maps_and_barriers() -> None:
    text = module(
        "%t = stablehlo.tuple %x, %y : tuple<tensor<3xf32>, tensor<3xf32>>\n"
        "%a = stablehlo.get_tuple_element %t[1] : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>\n"
        "%b:2 = stablehlo.optimization_barrier %a, %x : tensor<3xf32>, tensor<3xf32>\n"
        '%r = "stablehlo.map"(%b#0, %b#1) ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n'
        "%two = stablehlo.constant dense<2.0> : tensor<f32>\n"
        "%m = stablehlo.multiply %p, %two : tensor<f32>\n%s = stablehlo.subtract %m, %q : tensor<f32>\n"
        "stablehlo.return %s : tensor<f32>\n}) {dimensions = array<i64: 0>}"
        " : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>\nreturn %r : tensor<3xf32>",
        "%x: tensor<3xf32>, %y: tensor<3xf32>",
        "tensor<3xf32>",
    )
    x, y = normal(3), normal(3)
    np.testing.assert_array_equal(run_text(text, x, y)[0], 2 * y - x)


def test_reversed_convolution_windows() -> None:
    text = module(
        "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[f, 0, b],"
        " window = {pad = [[1, 0]], reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<2x1x6xf32>, tensor<1x1x3xf32>) -> tensor<1x5x2xf32>\nreturn %r : tensor<1x5x2xf32>",
        "%x: tensor<2x1x6xf32>, %w: tensor<1x1x3xf32>",
        "tensor<1x5x2xf32>",
    )
    x, w = normal(2, 1, 6), normal(1, 1, 3)
    (found,) = run_text(text, x, w)
    for image in range(2):
        wanted = np.convolve(x[image, 0], w[0, 0])[1:6]
        np.testing.assert_allclose(found[0, :, image], wanted, rtol=1e-5, atol=1e-6)


def test_padding_with_a_value_from_outside() -> None:
    text = module(
        "%r = stablehlo.pad %x, %v, low = [1], high = [-1], interior = [1]"
        " : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>\n"
        "return %r : tensor<5xf32>",
        "%x: tensor<3xf32>, %v: tensor<f32>",
        "tensor<5xf32>",
    )
    (found,) = run_text(text, np.array([1, 2, 3], np.float32), np.float32(9))
    np.testing.assert_array_equal(found, [9, 1, 9, 2, 9])


def test_total_order_of_floats() -> None:
    text = module(
        "%r = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>\n"
        "return %r : tensor<4xi1>",
        "%x: tensor<4xf32>, %y: tensor<4xf32>",
        "tensor<4xi1>",
    )
    x = np.array([-0.0, np.inf, -np.nan, 1], np.float32)
    y = np.array([0.0, np.nan, -np.inf, 1], np.float32)
    np.testing.assert_array_equal(run_text(text, x, y)[0], [True, True, True, False])


def test_scalars_of_64_bits_as_parts() -> None:
    text = module(
        "%a = stablehlo.bitcast_convert %x : (tensor<2xui64>) -> tensor<2x2xui32>\n"
        "%b = stablehlo.bitcast_convert %a : (tensor<2x2xui32>) -> tensor<2xui64>\n"
        "return %a, %b : tensor<2x2xui32>, tensor<2xui64>",
        "%x: tensor<2xui64>",
        "(tensor<2x2xui32>, tensor<2xui64>)",
    )
    x = np.array([1 << 40 | 7, (1 << 64) - 2], np.uint64)
    parts, whole = run_text(text, x)
    np.testing.assert_array_equal(parts, x.view(np.uint32).reshape(2, 2))
    np.testing.assert_array_equal(whole, x)


def test_composites_are_their_decomposition() -> None:
    text = (
        "func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
        "%b = stablehlo.add %a, %a : tensor<2xf32>\nreturn %b : tensor<2xf32>\n}\n"
    ) + module(
        '%r = stablehlo.composite "my.twice" %x {decomposition = @twice} : (tensor<2xf32>) -> tensor<2xf32>\n'
        "return %r : tensor<2xf32>",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    np.testing.assert_array_equal(run_text(text, np.array([1, 2], np.float32))[0], [2, 4])


def test_recursion_is_refused() -> None:
    text = module(
        "%r = func.call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %r : tensor<2xf32>",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    with pytest.raises(ImportFailure, match="recursion is unsupported"):
        from_stablehlo(text)


def test_every_unsupported_operation_is_named() -> None:
    text = module(
        "%a = math.sin %x : tensor<2xf32>\n%b = math.cos %a : tensor<2xf32>\n%c = math.cos %b : tensor<2xf32>\n"
        "return %c : tensor<2xf32>",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    with pytest.raises(ImportFailure, match=r"math.cos \(line 3 and 1 more\), math.sin \(line 2\)"):
        from_stablehlo(text)


def test_calls_of_foreign_code_are_refused_by_name() -> None:
    text = module(
        "%r = stablehlo.custom_call @my_kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %r : tensor<2xf32>",
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
    )
    with pytest.raises(ImportFailure, match="'my_kernel' is unsupported"):
        from_stablehlo(text)


@pytest.mark.slow
def test_calls_that_double_are_refused_in_bounded_time() -> None:
    doubling = "".join(
        f"func.func private @f{k}(%x: tensor<2xf32>) -> tensor<2xf32> {{\n"
        f"%a = func.call @f{k + 1}(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
        f"%b = func.call @f{k + 1}(%a) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %b : tensor<2xf32>\n}}\n"
        for k in range(40)
    )
    text = doubling + (
        "func.func private @f40(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}\n"
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "%a = func.call @f0(%x) : (tensor<2xf32>) -> tensor<2xf32>\nreturn %a : tensor<2xf32>\n}"
    )
    with pytest.raises(ImportFailure, match="more than 250,000 operations"):
        from_stablehlo(text)


def test_deep_nesting_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ImportFailure, match="nested more than 1000 brackets deep"):
        from_stablehlo("module {\n" * 20000 + "}" * 20000)


def test_tensors_beyond_64_bits_are_refused() -> None:
    huge = "tensor<4294967296x4294967296xf32>"
    with pytest.raises(ImportFailure, match="is too large"):
        from_stablehlo(module(f"return %x : {huge}", f"%x: {huge}", huge))


def test_tensors_without_elements_are_legal() -> None:
    text = module(
        "%z = stablehlo.constant dense<7.0> : tensor<f32>\n"
        "%s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]"
        " : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>\n"
        "%c = stablehlo.concatenate %x, %x, dim = 0 : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<0x3xf32>\n"
        "return %s, %c : tensor<3xf32>, tensor<0x3xf32>",
        "%x: tensor<0x3xf32>",
        "(tensor<3xf32>, tensor<0x3xf32>)",
    )
    total, joined = run_text(text, np.zeros((0, 3), np.float32))
    np.testing.assert_array_equal(total, [7, 7, 7])
    assert joined.shape == (0, 3)


@pytest.mark.parametrize("text", ["module @\ud800 {\n}", "a\0b", "\ud800"])
def test_a_text_that_is_no_unicode_is_refused(text: str) -> None:
    with pytest.raises(ImportFailure, match=r"is no Unicode at character 8|is no path of a file"):
        from_stablehlo(text)
