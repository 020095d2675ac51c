"""Contractions, reductions and normalizations."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.exporters.spmd.array_text import (
    PRODUCT,
    ArrayText,
    NotWritable,
    TextValue,
    constant,
    short_constant,
)
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand
from tapestry.teg.graph import Definition


def write_contract(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a product over named dimensions."""
    labels, output = definition["labels"], definition["output"]
    dtype = str(np.result_type(*(numpy_dtype(o.value.dtype) for o in operands)))
    values = [xp.short(xp.cast(o.value, dtype)) for o in operands]
    sizes = {
        name: v.shape[:, k] for v, names in zip(values, labels, strict=True) for k, name in enumerate(names)
    }
    shape = _stacked(xp, [sizes[name] for name in output])
    if len(values) == 2 and _is_matmul(labels, output):
        left, right = (xp.inner(v, PRODUCT + side) for side, v in enumerate(values))
        return (TextValue(f"{left} @ {right}", shape, dtype, PRODUCT),)
    if len(labels) == 1 and set(labels[0]) == set(output):
        return (xp.permute_dims(values[0], [labels[0].index(name) for name in output]),)
    letter = _letters(list(sizes))
    # PyTorch orders the dimensions that it sums over by their letters, and copies an input that has another order.
    summed = [name for name in sizes if name not in output]
    letter.update(zip(summed, sorted(letter[name] for name in summed), strict=True))
    equation = ",".join("".join(letter[n] for n in names) for names in labels)
    equation += "->" + "".join(letter[n] for n in output)
    like = TextValue("", shape, dtype)
    return (xp.call("einsum", f'"{equation}"', *(v.text for v in values), like=like),)


def _stacked(xp: ArrayText, sizes: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(sizes, axis=1) if sizes else np.zeros((len(xp.active), 0), np.int64)


def _is_matmul(labels: Sequence[Sequence[str]], output: Sequence[str]) -> bool:
    """Return whether a contraction is `x @ w` with a matrix `w`."""
    a, b = labels
    return (
        len(a) > 0
        and len(b) == 2
        and a[-1] == b[0]
        and tuple(output) == (*a[:-1], b[1])
        and b[0] not in a[:-1]
        and b[1] not in a
    )


def _letters(names: Sequence[str]) -> dict[str, str]:
    """Give each name a letter: its first one where that is free."""
    found: dict[str, str] = {}
    for name in names:
        wanted = [c for c in name.lower() if c in string.ascii_lowercase]
        free = (c for c in (*wanted, *string.ascii_letters) if c not in found.values())
        found[name] = next(free)
    return found


def write_reduce(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a reduction."""
    value = xp.short(operands[0].value)
    labels, output, keep = definition["labels"], definition["output"], definition.get("keep", ())
    axes = [k for k, name in enumerate(labels) if name not in output]
    remaining = [name for name in labels if name in output]
    result = reduced(xp, definition["monoid"], value, axes)
    result = xp.permute_dims(result, [remaining.index(name) for name in output])
    scale = definition.get("scale", 1.0)
    if scale != 1.0:
        result = replace(result, text=f"{xp.inner(result, PRODUCT)} * {constant(scale)}", level=PRODUCT)
    return (xp.expand_dims(result, sorted(keep)),)


def reduced(xp: ArrayText, monoid: str, value: TextValue, axes: Sequence[int]) -> TextValue:
    """Reduce dimensions by a monoid."""
    if not axes:
        return value
    shape = np.delete(value.shape, axes, axis=1)
    like = TextValue("", shape, value.dtype)
    over = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
    if monoid == "prod":
        for axis in reversed(axes):
            kind = xp.dtype_text(value.dtype)
            value = xp.call("prod", value.text, like=value, axis=str(axis), dtype=kind)
        return replace(value, shape=shape)
    if monoid == "sum":
        keeps = value.dtype.startswith(("float", "bfloat", "complex"))
        named = {} if keeps else {"dtype": xp.dtype_text(value.dtype)}
        return xp.call("sum", value.text, like=like, axis=over, **named)
    if monoid in ("max", "min") and value.dtype == "bool":
        raise NotWritable(f"a {monoid} of bool")
    name = f"reduce_{monoid}" if monoid in ("max", "min") else monoid
    return xp.call(name, value.text, like=like, axis=over)


def write_softmax(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a softmax or its logarithm; several axes are joined to one first."""
    value, axes = operands[0].value, tuple(definition["axes"])
    function = definition.operator
    if len(axes) == 1:
        return (xp.call(function, xp.short(value).text, like=value, axis=str(axes[0])),)
    others = [k for k in range(value.rank) if k not in axes]
    order = [*others, *axes]
    moved = xp.named(xp.permute_dims(value, order))
    flat = xp.flatten(moved, len(others), moved.rank - 1)
    rows = xp.call(function, flat.text, like=flat, axis="-1")
    whole = xp.reshape(rows, moved.shape)
    return (xp.permute_dims(whole, list(np.argsort(order))),)


def write_layer_norm(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a layer normalization."""
    value = operands[0].value
    rank = len(definition["axes"])
    others = [xp.cast(o.value, value.dtype) for o in operands[1:]]
    listed = [xp.short(v).text for v in (value, *others)]
    listed.insert(1, xp.shape_text(value.shape[:, value.rank - rank :]))
    return (xp.call("layer_norm", *listed, like=value, eps=short_constant(definition["eps"], value.dtype)),)


PRODUCTS: dict[str, OperatorWriter] = {
    "contract": write_contract,
    "reduce": write_reduce,
    "softmax": write_softmax,
    "log_softmax": write_softmax,
    "layer_norm": write_layer_norm,
}
