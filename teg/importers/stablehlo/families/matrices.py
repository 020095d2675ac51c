"""Factorizations of matrices: stacks of whole matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, X
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator


def _cholesky(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return factor(e, operands[0], bool(operation.get("lower", False)))


def factor(e: Emitter, value: Value, lower: bool) -> Value:
    """Compute the Cholesky factor of each matrix."""
    return matrices(e, [value], {"function": "cholesky", "lower": lower})


def matrices(e: Emitter, values: Sequence[Value], attributes: dict[str, Any]) -> Value:
    """Apply a linear algebra function to stacks of matrices."""
    rank = len(values[0].shape)
    stack = tuple(f"s{k}" for k in range(rank - 2))
    labels = [(*stack, "m0", "m1"), (*stack, "m0", "n")][: len(values)]
    whole = frozenset((*stack, "m0", "m1", "n"))
    return e.compute("linalg", values, labels, labels[-1], None, attributes, whole, positional=True)


def _triangular_solve(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    turned = str(operation.get("transpose_a", "NO_TRANSPOSE"))
    return solved(
        e,
        *operands,
        left=bool(operation.get("left_side")),
        lower=bool(operation.get("lower")),
        unit=bool(operation.get("unit_diagonal")),
        turned=turned,
    )


def solved(e: Emitter, a: Value, b: Value, *, left: bool, lower: bool, unit: bool, turned: str) -> Value:
    """Solve `op(a) x = b`, or `x op(a) = b` which is `op(a)' x' = b'`."""
    if turned == "ADJOINT" and a.dtype.startswith("complex"):
        a = e.cell(("conj", X), a)
    if (turned != "NO_TRANSPOSE") == left:
        a, lower = flipped(e, a), not lower
    right = b if left else flipped(e, b)
    attributes = {"function": "triangular_solve", "lower": lower, "unit_diagonal": unit}
    found = matrices(e, [a, right], attributes)
    return found if left else flipped(e, found)


def flipped(e: Emitter, value: Value) -> Value:
    """Transpose each matrix of a stack."""
    rank = len(value.shape)
    return e.permute(value, (*range(rank - 2), rank - 1, rank - 2))


MATRICES: tuple[HloTranslator, ...] = (
    HloTranslator(("stablehlo.cholesky",), _cholesky),
    HloTranslator(("stablehlo.triangular_solve",), _triangular_solve),
)
