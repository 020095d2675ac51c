"""Translation of the LAPACK calls that JAX makes on a CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.families.matrices import factor, solved
from tapestry.teg.importers.stablehlo.module import Operation, Type


def _config(operation: Operation, name: str) -> str:
    """Return a letter of LAPACK that a call is configured with."""
    return chr(int((operation.get("mhlo.backend_config") or {})[name]))


def _potrf(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Compute the Cholesky factor, and the status 0: a matrix that has none is an error at evaluation."""
    return [factor(e, operands[0], _config(operation, "uplo") == "L"), _done(e, operation)]


def _getrf(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Compute an LU factorization; rows are counted from 1."""
    packed, rows = e.fixed("factorise", operands, operation.types[:2], {"function": "lu"})
    return [packed, e.cell(("add", ("input", 0), ("const", 1)), rows), _done(e, operation)]


def _geqrf(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return e.fixed("factorise", operands[:1], operation.types, {"function": "qr"})


def _orgqr(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    return e.fixed("factorise", operands, operation.types, {"function": "reflect"})


def _syevd(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    given = {"function": "eigh", "lower": _config(operation, "uplo") == "L"}
    return [*e.fixed("factorise", operands, operation.types[:2], given), _done(e, operation)]


def _gesdd(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Compute a singular value decomposition; the factors are zeros where none are requested."""
    mode = _config(operation, "mode")
    value, (_, scales, left, right, _) = operands[0], operation.types
    stack, (m, n) = value.shape[:-2], value.shape[-2:]
    k = min(m, n)
    full = mode == "A"
    types = [
        Type((*stack, m, m if full else k), value.dtype),
        scales,
        Type((*stack, n if full else k, n), value.dtype),
    ]
    found = e.fixed("factorise", [value], types, {"function": "svd", "full": full})
    if mode == "N":
        unread = [e.full(t.shape, 0, t.dtype) for t in (left, right)]
        return [value, found[1], *unread, _done(e, operation)]
    return [value, found[1], found[0], found[2], _done(e, operation)]


def _done(e: Emitter, operation: Operation) -> Value:
    """Return the status 0 of a call that succeeded."""
    kind = operation.types[-1]
    return e.full(kind.shape, 0, kind.dtype)


def _trsm(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    turned = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[_config(operation, "trans_x")]
    return [
        solved(
            e,
            *operands[:2],
            left=_config(operation, "side") == "L",
            lower=_config(operation, "uplo") == "L",
            unit=_config(operation, "diag") == "U",
            turned=turned,
        )
    ]


# What JAX calls for matrices on a CPU: single, double, complex.
LAPACK = re.compile(r"lapack_[sdcz](potrf|trsm|getrf|geqrf|orgqr|ungqr|syevd|heevd|gesdd)_ffi")
LAPACK_CALLS: dict[str, Callable[[Emitter, Operation, Sequence[Value]], Sequence[Value]]] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "syevd": _syevd,
    "heevd": _syevd,
    "gesdd": _gesdd,
    "trsm": _trsm,
}
