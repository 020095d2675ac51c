"""Reductions of named dimensions by a monoid."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.monoids import reduce_axes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import expect_inputs, integers, settings
from tapestry.teg.signature import MONOIDS, PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("monoid", "labels", "output"), ("keep", "scale"))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    labels, output = given["labels"], given["output"]
    if len(labels) != len(shape) or len(set(labels)) != len(labels):
        raise ValueError(
            f"attribute 'labels' must give each dimension of {shape} its own name, not {labels!r}"
        )
    if not set(output) <= set(labels) or len(set(output)) != len(output):
        raise ValueError(f"attribute 'output' must list names among {labels}, each once, not {output!r}")
    check_monoid(given["monoid"], dtype, given.get("scale", 1.0))
    keep = integers(given.get("keep", ()), "keep", least=0)
    rank = len(output) + len(keep)
    if len(set(keep)) != len(keep) or any(k >= rank for k in keep):
        raise ValueError(f"attribute 'keep' must list different positions below {rank}, not {keep}")
    sizes = dict(zip(labels, shape, strict=True))
    reduced = [name for name in labels if name not in output]
    order = [*output, *reduced]
    dims = tuple(IndexDim(n, sizes[n], PARALLEL if n in output else given["monoid"]) for n in order)
    read = [Row(order.index(name), 1, 0, 1) for name in labels]
    kept = iter(range(len(output)))
    written = [Row(-1, 0, 0, 1) if k in keep else Row(next(kept), 1, 0, 1) for k in range(rank)]
    result = tuple(1 if row.dim < 0 else dims[row.dim].size for row in written)
    signature = Signature(dims, (projection(read, len(dims)),), (projection(written, len(dims)),))
    return Inferred(signature, (TensorType(result, dtype),))


def check_monoid(monoid: str, dtype: str, scale: float = 1.0) -> None:
    """Check that a monoid reduces this element type, and may scale its result.

    Raises:
        ValueError: it does not.
    """
    if monoid not in MONOIDS:
        raise ValueError(f"attribute 'monoid' must be one of {', '.join(MONOIDS)}, not {monoid!r}")
    if (monoid in ("any", "all")) != (dtype == "bool"):
        raise ValueError(
            f"monoid {monoid!r} does not reduce {dtype} ('any' and 'all' are for bool, the others not)"
        )
    if monoid == "logsumexp" and not is_float(dtype):
        raise ValueError(f"monoid 'logsumexp' needs a float type, not {dtype}")
    if scale != 1.0 and (monoid != "sum" or not is_float(dtype)):
        raise ValueError(f"attribute 'scale' belongs to sums of floats, not to {monoid!r} of {dtype}")


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array = operands[0].array
    labels, output, keep = definition["labels"], definition["output"], definition.get("keep", ())
    axes = [k for k, name in enumerate(labels) if name not in output]
    result = reduce_axes(xp, definition["monoid"], array, axes) if axes else array
    remaining = [name for name in labels if name in output]
    result = xp.permute_dims(result, [remaining.index(name) for name in output])
    scale = definition.get("scale", 1.0)
    if scale != 1.0:
        result = xp.elementwise("mul", result, scale)
    return (xp.cast(xp.expand_dims(result, keep), xp.dtype_of(array)),)


def _work(definition: Definition, _: Sequence[TensorType], __: Sequence[TensorType]) -> Work:
    if len(definition["output"]) == len(definition["labels"]):
        in_order = definition["output"] == definition["labels"]
        return Work("move", kernel="copy" if in_order else "transposition")
    # A logsumexp compares, subtracts, exponentiates (8, as in `expressions`) and adds.
    flops = 11.0 if definition["monoid"] == "logsumexp" else 1.0
    reduced = tuple(name for name in definition["labels"] if name not in definition["output"])
    return Work("vector", flops=flops, kernel="reduction", row_dims=reduced)


def _example(monoid: str, dtype: str, scale: float = 1.0, keep: tuple[int, ...] = ()) -> OperatorExample:
    attrs = attributes(monoid=monoid, labels=("a", "b", "c"), output=("c", "a"), keep=keep, scale=scale)
    return OperatorExample(attrs, (TensorType((4, 5, 3), dtype),))


REDUCE = Operator(
    name="reduce",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        _example("sum", "float32", scale=0.2, keep=(1,)),
        _example("sum", "int64"),
        _example("sum", "bfloat16"),
        _example("max", "float32"),
        _example("min", "int32", keep=(0, 3)),
        _example("prod", "float64"),
        _example("logsumexp", "float32"),
        _example("any", "bool"),
        _example("all", "bool"),
        OperatorExample(attributes(monoid="sum", labels=("a",), output=()), (TensorType((9,), "float32"),)),
    ),
)

REDUCTION: tuple[Operator, ...] = (REDUCE,)
