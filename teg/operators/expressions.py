"""Expressions over elements: nested tuples, their checks, their flop counts and their values.

Grammar: `("input", k)`, `("const", number or bool)`, `("index", dimension name)` (the global coordinate,
int64), `("cast", element type, e)`, `("bitcast", element type, e)` (the same bits; write `e` as a cast, because
constants have no bits), and `(function, e, ...)` with a function of `CELL_FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace, is_weak
from tapestry.teg.dtypes import NAMES, item_bytes
from tapestry.teg.faults import no_such
from tapestry.teg.operators.functions import CELL_FUNCTIONS, CellFunction

__all__ = [
    "CELL_FUNCTIONS",
    "CellFunction",
    "Expression",
    "cell_flops",
    "functions_of",
    "inputs_of",
    "run_steps",
    "steps_of",
    "substitute",
]

Expression = tuple[Any, ...]

# Leaves apart, expressions with an element type and one part.
CASTS = ("cast", "bitcast")


class SubExpression(NamedTuple):
    """One distinct sub-expression: function or leaf kind, its payload, the steps it reads."""

    name: str
    payload: Any
    arguments: tuple[int, ...]


def steps_of(expression: Expression) -> tuple[SubExpression, ...]:
    """Return the distinct sub-expressions, arguments first; the last one is the whole.

    Raises:
        ValueError: the expression is not of the grammar; the part that is wrong is quoted.
    """
    steps: list[SubExpression] = []
    numbers: dict[tuple[Any, ...], int] = {}

    def visit(e: Any) -> int:
        name, payload, parts = _parsed(e)
        step = SubExpression(name, payload, tuple([visit(part) for part in parts]))
        # The text of a constant distinguishes 1, 1.0 and True, and 0.0 from -0.0.
        key = (name, repr(payload), step.arguments)
        if key not in numbers:
            numbers[key] = len(steps)
            steps.append(step)
        return numbers[key]

    visit(expression)
    return tuple(steps)


def _parsed(e: Any) -> tuple[str, Any, Sequence[Any]]:
    """Parse one expression node into its name, payload and sub-expressions."""
    if not isinstance(e, tuple) or not e or not isinstance(e[0], str):
        raise ValueError(f"an expression is a tuple that begins with a name, not {e!r}")
    name, rest = e[0], e[1:]
    if name in CELL_FUNCTIONS:
        arity = CELL_FUNCTIONS[name].arity
        if len(rest) != arity:
            raise ValueError(f"cell function {name!r} takes {arity} arguments, not {len(rest)}, in {e!r}")
        return name, None, rest
    if name in CASTS and len(rest) == 2 and rest[0] in NAMES:
        return name, rest[0], rest[1:]
    leaf = {"input": (int,), "const": (bool, int, float, complex), "index": (str,)}.get(name)
    if leaf is not None and len(rest) == 1 and isinstance(rest[0], leaf):
        return name, rest[0], ()
    if name in CASTS or leaf is not None:
        raise ValueError(
            f"{e!r} is none of ('input', k), ('const', value), ('index', name), "
            "('cast' or 'bitcast', element type, expression)"
        )
    raise ValueError(no_such("cell function", name, CELL_FUNCTIONS))


def cell_flops(expression: Expression) -> float:
    """Count the flops per element; a sub-expression that occurs twice is computed once."""
    return sum(_flops(expression, repr(expression)))


def functions_of(expression: Expression) -> int:
    """Count the distinct applications of functions that cost flops."""
    return sum(flops > 0 for flops in _flops(expression, repr(expression)))


@lru_cache(maxsize=1 << 14)
def _flops(expression: Expression, _: str) -> tuple[float, ...]:
    """Compute the flops of every step, cached by expression and text: `==` confuses constants that the text
    distinguishes."""
    return tuple(CELL_FUNCTIONS[s.name].flops for s in steps_of(expression) if s.name in CELL_FUNCTIONS)


class SeparateWork(NamedTuple):
    """The work of an expression if each of its functions is a kernel of its own: kernels, and elements read and
    written per element of the result.
    """

    kernels: int
    elements: int


def separate_work(expression: Expression, whole: Sequence[bool]) -> SeparateWork:
    """Count functions, and the elements that they move; `whole[k]`: input k has all dimensions of the result.

    What only smaller inputs and constants decide moves nothing that counts.
    """
    kernels, moved, large = 0, 0, list[bool]()
    for step in steps_of(expression):
        leaf = step.name == "index" or (step.name == "input" and whole[step.payload])
        large.append(leaf or any(large[k] for k in step.arguments))
        if step.arguments:
            kernels += 1
            moved += sum(large[k] for k in step.arguments) + 1 if large[-1] else 0
    return SeparateWork(kernels, moved)


@lru_cache(maxsize=1 << 14)
def inputs_of(expression: Expression) -> tuple[int, ...]:
    """Return the input positions that the expression reads, ascending."""
    return tuple(sorted({s.payload for s in steps_of(expression) if s.name == "input"}))


def substitute(expression: Expression, replacements: Mapping[int, Expression]) -> Expression:
    """Replace each `("input", k)` in the expression by `replacements[k]`; other inputs stay."""
    name, payload, parts = _parsed(expression)
    if name == "input":
        return replacements.get(payload, expression)
    return (*expression[: len(expression) - len(parts)], *(substitute(part, replacements) for part in parts))


def run_steps(
    xp: ArrayNamespace,
    steps: Sequence[SubExpression],
    inputs: Sequence[Array],
    coordinates: Mapping[str, Array],
) -> Any:
    """Compute the value of the last step; inputs and coordinates are broadcast against each other.

    Types follow numpy's promotion with Python scalars as weak constants; each value is dropped after its last reader.
    An expression of constants alone has a Python scalar as its value.
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
            value = values[arguments[0]]
            values.append(xp.constant(value, payload) if is_weak(value) else xp.cast(value, payload))
        elif name == "bitcast":
            values.append(_same_bits(xp, values[arguments[0]], payload))
        else:
            values.append(xp.elementwise(name, *(values[a] for a in arguments)))
        for a in set(arguments):
            if last[a] == k:
                values[a] = None
    return values[-1]


def _same_bits(xp: ArrayNamespace, value: Any, dtype: str) -> Array:
    given = type(value).__name__ if is_weak(value) else xp.dtype_of(value)
    if is_weak(value) or item_bytes(given) != item_bytes(dtype):
        raise ValueError(f"a bitcast to {dtype} needs elements of its size, not {given}; cast first")
    return xp.bitcast(value, dtype)
