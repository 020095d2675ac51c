"""Element-wise blocks: one expression over any number of broadcast inputs and the coordinates themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapestry.teg.arrays import NUMPY, Array, ArrayNamespace, is_weak
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.expressions import (
    CELL_FUNCTIONS,
    CellFunction,
    Expression,
    SubExpression,
    cell_flops,
    functions_of,
    inputs_of,
    run_steps,
    separate_work,
    steps_of,
    substitute,
)
from tapestry.teg.operators.kernel_classes import of_cells
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import known_dtype, settings
from tapestry.teg.signature import IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange

__all__ = ["CELLS", "CELL_FUNCTIONS", "CellFunction", "Expression", "cell_flops", "inputs_of", "substitute"]


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("expr", "labels", "dims", "dtype"))
    dtype = known_dtype(given["dtype"])
    sizes = _sizes(given["dims"])
    labels = given["labels"]
    if not isinstance(labels, tuple) or len(labels) != len(inputs):
        raise ValueError(
            f"attribute 'labels' needs one tuple for each of {len(inputs)} inputs, not {labels!r}"
        )
    names = list(sizes)
    reads = [_rows(k, labels[k], names, sizes, t.shape) for k, t in enumerate(inputs)]
    steps = steps_of(given["expr"])
    _check_leaves(steps, len(inputs), names)
    _check_types(steps, inputs, names, given["expr"])
    dims = tuple(IndexDim(name, size) for name, size in sizes.items())
    written = projection([Row(k, 1, 0, 1) for k in range(len(dims))], len(dims))
    signature = Signature(dims, tuple(projection(rows, len(dims)) for rows in reads), (written,))
    return Inferred(signature, (TensorType(tuple(sizes.values()), dtype),))


def _sizes(dims: Any) -> dict[str, int]:
    good = isinstance(dims, tuple) and all(
        isinstance(d, tuple)
        and len(d) == 2
        and isinstance(d[0], str)
        and d[0]
        and isinstance(d[1], int)
        and d[1] >= 0
        for d in dims
    )
    if not good or len({d[0] for d in dims}) != len(dims):
        raise ValueError(
            f"attribute 'dims' must be a tuple of (name, size) with different names, not {dims!r}"
        )
    return dict(dims)


def _rows(
    k: int, labels: Any, names: Sequence[str], sizes: dict[str, int], shape: Sequence[int]
) -> list[Row]:
    """Build the rows that read input `k` along the dimensions its labels name; "" marks a size 1 that is broadcast."""
    if not isinstance(labels, tuple) or len(labels) != len(shape):
        raise ValueError(f"input {k} of shape {shape} needs one label per dimension, not {labels!r}")
    rows = []
    for label, size in zip(labels, shape, strict=True):
        if label and (label not in sizes or sizes[label] != size or labels.count(label) > 1):
            raise ValueError(
                f"input {k} of shape {shape} has labels {labels}; known, each once at most, are {sizes}"
            )
        if not label and size != 1:
            raise ValueError(
                f"input {k} of shape {shape} has no label for size {size}; only size 1 is broadcast"
            )
        rows.append(Row(names.index(label), 1, 0, 1) if label else Row(-1, 0, 0, 1))
    return rows


def _check_leaves(steps: Sequence[SubExpression], input_count: int, names: Sequence[str]) -> None:
    for step in steps:
        if step.name == "input" and not 0 <= step.payload < input_count:
            raise ValueError(f"the expression reads input {step.payload}, but there are {input_count}")
        if step.name == "index" and step.payload not in names:
            raise ValueError(
                f"the expression reads the coordinate of {step.payload!r}; dimensions are {list(names)}"
            )


def _check_types(
    steps: Sequence[SubExpression], inputs: Sequence[TensorType], names: Sequence[str], expr: Expression
) -> None:
    """Check the expression by evaluating it on one element of each input's type."""
    try:
        with np.errstate(all="ignore"):
            ones = [np.ones((1,) * len(names), numpy_dtype(t.dtype)) for t in inputs]
            run_steps(NUMPY, steps, ones, {name: np.ones((1,) * len(names), np.int64) for name in names})
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{expr!r} has no meaning on {[t.dtype for t in inputs]}: {error}") from error


@lru_cache(maxsize=4096)
def _steps(definition: Definition) -> tuple[SubExpression, ...]:
    return steps_of(definition["expr"])


def _evaluate(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    names = [name for name, _ in definition["dims"]]
    steps, dtype = _steps(definition), definition["dtype"]
    arrays = [
        aligned(xp, o.array, labels, names) for o, labels in zip(operands, definition["labels"], strict=True)
    ]

    def compute(part: ZRange, pieces: Sequence[Array]) -> Array:
        return values_of(xp, steps, names, part, pieces, dtype)

    if len(steps) <= len(arrays) + 1:
        return (compute(index, arrays),)
    return (xp.by_blocks(compute, index, arrays, dtype),)


def values_of(
    xp: ArrayNamespace,
    steps: Sequence[SubExpression],
    names: Sequence[str],
    index: ZRange,
    arrays: Sequence[Array],
    dtype: str,
) -> Array:
    """Compute an expression on a part of its dimensions, from arrays with one dimension for each of them."""
    used = {s.payload for s in steps if s.name == "index"}
    coordinates = {}
    for k, name in enumerate(names):
        if name in used:
            line = xp.arange(index.start[k], index.end[k])
            coordinates[name] = xp.expand_dims(line, [j for j in range(len(names)) if j != k])
    value = run_steps(xp, steps, arrays, coordinates)
    value = xp.constant(value, dtype) if is_weak(value) else xp.cast(value, dtype)
    return value if value.shape == index.shape else xp.copy(xp.broadcast_to(value, index.shape))


def aligned(xp: ArrayNamespace, array: Array, labels: Sequence[str], names: Sequence[str]) -> Array:
    """Return the input as a view with one dimension per index dimension, size 1 where it is broadcast."""
    kept = xp.squeeze(array, [k for k, label in enumerate(labels) if not label])
    own = [label for label in labels if label]
    ordered = xp.permute_dims(kept, [own.index(name) for name in names if name in own])
    return xp.expand_dims(ordered, [k for k, name in enumerate(names) if name not in own])


def _work(definition: Definition, _: Sequence[TensorType], __: Sequence[TensorType]) -> Work:
    expr = definition["expr"]
    flops, read = cell_flops(expr), sum(bool(names) for names in definition["labels"])
    kernel, names = of_cells(flops, functions_of(expr), read), [name for name, _ in definition["dims"]]
    along = tuple(names[-1:]) if kernel == "gated" and len(names) > 1 else ()
    whole = [set(names) == {name for name in labels if name} for labels in definition["labels"]]
    apart = separate_work(expr, whole)
    return Work(
        "vector", flops=flops, kernel=kernel, row_dims=along, separate=apart if apart.kernels > 1 else None
    )


_ROWS, _COLUMNS = ("row", 4), ("column", 6)
_A = TensorType((4, 6), "float32")

CELL = Operator(
    name="cell",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(
            attributes(
                expr=("mul", ("input", 0), ("sigmoid", ("input", 1))),
                labels=(("row", "column"), ("column", "")),
                dims=(_ROWS, _COLUMNS),
                dtype="float32",
            ),
            (_A, TensorType((6, 1), "float32")),
        ),
        OperatorExample(
            attributes(
                expr=(
                    "where",
                    ("ge", ("index", "row"), ("index", "column")),
                    ("const", 0.0),
                    ("const", -1e9),
                ),
                labels=(),
                dims=(_ROWS, _COLUMNS),
                dtype="float32",
            ),
            (),
        ),
        OperatorExample(
            attributes(
                expr=("cast", "int32", ("div", ("add", ("input", 0), ("const", 7)), ("const", -2))),
                labels=(("row",),),
                dims=(_ROWS,),
                dtype="int64",
            ),
            (TensorType((4,), "int32"),),
        ),
        OperatorExample(
            attributes(
                expr=("add", ("mul", ("input", 0), ("const", 0.5)), ("const", 1.0)),
                labels=(("row", "column"),),
                dims=(_ROWS, _COLUMNS),
                dtype="bfloat16",
            ),
            (TensorType((4, 6), "bfloat16"),),
        ),
        OperatorExample(
            attributes(expr=("not", ("input", 0)), labels=((),), dims=(), dtype="bool"),
            (TensorType((), "bool"),),
        ),
    ),
)

CELLS: tuple[Operator, ...] = (CELL,)
