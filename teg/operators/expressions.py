"""Expressions over elements: nested tuples, their checks, their flops and their numpy meaning.

Grammar: `("input", k)`, `("const", number or bool)`, `("index", dimension name)` (the global coordinate,
int64), `("cast", element type, e)`, and `(function, e, ...)` with a function of `CELL_FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from teg.dtypes import EXTENDED, NAMES, numpy_dtype
from teg.operators.error_function import erf

Expression = tuple[Any, ...]


class CellFunction(NamedTuple):
    """A function on elements: numpy callable, number of arguments, flops per element."""

    call: Callable[..., Any]
    arity: int
    flops: float


def _divide(a: Any, b: Any) -> Any:
    """Integers divide towards zero (ONNX Div), everything else truly."""
    kind = np.result_type(a, b).kind
    if kind not in "iu":
        return np.divide(a, b)
    # fmod keeps the sign of `a`, so what is left divides without rest.
    return np.floor_divide(a, b) if kind == "u" else np.floor_divide(np.subtract(a, np.fmod(a, b)), b)


def _power(a: Any, b: Any) -> Any:
    """`a ** b`; small constant exponents are products, which is what compilers make of them."""
    if isinstance(b, (int, float)) and isinstance(a, np.ndarray) and b in (1, 2, 3):
        return a if b == 1 else a * a if b == 2 else a * a * a
    return np.power(a, b)


# Flops by McMahon's weights (The Livermore Fortran Kernels, 1986): add, subtract, multiply and compare 1,
# divide and square root 4, exponential and its kin 8.
CELL_FUNCTIONS: Mapping[str, CellFunction] = {
    "identity": CellFunction(lambda a: a, 1, 0),
    "add": CellFunction(np.add, 2, 1),
    "sub": CellFunction(np.subtract, 2, 1),
    "mul": CellFunction(np.multiply, 2, 1),
    "div": CellFunction(_divide, 2, 4),
    "mod": CellFunction(np.mod, 2, 4),
    "fmod": CellFunction(np.fmod, 2, 4),
    "pow": CellFunction(_power, 2, 8),
    "neg": CellFunction(np.negative, 1, 1),
    "abs": CellFunction(np.abs, 1, 1),
    "sign": CellFunction(np.sign, 1, 1),
    "square": CellFunction(np.square, 1, 1),
    "sqrt": CellFunction(np.sqrt, 1, 4),
    "rsqrt": CellFunction(lambda a: np.reciprocal(np.sqrt(a)), 1, 8),
    "reciprocal": CellFunction(np.reciprocal, 1, 4),
    "exp": CellFunction(np.exp, 1, 8),
    "expm1": CellFunction(np.expm1, 1, 8),
    "log": CellFunction(np.log, 1, 8),
    "log1p": CellFunction(np.log1p, 1, 8),
    "erf": CellFunction(erf, 1, 8),
    "sigmoid": CellFunction(lambda a: np.reciprocal(np.add(np.exp(np.negative(a)), 1)), 1, 13),
    "relu": CellFunction(lambda a: np.maximum(a, 0), 1, 1),
    "sin": CellFunction(np.sin, 1, 8),
    "cos": CellFunction(np.cos, 1, 8),
    "tan": CellFunction(np.tan, 1, 8),
    "asin": CellFunction(np.arcsin, 1, 8),
    "acos": CellFunction(np.arccos, 1, 8),
    "atan": CellFunction(np.arctan, 1, 8),
    "sinh": CellFunction(np.sinh, 1, 8),
    "cosh": CellFunction(np.cosh, 1, 8),
    "tanh": CellFunction(np.tanh, 1, 8),
    "floor": CellFunction(np.floor, 1, 1),
    "ceil": CellFunction(np.ceil, 1, 1),
    "round": CellFunction(np.rint, 1, 1),
    "trunc": CellFunction(np.trunc, 1, 1),
    "min": CellFunction(np.minimum, 2, 1),
    "max": CellFunction(np.maximum, 2, 1),
    "eq": CellFunction(np.equal, 2, 1),
    "ne": CellFunction(np.not_equal, 2, 1),
    "lt": CellFunction(np.less, 2, 1),
    "le": CellFunction(np.less_equal, 2, 1),
    "gt": CellFunction(np.greater, 2, 1),
    "ge": CellFunction(np.greater_equal, 2, 1),
    "and": CellFunction(np.logical_and, 2, 1),
    "or": CellFunction(np.logical_or, 2, 1),
    "xor": CellFunction(np.logical_xor, 2, 1),
    "not": CellFunction(np.logical_not, 1, 1),
    "bit_and": CellFunction(np.bitwise_and, 2, 1),
    "bit_or": CellFunction(np.bitwise_or, 2, 1),
    "bit_xor": CellFunction(np.bitwise_xor, 2, 1),
    "bit_not": CellFunction(np.bitwise_not, 1, 1),
    "shift_left": CellFunction(np.left_shift, 2, 1),
    "shift_right": CellFunction(np.right_shift, 2, 1),
    "where": CellFunction(np.where, 3, 1),
    "is_nan": CellFunction(np.isnan, 1, 1),
    "is_inf": CellFunction(np.isinf, 1, 1),
}


class Step(NamedTuple):
    """One distinct sub-expression: function or leaf kind, its payload, the steps it reads."""

    name: str
    payload: Any
    arguments: tuple[int, ...]


def steps_of(expression: Expression) -> tuple[Step, ...]:
    """The distinct sub-expressions, arguments first; the last one is the whole.

    Raises:
        ValueError: the expression is not of the grammar; the part that is wrong is quoted.
    """
    steps: list[Step] = []
    numbers: dict[tuple[Any, ...], int] = {}

    def visit(e: Any) -> int:
        name, payload, parts = _parsed(e)
        step = Step(name, payload, tuple([visit(part) for part in parts]))
        # The text of a constant tells 1, 1.0 and True apart, and 0.0 from -0.0.
        key = (name, repr(payload), step.arguments)
        if key not in numbers:
            numbers[key] = len(steps)
            steps.append(step)
        return numbers[key]

    visit(expression)
    return tuple(steps)


def _parsed(e: Any) -> tuple[str, Any, Sequence[Any]]:
    """Name, payload and sub-expressions of one expression node."""
    if not isinstance(e, tuple) or not e or not isinstance(e[0], str):
        raise ValueError(f"an expression is a tuple that begins with a name, not {e!r}")
    name, rest = e[0], e[1:]
    if name in CELL_FUNCTIONS:
        arity = CELL_FUNCTIONS[name].arity
        if len(rest) != arity:
            raise ValueError(f"cell function {name!r} takes {arity} arguments, not {len(rest)}, in {e!r}")
        return name, None, rest
    if name == "cast" and len(rest) == 2 and rest[0] in NAMES:
        return name, rest[0], rest[1:]
    leaf = {"input": (int,), "const": (bool, int, float, complex), "index": (str,)}.get(name)
    if leaf is not None and len(rest) == 1 and isinstance(rest[0], leaf):
        return name, rest[0], ()
    if name == "cast" or leaf is not None:
        raise ValueError(
            f"{e!r} is none of ('input', k), ('const', value), ('index', name), ('cast', element type, expression)"
        )
    near = get_close_matches(name, CELL_FUNCTIONS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(CELL_FUNCTIONS)}"
    raise ValueError(f"unknown cell function {name!r}; {hint}")


def cell_flops(expression: Expression) -> float:
    """Flops per element; a sub-expression that occurs twice is computed once."""
    return sum(CELL_FUNCTIONS[s.name].flops for s in steps_of(expression) if s.name in CELL_FUNCTIONS)


def inputs_of(expression: Expression) -> tuple[int, ...]:
    """The input positions that the expression reads, ascending."""
    return tuple(sorted({s.payload for s in steps_of(expression) if s.name == "input"}))


def substitute(expression: Expression, replacements: Mapping[int, Expression]) -> Expression:
    """The expression with `("input", k)` replaced by `replacements[k]`; other inputs stay."""
    name, payload, parts = _parsed(expression)
    if name == "input":
        return replacements.get(payload, expression)
    return (*expression[: len(expression) - len(parts)], *(substitute(part, replacements) for part in parts))


def run_steps(
    steps: Sequence[Step], inputs: Sequence[np.ndarray], coordinates: Mapping[str, np.ndarray]
) -> Any:
    """The value of the last step; inputs and coordinates are broadcast against each other.

    numpy's promotion with Python scalars as weak constants; each value is dropped after its last reader.
    """
    last = {a: k for k, step in enumerate(steps) for a in step.arguments}
    values: list[Any] = []
    for k, (name, payload, arguments) in enumerate(steps):
        if name == "input":
            values.append(inputs[payload])
        elif name == "const":
            values.append(payload)
        elif name == "index":
            values.append(coordinates[payload])
        elif name == "cast":
            values.append(np.asarray(values[arguments[0]]).astype(numpy_dtype(payload), copy=False))
        else:
            values.append(_applied(name, [values[a] for a in arguments]))
        for a in set(arguments):
            if last[a] == k:
                values[a] = None
    return values[-1]


def _applied(name: str, arguments: list[Any]) -> Any:
    """One function; a function of constants is a constant again, a Python scalar."""
    free = 1 if name == "where" else 0
    typed = {a.dtype for a in arguments[free:] if _is_typed(a)}
    if len(typed) == 1 and (dtype := next(iter(typed))).name in EXTENDED:
        # numpy does not know that Python scalars are weak next to these types.
        arguments[free:] = [a if _is_typed(a) else np.asarray(a, dtype) for a in arguments[free:]]
    result = CELL_FUNCTIONS[name].call(*arguments)
    return result if any(map(_is_typed, arguments)) else np.asarray(result).item()


def _is_typed(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))
