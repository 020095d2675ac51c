"""Operations that are short programs of others: batch normalization, sums of products by equation, lookups."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, Expr, X, Y, Z
from tapestry.teg.importers.stablehlo.families.elementwise import DIRECTIONS
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator

# The dialect chlo's operations with broadcasting, by the cell function they stand for.
BROADCASTING = {
    "broadcast_add": "add",
    "broadcast_atan2": "atan2",
    "broadcast_complex": "complex",
    "broadcast_divide": "div",
    "broadcast_maximum": "max",
    "broadcast_minimum": "min",
    "broadcast_multiply": "mul",
    "broadcast_next_after": "next_after",
    "broadcast_power": "pow",
    "broadcast_remainder": "fmod",
    "broadcast_shift_left": "shift_left",
    "broadcast_shift_right_arithmetic": "shift_right",
    "broadcast_shift_right_logical": "shift_right_logical",
    "broadcast_subtract": "sub",
    "broadcast_and": "and",
    "broadcast_or": "or",
    "broadcast_xor": "xor",
}
BITWISE = {"and": "bit_and", "or": "bit_or", "xor": "bit_xor"}


def along(e: Emitter, value: Value, axis: int, rank: int) -> Value:
    """Reshape a vector so that it runs along dimension `axis` of a tensor of rank `rank`."""
    shape = [value.shape[0] if k == axis else 1 for k in range(rank)]
    return e.relabel(value, ("d",), tuple("d" if k == axis else "" for k in range(rank)), shape)


def _normal_inference(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    axis, value = int(operation.get("feature_index")), operands[0]
    rest = [along(e, v, axis, len(value.shape)) for v in operands[1:]]
    return _scaled(e, operation, value, *rest)


def _scaled(
    e: Emitter, operation: Operation, value: Value, scale: Value, offset: Value, mean: Value, variance: Value
) -> Value:
    spread: Expr = ("sqrt", ("add", ("input", 4), ("const", float(operation.get("epsilon")))))
    normal: Expr = ("div", ("sub", X, ("input", 3)), spread)
    return e.cell(("add", ("mul", normal, Y), Z), value, scale, offset, mean, variance)


def _mean(e: Emitter, value: Value, axis: int) -> Value:
    """Compute the mean over all dimensions but one, which stays."""
    others = [k for k in range(len(value.shape)) if k != axis]
    count = 1
    for k in others:
        count *= value.shape[k]
    return e.cell(("mul", X, ("const", 1.0 / max(count, 1))), e.reduce(value, others, "sum"))


def _moments(e: Emitter, value: Value, axis: int) -> tuple[Value, Value]:
    mean = _mean(e, value, axis)
    centered: Expr = ("sub", X, Y)
    squares = e.cell(("mul", centered, centered), value, along(e, mean, axis, len(value.shape)))
    return mean, _mean(e, squares, axis)


def _normal_training(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    axis, value = int(operation.get("feature_index")), operands[0]
    mean, variance = _moments(e, value, axis)
    rest = [along(e, v, axis, len(value.shape)) for v in (*operands[1:], mean, variance)]
    return [_scaled(e, operation, value, *rest), mean, variance]


def _normal_gradient(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Compute the gradient by the specification's formula, with means in place of sums over the count."""
    value, scale, mean, variance, upstream = operands
    axis, rank = int(operation.get("feature_index")), len(value.shape)
    others = [k for k in range(rank) if k != axis]
    wide = [along(e, v, axis, rank) for v in (scale, mean, variance)]
    center = e.cell(("sub", X, Y), value, wide[1])
    product = e.cell(("mul", X, Y), upstream, center)
    deviation: Expr = ("sqrt", ("add", X, ("const", float(operation.get("epsilon")))))
    spread = e.cell(deviation, wide[2])
    sums = [along(e, _mean(e, v, axis), axis, rank) for v in (upstream, product)]
    inner: Expr = (
        "sub",
        ("sub", X, ("input", 3)),
        ("div", ("mul", Y, ("input", 4)), ("mul", ("input", 2), ("input", 2))),
    )
    slope: Expr = ("mul", ("div", ("input", 5), ("input", 2)), inner)
    by_value = e.cell(slope, upstream, center, spread, *sums, wide[0])
    by_scale = e.reduce(e.cell(("div", X, Y), product, spread), others, "sum")
    return [by_value, by_scale, e.reduce(upstream, others, "sum")]


def _einsum(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    left, _, right = str(operation.get("einsum_config")).replace(" ", "").partition("->")
    terms = left.split(",")
    if "..." in left or any(len(set(t)) < len(t) for t in terms):
        raise e.refuse(
            f"by equation {operation.get('einsum_config')!r} is unsupported: it repeats or omits names"
        )
    dtype = operation.types[0].dtype
    return e.contract([e.cast(o, dtype) for o in operands], [tuple(t) for t in terms], tuple(right))


def _index_select(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Gather slices of a table by index; leading dimensions of both may be batch dimensions."""
    table, index = operands
    axis, together = int(operation.get("dim")), int(operation.get("batch_dims", 0))
    labels = tuple("v" if k == axis else f"t{k}" for k in range(len(table.shape)))
    places = tuple(f"t{k}" if k < together else f"i{k}" for k in range(len(index.shape)))
    target = (*labels[:axis], *places[together:], *labels[axis + 1 :])
    return e.compute(
        "gather", [table, index], [labels, places], target, table.dtype, {"axis": "v"}, frozenset("v")
    )


def _broadcasting(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a broadcasting operation; shapes are aligned at the right, or as `broadcast_dimensions` specifies."""
    kind = operation.types[0]
    placed = [_placed(e, operation, o, len(kind.shape)) for o in operands]
    if operation.short == "broadcast_compare":
        function = DIRECTIONS[operation.get("comparison_direction")]
    elif operation.short == "broadcast_select":
        return e.cell(("where", X, Y, Z), *placed, dtype=kind.dtype)
    else:
        function = BROADCASTING[operation.short]
        function = BITWISE.get(function, function) if operands[0].dtype != "bool" else function
    return e.cell((function, X, Y), *placed, dtype=kind.dtype)


def _placed(e: Emitter, operation: Operation, value: Value, rank: int) -> Value:
    dims = operation.get("broadcast_dimensions")
    if dims is None or len(value.shape) == rank:
        return value
    source = tuple(f"d{d}" for d in dims)
    shape = [value.shape[list(dims).index(k)] if k in dims else 1 for k in range(rank)]
    return e.relabel(value, source, tuple(f"d{k}" if k in dims else "" for k in range(rank)), shape)


def _broadcast(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Broadcast a value by adding leading dimensions."""
    shape, own = operation.types[0].shape, operands[0].shape
    labels = tuple(f"d{k}" for k in range(len(own)))
    return e.relabel(operands[0], labels, (*("",) * (len(shape) - len(own)), *labels), shape)


COMPOSED: tuple[HloTranslator, ...] = (
    HloTranslator(("stablehlo.batch_norm_inference",), _normal_inference),
    HloTranslator(("stablehlo.batch_norm_training",), _normal_training),
    HloTranslator(("stablehlo.batch_norm_grad",), _normal_gradient),
    HloTranslator(("stablehlo.einsum", "stablehlo.unary_einsum"), _einsum),
    HloTranslator(("stablehlo.torch_index_select",), _index_select),
    HloTranslator(("stablehlo.broadcast",), _broadcast),
    HloTranslator(
        tuple(f"chlo.{n}" for n in (*BROADCASTING, "broadcast_compare", "broadcast_select")), _broadcasting
    ),
)
