"""Recognition of functions written by others: logistic units, tangents by exponentials, absolute values by roots.

Each of these forms takes more operations than the function itself, and loses digits or overflows where it does not.
"""

from __future__ import annotations

from typing import Any

from tapestry.rewrites.algebra.activations import CASES, HALF, near
from tapestry.rewrites.elements import A, J, K
from tapestry.rewrites.laws import law
from tapestry.rewrites.patterns import Chain
from tapestry.rewrites.rule import Rule

HYPERBOLIC = "definition of the hyperbolic tangent"
LOGISTIC = "definition of the logistic function"

# The logistic function of 1.702 a is near the normal distribution's Phi(a).
STEEPNESS = 1.702


def _of_growth(growth: Any) -> tuple[Any, ...]:
    """Build the pattern (growth - 1) / (growth + 1)."""
    return ("div", growth - 1, growth + 1)


EQUIVALENT_FUNCTIONS: tuple[Rule, ...] = (
    law(
        "quick_gelu",
        Chain("mul", ((A * K).sigmoid(), A)),
        A.function("quick_gelu"),
        when=near(k=STEEPNESS, j=-STEEPNESS),
        constants={"k": STEEPNESS, "j": -STEEPNESS},
        also=(A / ((A * J).exp() + 1),),
        doc="""
        A spelled out logistic approximation of the Gaussian error linear unit is named.

        a sigmoid(1.702 a)  or  a / (exp(-1.702 a) + 1)  ->  quick_gelu(a)
        For floats, wherever the factors stand; the constant may be rounded.
        """,
        source="Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, section 2",
        domain="real",
    ),
    law(
        "tanh_of_sigmoid",
        (A * 2).sigmoid() * 2 - 1,
        A.tanh(),
        also=((A * 2).sigmoid() * 2 + -1,),
        doc="""
        A logistic function stretched to both sides of zero is a hyperbolic tangent.

        2 sigmoid(2 a) - 1  ->  tanh(a)
        For floats: near zero it keeps the digits that the difference loses.
        """,
        source=LOGISTIC,
        domain="real",
    ),
    law(
        "tanh_of_exponentials",
        (A.exp() - (-A).exp()) / (A.exp() + (-A).exp()),
        A.tanh(),
        also=(
            _of_growth((A * 2).exp()),
            ("div", 1 - (A * -2).exp(), (A * -2).exp() + 1),
            ("div", (A * 2).expm1(), (A * 2).exp() + 1),
        ),
        doc="""
        A hyperbolic tangent by exponentials is named.

        (exp(a) - exp(-a)) / (exp(a) + exp(-a))  or  (exp(2 a) - 1) / (exp(2 a) + 1)  ->  tanh(a)
        For floats; it even holds where an exponential overflows.
        """,
        source=HYPERBOLIC,
        domain="real",
    ),
    law(
        "log_of_sigmoid",
        A.sigmoid().log(),
        -((-A).function("softplus")),
        also=(A.minimum(0) - (-A.abs()).exp().log1p(),),
        doc="""
        The logarithm of a logistic function is a smooth rectifier.

        log(sigmoid(a))  or  min(a, 0) - log(1 + exp(-|a|))  ->  -softplus(-a)
        For floats: it is a where the logistic function underflows.
        """,
        source=LOGISTIC,
        domain="real",
    ),
    law(
        "relu_of_abs",
        Chain("mul", (A.abs() + A, HALF)),
        A.relu(),
        also=(Chain("add", (Chain("mul", (A.abs(), HALF)), Chain("mul", (A, HALF)))),),
        doc="""
        Half the sum of a value and its absolute value is its rectification.

        (a + |a|) / 2  ->  relu(a)
        For floats.
        """,
        source=CASES,
        domain="real",
    ),
    law(
        "abs_of_root",
        A.square().sqrt(),
        A.abs(),
        doc="""
        The root of a square is the absolute value.

        sqrt(a^2)  ->  |a|
        For floats: it even holds where the square overflows or underflows.
        """,
        source="definition of the square root",
        domain="real",
    ),
    law(
        "square_abs",
        A.abs().square(),
        A.square(),
        doc="""
        A square does not see the sign.

        |a|^2  ->  a^2
        For numbers of one type: of a complex value the two differ in type as well.
        """,
        source="laws of signs",
    ),
)
