"""Linear algebra on stacks of matrices."""

from __future__ import annotations

from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call
from tapestry.teg.importers.translate.matrices import linalg


def _fine(t: Tracer, value: Value) -> Value:
    """Return torch's status for each matrix: 0, success."""
    return t.full(value.shape[:-2], 0, "int32")


def _det(t: Tracer, A: Value) -> tuple[Value | None, ...]:
    return (linalg(t, "det", [A]),)


def _slogdet(t: Tracer, A: Value) -> tuple[Value, Value]:
    found = linalg(t, "det", [A])
    signs = t.cells(lambda a: call("sign", a), found, dtype=A.dtype)
    return signs, t.cells(lambda a: call("log", call("abs", a)), found, dtype=A.dtype)


def _inverse(t: Tracer, A: Value, *, check_errors: bool = False) -> tuple[Value, Value]:
    return linalg(t, "inverse", [A]), _fine(t, A)


def _plain_inverse(t: Tracer, A: Value) -> Value:
    return linalg(t, "inverse", [A])


def _cholesky(t: Tracer, x: Value, *, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    return linalg(t, "cholesky", [x], lower=not upper), _fine(t, x)


def _plain_cholesky(t: Tracer, x: Value, upper: bool = False) -> Value:
    return linalg(t, "cholesky", [x], lower=not upper)


def _solve(
    t: Tracer, A: Value, B: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value | None, ...]:
    """Solve A X = B, or X A = B; a right side of one dimension less is a vector per matrix."""
    vector = len(B.shape) == 1 or (len(B.shape) == len(A.shape) - 1 and B.shape == A.shape[:-1])
    right = t.unsqueeze(B, len(B.shape)) if vector else B
    found = _solved(t, "solve", A, right, left)
    result = t.squeeze(found, len(found.shape) - 1) if vector else found
    status = _fine(t, A) if len(t.call.outputs) > 3 else None
    return result, None, None, status


def _turned(t: Tracer, x: Value) -> Value:
    rank = len(x.shape)
    return t.permute(x, [*range(rank - 2), rank - 1, rank - 2])


def _solved(t: Tracer, function: str, a: Value, b: Value, left: bool, **options: Any) -> Value:
    if left:
        stack = max(a.shape[:-2], b.shape[:-2], key=len)
        return linalg(t, function, [a, t.expand(b, (*stack, *b.shape[-2:]))], **options)
    if "lower" in options:
        options["lower"] = not options["lower"]
    return _turned(t, linalg(t, function, [_turned(t, a), _turned(t, b)], **options))


def _triangular(
    t: Tracer, x: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    return _solved(t, "triangular_solve", x, B, left, lower=not upper, unit_diagonal=unitriangular)


MATRICES: tuple[TorchOperator, ...] = (
    TorchOperator(aten("_linalg_det"), _det),
    TorchOperator(aten("linalg_det", "det"), lambda t, A: linalg(t, "det", [A])),
    TorchOperator(aten("linalg_slogdet", "_linalg_slogdet"), _slogdet),
    TorchOperator(aten("linalg_inv_ex"), _inverse),
    TorchOperator(aten("linalg_inv"), _plain_inverse),
    TorchOperator(aten("inverse"), lambda t, x: linalg(t, "inverse", [x])),
    TorchOperator(aten("linalg_cholesky_ex"), _cholesky),
    TorchOperator(aten("linalg_cholesky", "cholesky"), _plain_cholesky),
    TorchOperator(aten("_linalg_solve_ex", "linalg_solve_ex"), _solve),
    TorchOperator(aten("linalg_solve"), _solve),
    TorchOperator(aten("linalg_solve_triangular"), _triangular),
)
