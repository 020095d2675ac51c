"""Algebra of expressions: the same value by fewer or cheaper functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.elements import A, B, C, D, J, K, number
from tapestry.rewrites.laws import law
from tapestry.rewrites.patterns import Chain
from tapestry.rewrites.rule import Rule

FIELD = "axioms of a field"
POWERS = "laws of powers"
LATTICE = "max and min form a lattice"
STEP = "case analysis of a conditional"


def _invertible(bound: Mapping[str, Any]) -> bool:
    """Return whether 1 / k is a finite number."""
    k = bound["k"]
    return bool(k) and math.isfinite(k) and math.isfinite(1.0 / k)


EXPRESSIONS: tuple[Rule, ...] = (
    law(
        "add_neg",
        A + -B,
        A - B,
        doc="""
        Adding a negative is a subtraction.

        a + (-b)  ->  a - b
        Always.
        """,
        source=FIELD,
    ),
    law(
        "sub_neg",
        A - -B,
        A + B,
        doc="""
        Subtracting a negative is an addition.

        a - (-b)  ->  a + b
        Always.
        """,
        source=FIELD,
    ),
    law(
        "mul_neg_neg",
        -A * -B,
        A * B,
        doc="""
        Two signs in a product cancel.

        (-a) (-b)  ->  a b
        Always.
        """,
        source=FIELD,
    ),
    law(
        "scale_scale",
        A * K * J,
        A * number(lambda e: e["k"] * e["j"]),
        doc="""
        Two scales in a row become one.

        (a k) j  ->  a (k j)
        For floats and constants; the product of the constants is rounded once.
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "shift_shift",
        A + K + J,
        A + number(lambda e: e["k"] + e["j"]),
        doc="""
        Two shifts in a row become one.

        (a + k) + j  ->  a + (k + j)
        For floats and constants; the sum of the constants is rounded once.
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "div_constant",
        A / K,
        A * number(lambda e: 1.0 / e["k"]),
        doc="""
        Dividing by a constant is scaling by its reciprocal.

        a / k  ->  a (1 / k)
        For floats and a constant whose reciprocal is finite: a product costs a quarter of a quotient.
        """,
        source=FIELD,
        domain="real",
        when=_invertible,
        constants={"k": 8.0},
    ),
    law(
        "div_of_one",
        1 / A,
        A.reciprocal(),
        doc="""
        One divided by something is its reciprocal.

        1 / a  ->  reciprocal(a)
        For floats (an integer division truncates).
        """,
        source="definition of the reciprocal",
        domain="real",
    ),
    law(
        "mul_reciprocal",
        A * B.reciprocal(),
        A / B,
        doc="""
        Multiplying by a reciprocal is a division.

        a (1 / b)  ->  a / b
        For floats: one rounding instead of two.
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "div_reciprocal",
        A / B.reciprocal(),
        A * B,
        doc="""
        Dividing by a reciprocal is a multiplication.

        a / (1 / b)  ->  a b
        For floats, where b is finite and not zero.
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "reciprocal_sqrt",
        A.sqrt().reciprocal(),
        A.rsqrt(),
        also=(A.reciprocal().sqrt(),),
        doc="""
        The reciprocal of a square root is one function.

        1 / sqrt(a)  or  sqrt(1 / a)  ->  rsqrt(a)
        For floats, finite where they are below zero; vector units have it as one instruction.
        """,
        source="definition of rsqrt",
        domain="real",
    ),
    law(
        "square",
        A * A,
        A.square(),
        doc="""
        A value times itself is its square.

        a a  ->  a^2
        Always: one operand instead of two.
        """,
        source="definition of the square",
    ),
    law(
        "pow_two",
        A**2,
        A.square(),
        doc="""
        The second power is a square.

        a ** 2  ->  a^2
        Where the constant does not widen the type.
        """,
        source=POWERS,
        domain="real",
        holds_for="numbers",
        constants={"k": 2.0},
    ),
    law(
        "pow_half",
        A**0.5,
        A.sqrt(),
        doc="""
        The power one half is a square root.

        a ** 0.5  ->  sqrt(a)
        For floats; neither is a number below zero.
        """,
        source=POWERS,
        domain="real",
    ),
    law(
        "pow_minus_half",
        A**-0.5,
        A.rsqrt(),
        doc="""
        The power minus one half is the reciprocal of a square root.

        a ** -0.5  ->  rsqrt(a)
        For floats, finite where they are below zero: neither is a number there.
        """,
        source=POWERS,
        domain="real",
    ),
    law(
        "pow_minus_one",
        A ** (-1),
        A.reciprocal(),
        doc="""
        The power minus one is a reciprocal.

        a ** -1  ->  1 / a
        For floats.
        """,
        source=POWERS,
        domain="real",
    ),
    law(
        "factor",
        A * C + B * C,
        (A + B) * C,
        doc="""
        A common factor is multiplied once.

        a c + b c  ->  (a + b) c
        For real numbers; integers wrap around alike.
        """,
        source="distributive law",
        domain="real",
        holds_for="numbers",
    ),
    law(
        "factor_of_difference",
        A * C - B * C,
        (A - B) * C,
        doc="""
        A common factor of a difference is multiplied once.

        a c - b c  ->  (a - b) c
        For numbers, finite or not; integers wrap around alike.
        """,
        source="distributive law",
        domain="real",
        holds_for="numbers",
    ),
    law(
        "factor_of_shifted_difference",
        A * C + (B - D * C),
        (A - D) * C + B,
        doc="""
        A common factor of a difference is multiplied once, whatever is added in between.

        a c + (b - d c)  ->  (a - d) c + b
        For floats: a normalization whose mean was multiplied by the scale, as frameworks write it.
        """,
        source="distributive law",
        domain="real",
    ),
    law(
        "factor_product",
        Chain("add", (Chain("mul", (A, C)), Chain("mul", (A, C, B)))),
        (B + 1) * (A * C),
        doc="""
        A product added to a multiple of itself is computed once.

        a c + a c b  ->  (b + 1) a c
        For floats, in any order; where the cell gets no dearer.
        """,
        source="distributive law",
        domain="real",
    ),
    law(
        "complement_of_sigmoid",
        1 - (-A).sigmoid(),
        A.sigmoid(),
        doc="""
        What a logistic function of a negative leaves of one is the logistic function.

        1 - sigmoid(-a)  ->  sigmoid(a)
        For floats: exact where the left side is small.
        """,
        source="definition of the logistic function",
        domain="real",
    ),
    law(
        "sigmoid",
        ((-A).exp() + 1).reciprocal(),
        A.sigmoid(),
        doc="""
        A spelled out logistic function is named.

        1 / (1 + exp(-a))  ->  sigmoid(a)
        For floats.
        """,
        source="definition of the logistic function",
        domain="real",
    ),
    law(
        "relu_of_max",
        A.maximum(0),
        A.relu(),
        doc="""
        The larger of a value and zero is its rectification.

        max(a, 0)  ->  relu(a)
        Where the constant does not widen the type.
        """,
        source="definition of the rectifier",
    ),
    law(
        "exp_log_sum",
        (A.exp() * B.exp()).log(),
        A + B,
        doc="""
        The logarithm of a product of exponentials is a sum.

        log(exp(a) exp(b))  ->  a + b
        For floats; it even holds where an exponential would overflow.
        """,
        source="laws of logarithms",
        domain="real",
    ),
    law(
        "max_bounds",
        A.maximum(K).maximum(J),
        A.maximum(number(lambda e: max(e["k"], e["j"]))),
        doc="""
        Of two lower bounds the larger one counts.

        max(max(a, k), j)  ->  max(a, max(k, j))
        Where the bounds are constants.
        """,
        source=LATTICE,
    ),
    law(
        "min_bounds",
        A.minimum(K).minimum(J),
        A.minimum(number(lambda e: min(e["k"], e["j"]))),
        doc="""
        Of two upper bounds the smaller one counts.

        min(min(a, k), j)  ->  min(a, min(k, j))
        Where the bounds are constants.
        """,
        source=LATTICE,
    ),
    law(
        "where_not",
        (~C).where(A, B),
        C.where(B, A),
        doc="""
        A negated condition exchanges the branches.

        (not c) ? a : b  ->  c ? b : a
        Always.
        """,
        source=STEP,
        types={"c": "bool"},
    ),
    law(
        "mask_scale",
        C.where(A, K) * J,
        C.where(A * J, number(lambda e: e["k"] * e["j"])),
        doc="""
        A scale moves through a mask onto the values that pass.

        (c ? a : k) j  ->  c ? (a j) : (k j)
        For floats; the masked constant is scaled once and for all. Not for saturation: it saves nothing by
        itself, but lets the scale meet what is behind the mask.
        """,
        source=STEP,
        domain="real",
        types={"c": "bool"},
        saturating=False,
    ),
    law(
        "mask_mask",
        C.where(B.where(A, K), K),
        (B & C).where(A, K),
        doc="""
        Two masks with one fill value become one.

        c ? (b ? a : k) : k  ->  (b and c) ? a : k
        Always. Not for saturation: it exchanges a choice for a conjunction.
        """,
        source=STEP,
        types={"c": "bool", "b": "bool"},
        saturating=False,
    ),
)
