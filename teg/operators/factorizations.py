"""Matrix factorizations with several results, in the forms of LAPACK: stacks are sharded, matrices stay whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from tapestry.teg.arrays import ArrayNamespace
from tapestry.teg.dtypes import REAL_DTYPES
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, expect_inputs, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange

Shape = tuple[int, ...]
Arrays = tuple[np.ndarray, ...]


class Factorization(NamedTuple):
    """A function of stacks of matrices `(..., m, n)` with several results.

    `results`: their shapes and element types. `option`: a name that may be true or false. `cubic` times m n min(m, n)
    is the number of operations (Golub and Van Loan, Matrix Computations, 4th edition, chapters 3, 5 and 8).
    """

    call: Callable[[Definition, Sequence[np.ndarray]], Arrays]
    inputs: tuple[str, ...]
    results: Callable[[Mapping[str, bool], TensorType], tuple[TensorType, ...]]
    option: str
    cubic: float


def _lu(_: Definition, arrays: Sequence[np.ndarray]) -> Arrays:
    """Compute LU: both triangles in one matrix, and the row that each row was exchanged with."""
    value = arrays[0]
    m, n = value.shape[-2:]
    pairs = [linalg.lu_factor(a, check_finite=False) for a in value.reshape(-1, m, n)]
    packed = np.array([p for p, _ in pairs], value.dtype).reshape(value.shape)
    rows = np.array([r for _, r in pairs], np.int32).reshape(*value.shape[:-2], min(m, n))
    return packed, rows


def _qr(_: Definition, arrays: Sequence[np.ndarray]) -> Arrays:
    """Compute QR: the reflectors below the triangle R, and their scales."""
    reflectors, scales = np.linalg.qr(arrays[0], mode="raw")
    return np.swapaxes(reflectors, -1, -2), scales


def _reflect(_: Definition, arrays: Sequence[np.ndarray]) -> Arrays:
    """Compute the first columns of the product of reflectors `1 - scale v v*`, as `qr` packs them."""
    packed, scales = arrays
    m, n = packed.shape[-2:]
    result = np.broadcast_to(np.eye(m, n, dtype=packed.dtype), packed.shape).copy()
    for k in reversed(range(scales.shape[-1])):
        below = np.arange(m) > k
        vector = np.where(below, packed[..., k], 0) + (np.arange(m) == k)
        along = np.matmul(np.conj(vector)[..., None, :], result)
        result -= scales[..., k, None, None] * vector[..., None] * along
    return (result,)


def _eigh(definition: Definition, arrays: Sequence[np.ndarray]) -> Arrays:
    """Compute eigenvectors in columns, and eigenvalues, ascending, of symmetric matrices given by one triangle."""
    values, vectors = np.linalg.eigh(arrays[0], UPLO="L" if definition.get("lower", True) else "U")
    return vectors, values


def _svd(definition: Definition, arrays: Sequence[np.ndarray]) -> Arrays:
    """Compute the SVD: left vectors in columns, values in descending order, right vectors in rows."""
    found = np.linalg.svd(arrays[0], full_matrices=definition.get("full", False))
    return found[0], found[1], found[2]


def _lu_types(_: Mapping[str, bool], value: TensorType) -> tuple[TensorType, ...]:
    stack, k = value.shape[:-2], min(value.shape[-2:])
    return value, TensorType((*stack, k), "int32")


def _qr_types(_: Mapping[str, bool], value: TensorType) -> tuple[TensorType, ...]:
    stack, k = value.shape[:-2], min(value.shape[-2:])
    return value, TensorType((*stack, k), value.dtype)


def _eigh_types(_: Mapping[str, bool], value: TensorType) -> tuple[TensorType, ...]:
    return value, TensorType(value.shape[:-1], REAL_DTYPES.get(value.dtype, value.dtype))


def _svd_types(given: Mapping[str, bool], value: TensorType) -> tuple[TensorType, ...]:
    stack, (m, n) = value.shape[:-2], value.shape[-2:]
    k = min(m, n)
    full = given.get("full", False)
    return (
        TensorType((*stack, m, m if full else k), value.dtype),
        TensorType((*stack, k), REAL_DTYPES.get(value.dtype, value.dtype)),
        TensorType((*stack, n if full else k, n), value.dtype),
    )


FUNCTIONS: Mapping[str, Factorization] = {
    "lu": Factorization(_lu, ("value",), _lu_types, "", 2 / 3),
    "qr": Factorization(_qr, ("value",), _qr_types, "", 4 / 3),
    "reflect": Factorization(_reflect, ("reflectors", "scales"), lambda _, v: (v,), "", 4 / 3),
    "eigh": Factorization(_eigh, ("value",), _eigh_types, "lower", 9.0),
    "svd": Factorization(_svd, ("value",), _svd_types, "full", 12.0),
}


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = dict(settings(attrs, ("function",), sorted(o for f in FUNCTIONS.values() if (o := f.option))))
    name = given.pop("function")
    if name not in FUNCTIONS:
        raise ValueError(f"attribute 'function' must be one of {', '.join(FUNCTIONS)}, not {name!r}")
    function = FUNCTIONS[name]
    wrong = [o for o, value in given.items() if o != function.option or not isinstance(value, bool)]
    if wrong:
        raise ValueError(
            f"{name!r} takes option {function.option or 'none'}, True or False; not {wrong[0]!r}"
        )
    expect_inputs(inputs, function.inputs)
    _check(name, inputs)
    stack = inputs[0].shape[:-2]
    outputs = function.results(given, inputs[0])
    dims = axiswise(stack)[0]
    projections = [
        projection(axiswise(t.shape, whole=tuple(range(len(stack), len(t.shape))))[1], len(dims))
        for t in (*inputs, *outputs)
    ]
    return Inferred(
        Signature(dims, tuple(projections[: len(inputs)]), tuple(projections[len(inputs) :])), outputs
    )


def _check(name: str, inputs: Sequence[TensorType]) -> None:
    shape, dtype = inputs[0]
    if len(shape) < 2 or 0 in shape[-2:] or not (dtype in ("float32", "float64") or dtype in REAL_DTYPES):
        raise ValueError(
            f"a stack of matrices of float32, float64 or complex numbers is needed, not {inputs[0]}"
        )
    if name == "eigh" and shape[-1] != shape[-2]:
        raise ValueError(f"'eigh' needs square matrices, not {inputs[0]}")
    if name == "reflect" and (shape[-1] > shape[-2] or not _are_scales(inputs[1], inputs[0])):
        raise ValueError(
            f"'reflect' needs tall matrices and a scale for some of their columns, not {list(inputs)}"
        )


def _are_scales(scales: TensorType, packed: TensorType) -> bool:
    fits = scales.shape[:-1] == packed.shape[:-2] and scales.dtype == packed.dtype
    return fits and scales.shape[-1] <= packed.shape[-1]


def _evaluate(_: ArrayNamespace, definition: Definition, __: ZRange, operands: Sequence[Operand]) -> Arrays:
    function = FUNCTIONS[definition["function"]]
    arrays = [o.array for o in operands]
    made = function.call(definition, arrays)
    given = {function.option: definition.get(function.option, False)} if function.option else {}
    types = function.results(given, TensorType(arrays[0].shape, arrays[0].dtype.name))
    return tuple(np.asarray(a, dtype=t.dtype) for a, t in zip(made, types, strict=True))


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    """Return the work per point; the matrix is no index dimension, so a point is a whole matrix."""
    m, n = inputs[0].shape[-2:]
    return Work("vector", flops=FUNCTIONS[definition["function"]].cubic * m * n * min(m, n))


def _example(function: str, *inputs: TensorType, **options: bool) -> OperatorExample:
    return OperatorExample(attributes(function=function, **options), inputs)


_STACK = TensorType((4, 3, 3), "float64")

FACTORIZE = Operator(
    name="factorise",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    host_only=True,
    examples=(
        _example("lu", _STACK),
        _example("qr", TensorType((2, 3, 4, 2), "float64")),
        _example("reflect", TensorType((5, 4, 2), "float64"), TensorType((5, 2), "float64")),
        _example("eigh", _STACK, lower=False),
        _example("svd", TensorType((5, 2, 3), "float64"), full=True),
    ),
)

FACTORIZATIONS: tuple[Operator, ...] = (FACTORIZE,)
