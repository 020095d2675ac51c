"""Recognition of expanded activations that take no more flops than the function has by definition.

Hardware and libraries know a unit by its name, and it is computed without overflow. As saturation only makes
programs cheaper, these laws are not for it; they are applied with the other recompositions.
"""

from __future__ import annotations

from tapestry.rewrites.algebra.activations import CUBIC, DISTRIBUTED, MULTIPLIED_OUT, ROOT, UNITS, gated, near
from tapestry.rewrites.elements import A
from tapestry.rewrites.laws import law
from tapestry.rewrites.rule import Rule

DISTRIBUTED_UNIT = (*gated(("tanh", DISTRIBUTED)), *gated(("tanh", MULTIPLIED_OUT)))
LOGISTIC_UNIT = gated((A * 0.5).tanh())

SPELLED_UNITS: tuple[Rule, ...] = (
    law(
        "gelu_tanh_of_distributed",
        DISTRIBUTED_UNIT[0],
        A.function("gelu_tanh"),
        when=near(k=CUBIC * ROOT, j=ROOT),
        constants={"k": CUBIC * ROOT, "j": ROOT},
        also=DISTRIBUTED_UNIT[1:],
        doc="""
        A spelled out approximate Gaussian error linear unit is named, its constants multiplied out.

        a (tanh(a (a^2 0.0357 + sqrt(2 / pi))) + 1) / 2  ->  gelu_tanh(a)
        For floats, wherever the factors stand; constants may be rounded. Not for saturation: one flop more.
        """,
        source=UNITS,
        domain="real",
        saturating=False,
    ),
    law(
        "silu_of_tanh",
        LOGISTIC_UNIT[0],
        A.function("silu"),
        also=LOGISTIC_UNIT[1:],
        doc="""
        A value times its own logistic function, written by a hyperbolic tangent, is named.

        a (tanh(a / 2) + 1) / 2  ->  silu(a)
        For floats, wherever the factors stand: tanh(a / 2) = 2 sigmoid(a) - 1. Not for saturation: two flops more.
        """,
        source="Ramachandran, Zoph and Le, Searching for Activation Functions, 2017 (swish)",
        domain="real",
        saturating=False,
    ),
)
