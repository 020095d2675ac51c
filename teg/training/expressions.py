"""Derivatives of expressions over elements, written as expressions: reverse accumulation over their steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from tapestry.teg.arrays import NUMPY, is_weak
from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.operators.expressions import Expression, SubExpression, run_steps, steps_of
from tapestry.teg.training.rule import NotDifferentiable

ZERO: Expression = ("const", 0.0)
ONE: Expression = ("const", 1.0)
Parts = tuple[Expression, ...]


def number(value: float) -> Expression:
    """Write a constant."""
    return ("const", float(value))


def add(a: Expression, b: Expression) -> Expression:
    """Write a sum, without zeros."""
    if a == ZERO:
        return b
    return a if b == ZERO else ("add", a, b)


def mul(a: Expression, b: Expression) -> Expression:
    """Write a product, without ones and zeros."""
    if ZERO in (a, b):
        return ZERO
    if a == ONE:
        return b
    return a if b == ONE else ("mul", a, b)


def neg(a: Expression) -> Expression:
    """Write the negative."""
    return ("neg", a)


def where(condition: Expression, a: Expression, b: Expression = ZERO) -> Expression:
    """Write a choice."""
    return ("where", condition, a, b)


# The density of the normal distribution, and the cumulative one.
def _density(x: Expression) -> Expression:
    return mul(number(1 / math.sqrt(2 * math.pi)), ("exp", mul(number(-0.5), ("square", x))))


def _normal(x: Expression) -> Expression:
    return mul(number(0.5), ("add", ONE, ("erf", mul(number(math.sqrt(0.5)), x))))


def _sigmoid_unit(x: Expression, slope: float) -> Expression:
    """Write the derivative of `x * sigmoid(slope * x)`."""
    s = ("sigmoid", mul(number(slope), x))
    return mul(s, ("add", ONE, mul(mul(number(slope), x), ("sub", ONE, s))))


def _gelu_tanh(x: Expression) -> Expression:
    a, b = math.sqrt(2 / math.pi), 0.044715
    t = ("tanh", mul(number(a), mul(x, ("add", ONE, mul(number(b), ("square", x))))))
    inner = mul(number(a), ("add", ONE, mul(number(3 * b), ("square", x))))
    return (
        "add",
        mul(number(0.5), ("add", ONE, t)),
        mul(mul(mul(number(0.5), x), ("sub", ONE, ("square", t))), inner),
    )


def _pow(p: Parts, out: Expression) -> Parts:
    x, y = p
    base = mul(y, ("pow", x, ("sub", y, ONE)))
    if y[0] == "const":
        exponent = y[1]
        base = ZERO if exponent == 0 else mul(number(exponent), ("pow", x, number(exponent - 1)))
        if exponent == 2:
            base = mul(number(2), x)
    return base, where(("eq", x, ZERO), ZERO, mul(out, ("log", x)))


# By function, the derivatives by its arguments, from the arguments and the function's own value.
DERIVATIVES: Mapping[str, Callable[[Parts, Expression], Parts]] = {
    "identity": lambda p, y: (ONE,),
    "add": lambda p, y: (ONE, ONE),
    "sub": lambda p, y: (ONE, number(-1)),
    "mul": lambda p, y: (p[1], p[0]),
    "div": lambda p, y: (("div", ONE, p[1]), neg(("div", y, p[1]))),
    "mod": lambda p, y: (ONE, neg(("floor", ("div", p[0], p[1])))),
    "fmod": lambda p, y: (ONE, neg(("trunc", ("div", p[0], p[1])))),
    "pow": _pow,
    "neg": lambda p, y: (number(-1),),
    "square": lambda p, y: (mul(number(2), p[0]),),
    "sqrt": lambda p, y: (("div", number(0.5), y),),
    "rsqrt": lambda p, y: (mul(number(-0.5), mul(y, ("square", y))),),
    "reciprocal": lambda p, y: (neg(("square", y)),),
    "exp": lambda p, y: (y,),
    "expm1": lambda p, y: (("add", y, ONE),),
    "log": lambda p, y: (("reciprocal", p[0]),),
    "log1p": lambda p, y: (("reciprocal", ("add", p[0], ONE)),),
    "erf": lambda p, y: (mul(number(2 / math.sqrt(math.pi)), ("exp", neg(("square", p[0])))),),
    "sigmoid": lambda p, y: (mul(y, ("sub", ONE, y)),),
    "gelu": lambda p, y: (("add", _normal(p[0]), mul(p[0], _density(p[0]))),),
    "gelu_tanh": lambda p, y: (_gelu_tanh(p[0]),),
    "silu": lambda p, y: (_sigmoid_unit(p[0], 1.0),),
    "quick_gelu": lambda p, y: (_sigmoid_unit(p[0], 1.702),),
    "softplus": lambda p, y: (("sigmoid", p[0]),),
    "sin": lambda p, y: (("cos", p[0]),),
    "cos": lambda p, y: (neg(("sin", p[0])),),
    "tan": lambda p, y: (("add", ONE, ("square", y)),),
    "asin": lambda p, y: (("rsqrt", ("sub", ONE, ("square", p[0]))),),
    "acos": lambda p, y: (neg(("rsqrt", ("sub", ONE, ("square", p[0])))),),
    "atan": lambda p, y: (("reciprocal", ("add", ONE, ("square", p[0]))),),
    "sinh": lambda p, y: (("cosh", p[0]),),
    "cosh": lambda p, y: (("sinh", p[0]),),
    "tanh": lambda p, y: (("sub", ONE, ("square", y)),),
    "asinh": lambda p, y: (("rsqrt", ("add", ("square", p[0]), ONE)),),
    "acosh": lambda p, y: (("rsqrt", ("sub", ("square", p[0]), ONE)),),
    "atanh": lambda p, y: (("reciprocal", ("sub", ONE, ("square", p[0]))),),
    "atan2": lambda p, y: (
        ("div", p[1], ("add", ("square", p[0]), ("square", p[1]))),
        neg(("div", p[0], ("add", ("square", p[0]), ("square", p[1])))),
    ),
    "cbrt": lambda p, y: (("reciprocal", mul(number(3), ("square", y))),),
    "exp2": lambda p, y: (mul(number(math.log(2)), y),),
    "log2": lambda p, y: (("reciprocal", mul(number(math.log(2)), p[0])),),
    "erf_inv": lambda p, y: (mul(number(math.sqrt(math.pi) / 2), ("exp", ("square", y))),),
    "lgamma": lambda p, y: (("digamma", p[0]),),
    "digamma": lambda p, y: (("polygamma", ONE, p[0]),),
    "polygamma": lambda p, y: (ZERO, ("polygamma", ("add", p[0], ONE), p[1])),
    "zeta": lambda p, y: (ZERO, neg(mul(p[0], ("zeta", ("add", p[0], ONE), p[1])))),
}

# Functions that let the gradient pass, or a part of it: from the arguments and the gradient of the function's value.
GATES: Mapping[str, Callable[[Parts, Expression], Parts]] = {
    "abs": lambda p, g: (mul(g, ("sign", p[0])),),
    "relu": lambda p, g: (where(("gt", p[0], ZERO), g),),
    "where": lambda p, g: (ZERO, where(p[0], g), where(p[0], ZERO, g)),
    "max": lambda p, g: _of_the_greater(g, p[0], p[1]),
    "min": lambda p, g: _of_the_greater(g, p[1], p[0]),
    "real": lambda p, g: (("complex", g, mul(number(0), g)),),
    "imag": lambda p, g: (("complex", mul(number(0), g), g),),
    "conj": lambda p, g: (("conj", g),),
    "complex": lambda p, g: (("real", g), ("imag", g)),
}

# Functions whose value does not change with small changes of their arguments.
STEPS = frozenset(
    (
        *("sign", "floor", "ceil", "round", "round_away", "trunc", "floor_div"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "is_nan", "is_inf", "is_finite"),
        *("bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right", "shift_right_logical"),
        *("popcount", "count_leading_zeros", "random_bits", "random_uniform"),
    )
)
# Arguments by which no derivative is known.
UNKNOWN = frozenset((("polygamma", 0), ("zeta", 0)))


def _of_the_greater(g: Expression, a: Expression, b: Expression) -> Parts:
    """Give the gradient to the greater one, and to both alike where they are equal."""
    half = where(("eq", a, b), mul(number(0.5), g))
    return where(("gt", a, b), g, half), where(("gt", b, a), g, half)


def derivatives(
    expression: Expression,
    wanted: Collection[int],
    gradient: Expression,
    dtypes: Sequence[str],
    names: Sequence[str],
) -> dict[int, Expression]:
    """Return the gradients of the inputs that are `wanted`, from an expression for that of the value.

    `dtypes` are those of the inputs, `names` those of the dimensions. Inputs whose gradient is zero are left out.

    Raises:
        NotDifferentiable: a function has no known derivative.
    """
    steps = steps_of(expression)
    kinds = _dtypes(steps, dtypes, names)
    written = _written(steps)
    active: list[bool] = []
    for step, kind in zip(steps, kinds, strict=True):
        reached = step.name == "input" and step.payload in wanted
        reached = reached or (step.name not in STEPS and any(active[k] for k in step.arguments))
        active.append(reached and (is_float(kind) or _is_complex(kind)))
    found: dict[int, Expression] = {}
    gradients: list[Expression] = [ZERO] * len(steps)
    gradients[-1] = gradient
    for k in reversed(range(len(steps))):
        step, g = steps[k], gradients[k]
        if not active[k] or g == ZERO:
            continue
        if step.name == "input":
            found[step.payload] = g
            continue
        parts = _contributions(
            step, tuple(written[a] for a in step.arguments), written[k], g, active, kinds, k
        )
        for a, part in zip(step.arguments, parts, strict=True):
            if active[a]:
                given = ("real", part) if _is_complex(kinds[k]) and not _is_complex(kinds[a]) else part
                given = part if step.name == "complex" or part == ZERO else given
                gradients[a] = add(gradients[a], given)
    return found


def _contributions(
    step: SubExpression,
    parts: Parts,
    value: Expression,
    g: Expression,
    active: Sequence[bool],
    kinds: Sequence[str],
    k: int,
) -> Parts:
    """Return what the gradient of a step gives to its arguments."""
    if step.name == "cast":
        return (g,)
    if step.name in GATES:
        return GATES[step.name](parts, g)
    for n, a in enumerate(step.arguments):
        if active[a] and (step.name not in DERIVATIVES or (step.name, n) in UNKNOWN):
            raise NotDifferentiable(f"the function {step.name!r} has no known derivative")
    factors = DERIVATIVES[step.name](parts, value)
    if _is_complex(kinds[k]):
        factors = tuple(map(_conjugated, factors))
    return tuple(mul(g, f) if active[a] else ZERO for f, a in zip(factors, step.arguments, strict=True))


def _conjugated(e: Expression) -> Expression:
    if e[0] == "const":
        return ("const", e[1].conjugate())
    return ("conj", e)


def _written(steps: Sequence[SubExpression]) -> list[Expression]:
    """Return each step as an expression of its own."""
    found: list[Expression] = []
    for name, payload, arguments in steps:
        head = (name,) if payload is None else (name, payload)
        found.append((*head, *(found[a] for a in arguments)))
    return found


def _dtypes(steps: Sequence[SubExpression], dtypes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the element type of each step's value; of constants alone, that of a float."""
    rank = len(names)
    ones = [np.ones((1,) * rank, numpy_dtype(name)) for name in dtypes]
    coordinates = {name: np.ones((1,) * rank, np.int64) for name in names}
    found = []
    with np.errstate(all="ignore"):
        for k in range(len(steps)):
            value = run_steps(NUMPY, steps[: k + 1], ones, coordinates)
            found.append("float64" if is_weak(value) else NUMPY.dtype_of(value))
    return found


def _is_complex(dtype: str) -> bool:
    return numpy_dtype(dtype).kind == "c"
