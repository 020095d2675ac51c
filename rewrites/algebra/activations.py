"""Recognition of activations that programs spell out: one function instead of five or eight.

Exports write a unit as a chain of element-wise operators. Fused into one cell and brought to canonical form, they
are recognized by their shape and their constants, which exports round to single precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tapestry.rewrites.elements import A, B, J, K
from tapestry.rewrites.laws import law
from tapestry.rewrites.patterns import Chain
from tapestry.rewrites.rule import Rule

UNITS = "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016"
CASES = "case analysis of a conditional"

# How far a constant may lie from the one that is meant: half precision has eleven bits.
ROUNDED = 2.0**-11

HALF = ("const", 0.5)
CUBIC, ROOT = 0.044715, math.sqrt(2 / math.pi)
CUBE = Chain("mul", (A.square(), A, K))
TANH = Chain("mul", (Chain("add", (CUBE, A)), J))
FACTORED = Chain("mul", (A.square() * K + 1, A, J))
DISTRIBUTED = Chain("mul", (A.square() * K + J, A))
MULTIPLIED_OUT = Chain("add", (CUBE, A * J))


def half_and_half(value: Any) -> Chain:
    """Build the expression value / 2 + 1 / 2."""
    return Chain("add", (Chain("mul", (value, HALF)), HALF))


def gated(value: Any) -> tuple[Chain, Chain, Chain]:
    """Build the patterns for a (value + 1) / 2: written so, and with the half or with a inside the brackets."""
    outside = Chain("mul", (("add", value, ("const", 1)), A, HALF))
    inside = Chain("add", (Chain("mul", (value, A)), A))
    return outside, Chain("mul", (half_and_half(value), A)), Chain("mul", (inside, HALF))


GELU = gated((A * K).erf())


def _sigmoid_gated(argument: Chain) -> Chain:
    """Build the pattern for a sigmoid(argument)."""
    return Chain("mul", (("sigmoid", argument), A))


def _over_exponential(argument: Chain) -> tuple[Any, ...]:
    """Build the pattern for a / (exp(argument) + 1)."""
    return ("div", A, ("add", ("exp", argument), ("const", 1)))


def near(**values: float) -> Callable[[Mapping[str, Any]], bool]:
    """Build a guard: the constants of these names equal these numbers up to rounding."""
    return lambda bound: all(
        math.isclose(bound[name], value, rel_tol=ROUNDED) for name, value in values.items() if name in bound
    )


ACTIVATIONS: tuple[Rule, ...] = (
    law(
        "pow_three",
        A**3,
        A * A.square(),
        doc="""
        The third power is two products.

        a ** 3  ->  a a^2
        For floats: a quarter of the cost of a power.
        """,
        source="laws of powers",
        domain="real",
        constants={"k": 3.0},
    ),
    law(
        "max_of_nothing",
        A.maximum(-math.inf),
        A,
        doc="""
        A lower bound of minus infinity disappears.

        max(a, -inf)  ->  a
        Where the constant does not widen the type; frameworks write it around the maximum of a row.
        """,
        source="identity of the maximum",
    ),
    law(
        "gelu",
        GELU[0],
        A.function("gelu"),
        when=near(k=math.sqrt(0.5)),
        constants={"k": math.sqrt(0.5)},
        also=GELU[1:],
        doc="""
        A spelled out Gaussian error linear unit is named.

        a (erf(a / sqrt(2)) + 1) / 2  or  a (erf(a / sqrt(2)) / 2 + 1/2)  ->  gelu(a)
        For floats, wherever the factors stand; the constant may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "gelu_of_complement",
        Chain("mul", (1 - (A * K).erf(), A, HALF)),
        A.function("gelu"),
        when=near(k=-math.sqrt(0.5), j=math.sqrt(0.5)),
        constants={"k": -math.sqrt(0.5), "j": math.sqrt(0.5)},
        also=(Chain("mul", (1 - (-A * J).erf(), A, HALF)),),
        doc="""
        A Gaussian error linear unit by the complementary error function is named.

        a (1 - erf(-a / sqrt(2))) / 2  ->  gelu(a)
        For floats, wherever the factors stand; the constant may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "gelu_tanh",
        gated(("tanh", TANH))[0],
        A.function("gelu_tanh"),
        when=near(k=CUBIC, j=ROOT),
        constants={"k": CUBIC, "j": ROOT},
        also=(*gated(("tanh", TANH))[1:], *gated(("tanh", FACTORED))),
        doc="""
        A spelled out approximate Gaussian error linear unit is named.

        a (tanh((a^3 0.044715 + a) sqrt(2 / pi)) + 1) / 2  ->  gelu_tanh(a)
        For floats, wherever the factors stand; also with the cubic factored, or the half inside the brackets;
        constants may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "gelu_tanh_of_sigmoid",
        _sigmoid_gated(TANH),
        A.function("gelu_tanh"),
        when=near(k=CUBIC, j=2 * ROOT),
        constants={"k": CUBIC, "j": 2 * ROOT},
        also=(_sigmoid_gated(FACTORED),),
        doc="""
        An approximate Gaussian error linear unit by a logistic function is named.

        a sigmoid((a^3 0.044715 + a) 2 sqrt(2 / pi))  ->  gelu_tanh(a)
        For floats, wherever the factors stand; also with the cubic factored; constants may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "gelu_tanh_of_distributed_sigmoid",
        _sigmoid_gated(DISTRIBUTED),
        A.function("gelu_tanh"),
        when=near(k=2 * CUBIC * ROOT, j=2 * ROOT),
        constants={"k": 2 * CUBIC * ROOT, "j": 2 * ROOT},
        also=(_sigmoid_gated(MULTIPLIED_OUT),),
        doc="""
        An approximate Gaussian error linear unit by a logistic function is named, its constants multiplied out.

        a sigmoid(a (a^2 0.0714 + 2 sqrt(2 / pi)))  ->  gelu_tanh(a)
        For floats, wherever the factors stand; constants may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "silu",
        Chain("mul", (A.sigmoid(), A)),
        A.function("silu"),
        also=(A / ((-A).exp() + 1),),
        doc="""
        A value times its own logistic function is named.

        a sigmoid(a)  ->  silu(a)
        For floats, wherever the factors stand; also as a / (1 + exp(-a)).
        """,
        source="Ramachandran, Zoph and Le, Searching for Activation Functions, 2017 (swish)",
        domain="real",
    ),
    law(
        "scaled_sigmoid_of_exp",
        ("div", Chain("mul", (A.exp(), B)), A.exp() + 1),
        A.sigmoid() * B,
        doc="""
        A multiple of a logistic function in other words is named.

        exp(a) b / (exp(a) + 1)  ->  sigmoid(a) b
        For floats; it even holds where the exponential overflows.
        """,
        source="definition of the logistic function",
        domain="real",
    ),
    law(
        "gelu_tanh_of_exponential",
        _over_exponential(TANH),
        A.function("gelu_tanh"),
        when=near(k=CUBIC, j=-2 * ROOT),
        constants={"k": CUBIC, "j": -2 * ROOT},
        also=(_over_exponential(FACTORED),),
        doc="""
        An approximate Gaussian error linear unit by an exponential is named.

        a / (exp((a^3 0.044715 + a) (-2) sqrt(2 / pi)) + 1)  ->  gelu_tanh(a)
        For floats; also with the cubic factored; constants may be rounded.
        """,
        source=UNITS,
        domain="real",
    ),
    law(
        "sigmoid_of_exp",
        A.exp() / (A.exp() + 1),
        A.sigmoid(),
        doc="""
        A logistic function in other words is named.

        exp(a) / (exp(a) + 1)  ->  sigmoid(a)
        For floats; it even holds where the exponential overflows.
        """,
        source="definition of the logistic function",
        domain="real",
    ),
    law(
        "softplus",
        Chain("add", ((-A.abs()).exp().log1p(), A.relu())),
        A.function("softplus"),
        also=(A.exp().log1p(),),
        doc="""
        A spelled out smooth rectifier is named.

        log(1 + exp(-|a|)) + relu(a)  or  log(1 + exp(a))  ->  softplus(a)
        For floats; the function is computed without overflow.
        """,
        source="Dugas et al., Incorporating Second-Order Functional Knowledge for Better Option Pricing, NIPS 2000",
        domain="real",
    ),
    law(
        "log_of_one_plus",
        (A + 1).log(),
        A.log1p(),
        doc="""
        The logarithm of one plus a value is one function.

        log(a + 1)  ->  log1p(a)
        For floats: exact near zero.
        """,
        source="definition of log1p",
        domain="real",
    ),
    law(
        "exp_less_one",
        A.exp() - 1,
        A.expm1(),
        doc="""
        An exponential less one is one function.

        exp(a) - 1  ->  expm1(a)
        For floats: exact near zero.
        """,
        source="definition of expm1",
        domain="real",
        also=(A.exp() + -1,),
    ),
    law(
        "relu_of_where",
        (A > 0).where(A, 0),
        A.relu(),
        also=((A >= 0).where(A, 0), (A < 0).where(0, A), (A <= 0).where(0, A)),
        doc="""
        A choice between a value and zero by its sign is its rectification.

        a > 0 ? a : 0  ->  relu(a)
        Where the constant does not widen the type, for numbers, finite or not: of what is no number, the choice
        makes zero and the rectifier none.
        """,
        source=CASES,
        domain="real",
        holds_for="numbers",
    ),
    law(
        "abs_of_where",
        (A < 0).where(-A, A),
        A.abs(),
        also=((A > 0).where(A, -A), (A >= 0).where(A, -A), A.maximum(-A)),
        doc="""
        A value or its negative, whichever is larger, is its absolute value.

        a < 0 ? -a : a  or  max(a, -a)  ->  |a|
        For floats (unsigned negatives wrap around).
        """,
        source="definition of the absolute value",
        holds_for="floats",
    ),
)
