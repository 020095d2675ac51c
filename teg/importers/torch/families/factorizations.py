"""Factorizations of stacks of matrices: singular values, eigenvalues of symmetric matrices, QR, pseudo-inverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapestry.teg.dtypes import REAL_DTYPES, numpy_dtype
from tapestry.teg.importers.program import Fixed, Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call, where

Shape = tuple[int, ...]


def _factors(
    t: Tracer, values: list[Value], shapes: list[Shape], dtypes: list[str], **attributes: Any
) -> list[Value]:
    """Emit a factorization; return its results, each of the shape and element type given."""
    outputs = [t.translation.declare(t.fresh(), s, d) for s, d in zip(shapes, dtypes, strict=True)]
    names = tuple(v.name for v in values)
    t.translation.emit(Fixed(outputs[0], "factorise", names, tuple(outputs), attributes))
    return [t.value(name) for name in outputs]


def _svd(
    t: Tracer, A: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> tuple[Value, ...]:
    """Compute the SVD: left vectors in columns, values in descending order, right vectors in rows."""
    stack, (m, n) = A.shape[:-2], A.shape[-2:]
    k = min(m, n)
    left, right = (m, n) if full_matrices else (k, k)
    shapes: list[Shape] = [(*stack, m, left), (*stack, k), (*stack, right, n)]
    dtypes = [A.dtype, REAL_DTYPES.get(A.dtype, A.dtype), A.dtype]
    found = _factors(t, [A], shapes, dtypes, function="svd", full=full_matrices)
    if not compute_uv:  # torch records factors without elements
        return (t.full(t.recorded(0).shape, 0, A.dtype), found[1], t.full(t.recorded(2).shape, 0, A.dtype))
    return tuple(found)


def _linalg_svd(t: Tracer, A: Value, full_matrices: bool = True, *, driver: Any = None) -> tuple[Value, ...]:
    return _svd(t, A, full_matrices)


def _svdvals(t: Tracer, A: Value, *, driver: Any = None) -> Value:
    return _svd(t, A)[1]


def _eigh(t: Tracer, A: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """Compute eigenvalues in ascending order and eigenvectors in columns; of each matrix one triangle is read."""
    dtypes = [A.dtype, REAL_DTYPES.get(A.dtype, A.dtype)]
    shapes: list[Shape] = [A.shape, A.shape[:-1]]
    vectors, values = _factors(t, [A], shapes, dtypes, function="eigh", lower=UPLO.upper() == "L")
    return values, vectors if compute_v else t.full(t.recorded(1).shape, 0, A.dtype)


def _eigvalsh(t: Tracer, A: Value, UPLO: str = "L") -> Value:
    return _eigh(t, A, UPLO)[0]


def _qr(t: Tracer, A: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """Compute a QR factorization: reflectors packed below the triangle R, then their product."""
    stack, (m, n) = A.shape[:-2], A.shape[-2:]
    k = min(m, n)
    if mode != "reduced" or not k:
        raise t.refuse(
            f"in mode {mode!r} of shape {list(A.shape)} is unsupported; 'reduced' is, with elements"
        )
    packed, scales = _factors(t, [A], [A.shape, (*stack, k)], [A.dtype] * 2, function="qr")
    lead = [range(s) for s in stack]
    above = t.slice(packed, [*lead, range(k), range(n)])
    row, column = f"d{len(stack)}", f"d{len(stack) + 1}"
    upper = ("where", ("le", ("index", row), ("index", column)), ("input", 0), ("const", 0))
    r = t.elements(upper, [above], A.dtype)
    columns = t.slice(packed, [*lead, range(m), range(k)])
    (q,) = _factors(t, [columns, scales], [columns.shape], [A.dtype], function="reflect")
    return q, r


def _pinv(
    t: Tracer, A: Value, *, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """Compute the pseudo-inverse by singular values.

    Values up to `rtol` (epsilon times the longer side) of the largest count as 0.
    """
    if atol is not None or rtol is not None or A.dtype in REAL_DTYPES or not min(A.shape[-2:]):
        raise t.refuse(
            "is unsupported with tolerances that are tensors, of complex numbers, or without elements"
        )
    left, scales, right = _svd(t, A)
    rank, epsilon = len(scales.shape), float(np.finfo(numpy_dtype(A.dtype)).eps)
    largest = t.reduce(scales, [rank - 1], "max", keep=True)
    limit = epsilon * max(A.shape[-2:])
    inverse = t.cells(
        lambda s, most: where(call("gt", s, most * limit), 1.0 / s, 0.0), scales, largest, dtype=A.dtype
    )
    lead = tuple(f"b{k}" for k in range(rank - 1))
    labels = [(*lead, "m", "k"), (*lead, "k"), (*lead, "k", "n")]
    return t.contract([left, inverse, right], labels, (*lead, "n", "m"))


FACTORIZATIONS: tuple[TorchOperator, ...] = (
    TorchOperator(aten("_linalg_svd"), _svd),
    TorchOperator(aten("linalg_svd"), _linalg_svd),
    TorchOperator(aten("linalg_svdvals"), _svdvals),
    TorchOperator(aten("linalg_eigh", "_linalg_eigh"), _eigh),
    TorchOperator(aten("linalg_eigvalsh"), _eigvalsh),
    TorchOperator(aten("linalg_qr"), _qr),
    TorchOperator(aten("linalg_pinv.atol_rtol_tensor"), _pinv),
)
