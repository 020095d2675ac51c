"""Linear algebra on the last two dimensions of tensors: matrices stay whole, stacks of them can be sharded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, is_float
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, expect_inputs, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange


class MatrixFunction(NamedTuple):
    """A function of stacks of matrices.

    `vanishes`: a matrix becomes a number. `cubic` times n squared times the columns that are solved for (n
    where there is no right side) is its number of operations (Golub and Van Loan, Matrix Computations, 4th
    edition, chapters 3 and 4).
    """

    call: Callable[[ArrayNamespace, Definition, Sequence[Array]], Array]
    inputs: tuple[str, ...]
    options: tuple[str, ...]
    vanishes: bool
    cubic: float


def _triangle(xp: ArrayNamespace, definition: Definition, matrix: Array) -> Array:
    """Return the triangle that is read, with ones on the diagonal where they are implied."""
    half = xp.triangle(matrix, definition.get("lower", True))
    if not definition.get("unit_diagonal", False):
        return half
    size = matrix.shape[-1]
    eye = xp.identity_matrix(size, size, xp.dtype_of(matrix))
    return xp.elementwise("where", eye == 1, eye, half)


FUNCTIONS: Mapping[str, MatrixFunction] = {
    "det": MatrixFunction(lambda xp, _, a: xp.det(a[0]), ("value",), (), True, 2 / 3),
    "inverse": MatrixFunction(lambda xp, _, a: xp.inverse(a[0]), ("value",), (), False, 2.0),
    "cholesky": MatrixFunction(
        lambda xp, d, a: xp.cholesky(a[0], d.get("lower", True)), ("value",), ("lower",), False, 1 / 3
    ),
    "solve": MatrixFunction(lambda xp, _, a: xp.solve(a[0], a[1]), ("matrix", "right"), (), False, 8 / 3),
    "triangular_solve": MatrixFunction(
        lambda xp, d, a: xp.solve(_triangle(xp, d, a[0]), a[1]),
        ("matrix", "right"),
        ("lower", "unit_diagonal"),
        False,
        1.0,
    ),
}


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    options = sorted({o for f in FUNCTIONS.values() for o in f.options})
    given = settings(attrs, ("function",), options)
    if given["function"] not in FUNCTIONS:
        raise ValueError(
            f"attribute 'function' must be one of {', '.join(FUNCTIONS)}, not {given['function']!r}"
        )
    function = FUNCTIONS[given["function"]]
    for name, value in given.items():
        if name != "function" and (name not in function.options or not isinstance(value, bool)):
            known = ", ".join(function.options) or "none"
            raise ValueError(
                f"options of {given['function']!r} are True or False: {known}; not {name}={value!r}"
            )
    expect_inputs(inputs, function.inputs)
    shape, dtype = inputs[0]
    if len(shape) < 2 or shape[-1] != shape[-2] or not (is_float(dtype) or dtype.startswith("complex")):
        raise ValueError(f"a stack of square matrices of floats is needed, not {inputs[0]}")
    stack = shape[:-2]
    if len(inputs) == 2:
        right = inputs[1]
        if right.shape[:-1] != shape[:-1] or right.dtype != dtype:
            raise ValueError(f"the right side of {inputs[0]} needs shape {(*shape[:-1], 'n')}, not {right}")
    result = stack if function.vanishes else inputs[-1].shape
    dims = axiswise(stack)[0]
    projections = [
        projection(axiswise(s, whole=tuple(range(len(stack), len(s))))[1], len(dims))
        for s in (*(t.shape for t in inputs), result)
    ]
    signature = Signature(dims, tuple(projections[:-1]), (projections[-1],))
    return Inferred(signature, (TensorType(result, dtype),))


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    dtype = xp.dtype_of(operands[0].array)
    arrays = [xp.cast(o.array, accumulation(dtype)) for o in operands]
    return (xp.cast(FUNCTIONS[definition["function"]].call(xp, definition, arrays), dtype),)


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    """Return the work per point; the matrix is no index dimension, so a point is a whole matrix."""
    rows, columns = inputs[0].shape[-1], inputs[-1].shape[-1]
    return Work("vector", flops=FUNCTIONS[definition["function"]].cubic * rows * rows * columns)


_STACK = TensorType((5, 3, 3), "float64")

LINALG = Operator(
    name="linalg",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(attributes(function="det"), (_STACK,)),
        OperatorExample(attributes(function="inverse"), (TensorType((2, 3, 2, 2), "float64"),)),
        OperatorExample(attributes(function="solve"), (_STACK, TensorType((5, 3, 2), "float64"))),
        OperatorExample(
            attributes(function="triangular_solve", lower=False, unit_diagonal=True),
            (_STACK, TensorType((5, 3, 4), "float64")),
        ),
    ),
)

MATRICES: tuple[Operator, ...] = (LINALG,)
