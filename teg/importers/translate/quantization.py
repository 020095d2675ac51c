"""Quantized numbers: cells on scales and zero points, products and convolutions in 32-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapestry.teg.dtypes import bounds, is_integer
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.onnx_tensors import element_type
from tapestry.teg.importers.translate.casting import saturated
from tapestry.teg.importers.translate.linear import matmul
from tapestry.teg.importers.translate.translation import (
    OnnxTranslator,
    Translation,
    normal_axis,
    plain_labels,
)
from tapestry.teg.importers.translate.windows import convolve

Expr = tuple[Any, ...]
X: Expr = ("input", 0)


def _single(e: Expr) -> Expr:
    return ("cast", "float32", e)


def _operand(node: OnnxNode, position: int) -> str:
    return node.inputs[position] if position < len(node.inputs) else ""


def _beside(t: Translation, node: OnnxNode, position: int) -> str:
    """Reshape a scale or zero point to broadcast against the first operand; return `""` if there is none."""
    given = _operand(node, position)
    if not given:
        return ""
    value, shape = t.value(given), t.value(node.inputs[0]).shape
    name, site = f"{node.outputs[0]}.beside{position}", f"{node.name}.beside{position}"
    block = int(node.get("block_size", 0))
    if value.size == 1 and not block:
        return t.reshape(site, given, name, ())
    axis = normal_axis(node, int(node.get("axis", 1)), len(shape))
    if not block:
        if value.shape != (shape[axis],):
            raise ImportFailure(
                f"{node.where}: {list(value.shape)} does not fit axis {axis} of {list(shape)}"
            )
        return t.reshape(site, given, name, (shape[axis], *(1,) * (len(shape) - axis - 1)))
    wanted = tuple(-(-s // block) if k == axis else s for k, s in enumerate(shape))
    if value.shape != wanted:
        raise ImportFailure(
            f"{node.where}: {list(value.shape)} does not fit blocks of {block} in {list(shape)}"
        )
    return _repeated(t, site, given, name, axis, block, shape)


def _repeated(
    t: Translation, site: str, given: str, name: str, axis: int, block: int, shape: Sequence[int]
) -> str:
    """Repeat every element `block` times along `axis`, up to the size of `shape`."""
    own = t.value(given).shape
    labels = plain_labels(len(own))
    target = (*labels[: axis + 1], "", *labels[axis + 1 :])
    sizes = (*own[: axis + 1], block, *own[axis + 1 :])
    opened = t.relabel(f"{site}.repeat", given, f"{name}.repeat", labels, target, sizes)
    joined = (*own[:axis], own[axis] * block, *own[axis + 1 :])
    rows = t.reshape(f"{site}.rows", opened, f"{name}.rows", joined)
    return t.slice(site, rows, name, [range(s) for s in shape])


def _quantize(t: Translation, node: OnnxNode) -> None:
    """Divide by the scale and round to even; the zero point is added to the whole number."""
    scale, zero = _beside(t, node, 1), _beside(t, node, 2)
    stated = int(node.get("output_dtype", 0))
    dtype = t.value(zero).dtype if zero else element_type(stated, node.where) if stated else "uint8"
    wide = int(node.get("precision", 0))
    parts: list[Expr] = [X, ("input", 1)]
    if wide:
        parts = [("cast", element_type(wide, node.where), part) for part in parts]
    quotient: Expr = ("div", *parts)
    if is_integer(dtype):
        expr = _single(("round", quotient))
        if zero:
            expr = ("add", expr, _single(("input", 2)))
        expr = _clipped(expr, dtype)
    else:
        expr = saturated(quotient, dtype) if node.get("saturate", 1) else quotient
    names = (node.inputs[0], scale, *((zero,) if zero and is_integer(dtype) else ()))
    t.cell(node.name, names, node.outputs[0], ("cast", dtype, expr), dtype)


def _clipped(e: Expr, dtype: str) -> Expr:
    low, high = bounds(dtype)
    return ("max", ("min", e, ("const", float(high))), ("const", float(low)))


def _dequantize(t: Translation, node: OnnxNode) -> None:
    """Subtract the zero point and multiply by the scale."""
    scale, zero = _beside(t, node, 1), _beside(t, node, 2)
    stated = int(node.get("output_dtype", 0))
    dtype = element_type(stated, node.where) if stated else t.value(scale).dtype
    expr = _single(X)
    if zero and is_integer(t.value(zero).dtype):
        expr = ("sub", expr, _single(("input", 2)))
        names: tuple[str, ...] = (node.inputs[0], scale, zero)
    else:
        names = (node.inputs[0], scale)
    t.cell(node.name, names, node.outputs[0], ("cast", dtype, ("mul", expr, ("input", 1))), dtype)


def _centered(t: Translation, node: OnnxNode, position: int, zero: str, lead: Sequence[int] = ()) -> str:
    """Convert the operand to 32-bit integers minus its zero point; a line of these gets the shape `(n, *lead)`."""
    name, site = f"{node.outputs[0]}.centered{position}", f"{node.name}.centered{position}"
    known = t.literal(zero) if zero else None
    wide: Expr = ("cast", "int32", X)
    if not zero or (known is not None and not known.array.any()):
        return t.cell(site, (node.inputs[position],), name, wide, "int32")
    line = _line(t, f"{site}.zero", zero, f"{name}.zero", lead)
    expr = ("sub", wide, ("cast", "int32", ("input", 1)))
    return t.cell(site, (node.inputs[position], line), name, expr, "int32")


def _line(t: Translation, site: str, given: str, name: str, lead: Sequence[int]) -> str:
    """Reshape one number to a scalar, a line of them to `(n, *lead)`; values with more dimensions stay."""
    value = t.value(given)
    if value.size == 1:
        return t.reshape(site, given, name, ())
    return t.reshape(site, given, name, (*value.shape, *lead)) if len(value.shape) == 1 else given


def _product(t: Translation, node: OnnxNode, a: str, b: str, output: str) -> None:
    matmul(t, replace(node, name=f"{node.name}.product", inputs=(a, b), outputs=(output,)))


def _matmul_integer(t: Translation, node: OnnxNode) -> None:
    a = _centered(t, node, 0, _operand(node, 2), (1,))
    b = _centered(t, node, 1, _operand(node, 3))
    _product(t, node, a, b, node.outputs[0])


def _conv_integer(t: Translation, node: OnnxNode) -> None:
    rank = len(t.value(node.inputs[1]).shape)
    x = _centered(t, node, 0, _operand(node, 2))
    w = _centered(t, node, 1, _operand(node, 3), (1,) * (rank - 1))
    convolve(t, replace(node, inputs=(x, w)))


def _requantized(
    t: Translation, node: OnnxNode, product: str, factors: Sequence[str], step: str, zero: str
) -> None:
    """Multiply the product by the factors' scales over the result's; the zero point is added before rounding."""
    given = t.value(node.inputs[0]).dtype
    dtype = t.value(zero).dtype if zero else given
    if not is_integer(dtype) or not is_integer(given):
        raise ImportFailure(f"{node.where} is supported for integers only, not {given} and {dtype}")
    names = [product, *factors, t.reshape(f"{node.name}.step", step, f"{node.outputs[0]}.step", ())]
    scale: Expr = ("div", ("mul", ("input", 1), ("input", 2)), ("input", 3))
    expr: Expr = ("mul", ("cast", "float64", X), ("cast", "float64", scale))
    if zero:
        names.append(t.reshape(f"{node.name}.zero", zero, f"{node.outputs[0]}.zero", ()))
        expr = ("add", expr, ("cast", "float64", ("input", 4)))
    t.cell(node.name, names, node.outputs[0], ("cast", dtype, _clipped(("round", expr), dtype)), dtype)


def _qlinear_matmul(t: Translation, node: OnnxNode) -> None:
    """Translate a quantized product.

    Operands: a, its scale and zero point; b, its scale and zero point; the result's.
    """
    output, scales = node.outputs[0], []
    pair = replace(node, inputs=(node.inputs[0], node.inputs[3]))
    for k, (position, lead) in enumerate(((1, (1,)), (4, ()))):
        scale = _line(t, f"{node.name}.scale{k}", node.inputs[position], f"{output}.scale{k}", lead)
        scales.append(scale)
    a = _centered(t, pair, 0, node.inputs[2], (1,))
    b = _centered(t, pair, 1, node.inputs[5])
    _product(t, node, a, b, f"{output}.product")
    _requantized(t, node, f"{output}.product", scales, node.inputs[6], node.inputs[7])


def _qlinear_conv(t: Translation, node: OnnxNode) -> None:
    """Translate a quantized convolution.

    Operands: x, its scale and zero point; w, its scale and zero point; the result's; a bias in 32 bits.
    """
    output, product = node.outputs[0], f"{node.outputs[0]}.product"
    rank = len(t.value(node.inputs[3]).shape)
    pair = replace(node, inputs=(node.inputs[0], node.inputs[3]))
    x = _centered(t, pair, 0, node.inputs[2])
    w = _centered(t, pair, 1, node.inputs[5], (1,) * (rank - 1))
    bias = tuple(n for n in node.inputs[8:9] if n)
    convolve(t, replace(node, name=f"{node.name}.product", inputs=(x, w, *bias), outputs=(product,)))
    scales = [
        _line(t, f"{node.name}.scale{k}", node.inputs[at], f"{output}.scale{k}", (1,) * (rank - 2))
        for k, at in enumerate((1, 4))
    ]
    _requantized(t, node, product, scales, node.inputs[6], node.inputs[7])


QUANTIZED: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("QuantizeLinear",), _quantize),
    OnnxTranslator(("DequantizeLinear",), _dequantize),
    OnnxTranslator(("MatMulInteger",), _matmul_integer),
    OnnxTranslator(("ConvInteger",), _conv_integer),
    OnnxTranslator(("QLinearMatMul",), _qlinear_matmul),
    OnnxTranslator(("QLinearConv",), _qlinear_conv),
)
