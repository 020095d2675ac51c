"""Scatters: updates written at positions along one dimension of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.indexing import Indexing, indexing, wrapped
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import dim_names, expect_inputs, settings
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange

# How updates that meet in one place combine; "last" keeps the one that comes last, row-major.
COMBINATIONS = ("sum", "prod", "max", "min", "last")

# What positions outside the result do: they are errors, or are left out.
MODES = ("strict", "drop")


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis", "monoid"), ("aligned", "size", "mode"))
    monoid = given["monoid"]
    if monoid not in COMBINATIONS:
        raise ValueError(f"attribute 'monoid' must be one of {', '.join(COMBINATIONS)}, not {monoid!r}")
    if given.get("mode", "strict") not in MODES:
        raise ValueError(f"attribute 'mode' must be one of {', '.join(MODES)}, not {given['mode']!r}")
    expect_inputs(inputs, ("base", "indices", "updates") if monoid == "last" else ("indices", "updates"))
    indices, updates = inputs[-2:]
    plan, target = _target(given, inputs)
    wanted = plan.shape(target, indices.shape)
    if updates.shape != wanted:
        raise ValueError(
            f"updates of a result of shape {target} at indices of shape {indices.shape} have shape {wanted}, "
            f"not {updates.shape}"
        )
    _check_types(monoid, inputs)
    rank, free = len(target), [indices.shape[k] for k in plan.free]
    counted = monoid != "last"
    dims = (
        *(IndexDim(name, size, PARALLEL) for name, size in zip(dim_names(rank), target, strict=True)),
        *(IndexDim(f"u{k}", size, monoid) for k, size in enumerate(free) if counted),
    )
    along = [Row(rank + k, 1, 0, 1) if counted else Row(-1, 0, 0, size) for k, size in enumerate(free)]
    written = [Row(k, 1, 0, 1) for k in range(rank)]
    partners = [plan.partner(k) for k in range(len(indices.shape))]
    positions = [
        along[plan.free.index(k)] if partner is None else written[partner]
        for k, partner in enumerate(partners)
    ]
    read = [*written[: plan.axis], *along, *written[plan.axis + 1 :]]
    rows = [written, positions, read] if monoid == "last" else [positions, read]
    signature = Signature(
        dims, tuple(projection(r, len(dims)) for r in rows), (projection(written, len(dims)),)
    )
    return Inferred(signature, (TensorType(target, updates.dtype),))


def _target(given: Mapping[str, Any], inputs: Sequence[TensorType]) -> tuple[Indexing, tuple[int, ...]]:
    """Determine how the indices address the result, and the result's shape."""
    axis, aligned = given["axis"], given.get("aligned", ())
    indices, updates = inputs[-2:]
    if given["monoid"] == "last":
        if "size" in given:
            raise ValueError("attribute 'size' is for results without base; this scatter has one")
        target = inputs[0].shape
        return indexing(axis, aligned, target, indices.shape, indices.dtype), target
    size = given.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"attribute 'size' must be the result's size along the axis, not {size!r}")
    free = len(indices.shape) - len(aligned) if isinstance(aligned, tuple) else 0
    rank = len(updates.shape) - free + 1
    if rank < 1:
        raise ValueError(f"updates of shape {updates.shape} have too few dimensions for {free} of indices")
    plan = indexing(axis, aligned, [None] * rank, indices.shape, indices.dtype)
    target = (*updates.shape[: plan.axis], size, *updates.shape[plan.axis + free :])
    return indexing(axis, aligned, target, indices.shape, indices.dtype), target


def _check_types(monoid: str, inputs: Sequence[TensorType]) -> None:
    dtype = inputs[-1].dtype
    if monoid == "last" and inputs[0].dtype != dtype:
        raise ValueError(f"updates must be of the base's type {inputs[0].dtype}, not {dtype}")
    if monoid in ("sum", "prod") and dtype == "bool":
        raise ValueError(f"monoid {monoid!r} does not combine bool; 'max' is or, 'min' is and")
    if monoid in ("max", "min") and numpy_dtype(dtype).kind == "c":
        raise ValueError(f"monoid {monoid!r} needs an order, which {dtype} has not")


def _evaluate(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    """Compute the part of the result in `index`; updates for other places are left out."""
    assert definition.signature is not None
    positions, updates = operands[-2].array, operands[-1].array
    monoid, axis = definition["monoid"], definition["axis"]
    shape = index.shape[: len(definition.signature.outputs[0].shape)]
    aligned = definition.get("aligned", ())
    plan = indexing(axis, aligned, shape, positions.shape, xp.dtype_of(positions))
    places = wrapped(xp, positions, definition.signature.dims[axis].size, definition.get("mode", "strict"))
    flat, values = plan.flat_positions(xp, places), plan.flat_gathered(xp, updates)
    lines, count, width = values.shape
    local = flat - index.start[axis]
    hit = (local >= 0) & (local < shape[axis])
    rows = xp.expand_dims(xp.arange(0, lines) * shape[axis], (1,)) + local
    rows = xp.reshape(xp.elementwise("where", hit, rows, -1), (lines * count,))
    values = xp.reshape(values, (lines * count, width))
    if monoid == "last":
        base = xp.reshape(plan.flat_table(xp, operands[0].array), (lines * shape[axis], width))
        made = xp.replace_rows(base, values, rows)
    else:
        none = identity(monoid, xp.dtype_of(updates))
        made = xp.scatter_rows(monoid, values, rows, lines * shape[axis], none)
    return (plan.table(xp, xp.reshape(made, (lines, shape[axis], width)), shape),)


def _work(definition: Definition, _: Sequence[TensorType], outputs: Sequence[TensorType]) -> Work:
    """Return the work per point; each update meets one place along the axis, not all of them."""
    size = outputs[0].shape[definition["axis"]]
    if definition["monoid"] == "last" or not size:
        return Work("move", kernel="gather")
    return Work("vector", flops=1.0 / size, kernel="gather")


def _example(
    monoid: str, indices: tuple[int, ...], updates: tuple[int, ...], dtype: str, **attrs: object
) -> OperatorExample:
    kinds = (TensorType(indices, "int64"), TensorType(updates, dtype))
    return OperatorExample(attributes(monoid=monoid, **attrs), kinds)


SCATTER = Operator(
    name="scatter",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        _example("sum", (5, 2), (5, 2, 4), "float32", axis=0, size=7),
        _example("sum", (4, 9), (4, 9, 3), "bfloat16", axis=1, size=6, aligned=((0, 0),)),
        _example("sum", (), (3, 4), "int32", axis=1, size=5, mode="drop"),
        _example("prod", (3, 6), (6, 3), "float64", axis=0, size=4, aligned=((1, 0),)),
        _example("max", (2, 7), (2, 3, 7), "float32", axis=2, size=5, aligned=((0, 0),)),
        _example("min", (8,), (8,), "bool", axis=0, size=5),
        OperatorExample(
            attributes(monoid="last", axis=1, aligned=((0, 0), (2, 2))),
            (
                TensorType((4, 5, 3), "float32"),
                TensorType((4, 6, 3), "int32"),
                TensorType((4, 6, 3), "float32"),
            ),
        ),
        OperatorExample(
            attributes(monoid="last", axis=0, mode="drop"),
            (TensorType((5, 4), "int64"), TensorType((2, 2), "int64"), TensorType((2, 2, 4), "int64")),
        ),
    ),
)

SCATTERING: tuple[Operator, ...] = (SCATTER,)
