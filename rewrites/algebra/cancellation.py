"""Cancellation rules: remove operations that undo or repeat each other inside an expression."""

from __future__ import annotations

import math

from tapestry.rewrites.elements import A, B, C, T
from tapestry.rewrites.laws import law
from tapestry.rewrites.rule import Rule

FIELD = "axioms of a field"
BOOLE = "Boolean algebra"
STEP = "case analysis of a conditional"

CANCELLATION: tuple[Rule, ...] = (
    law(
        "neg_neg",
        -(-A),  # noqa: B002
        A,
        doc="""
        A double negation disappears.

        -(-a)  ->  a
        Always: the sign bit flips twice; two's complement wraps twice.
        """,
        source=FIELD,
    ),
    law(
        "not_not",
        ~~A,
        A,
        doc="""
        A double logical negation disappears.

        not (not a)  ->  a
        Only where `a` is a bool already: of a number it would be `a != 0`.
        """,
        source=BOOLE,
        types={"a": "bool"},
    ),
    law(
        "reciprocal_reciprocal",
        A.reciprocal().reciprocal(),
        A,
        doc="""
        A double reciprocal disappears.

        1 / (1 / a)  ->  a
        For floats, up to rounding; an integer reciprocal truncates.
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "add_zero",
        A + 0,
        A,
        doc="""
        Adding zero disappears.

        a + 0  ->  a
        Where the constant does not widen the type; equal but for the sign of zero.
        """,
        source=FIELD,
    ),
    law(
        "sub_zero",
        A - 0,
        A,
        doc="""
        Subtracting zero disappears.

        a - 0  ->  a
        Where the constant does not widen the type.
        """,
        source=FIELD,
    ),
    law(
        "mul_one",
        A * 1,
        A,
        doc="""
        Multiplying by one disappears.

        a * 1  ->  a
        Where the constant does not widen the type.
        """,
        source=FIELD,
    ),
    law(
        "div_one",
        A / 1,
        A,
        doc="""
        Dividing by one disappears.

        a / 1  ->  a
        Where the constant does not widen the type.
        """,
        source=FIELD,
    ),
    law(
        "pow_one",
        A**1,
        A,
        doc="""
        The first power disappears.

        a ** 1  ->  a
        Where the constant does not widen the type.
        """,
        source=FIELD,
    ),
    law(
        "add_sub",
        A + B - B,
        A,
        doc="""
        Adding and subtracting the same disappears.

        (a + b) - b  ->  a
        For real numbers; integers wrap around and back. Floats get more exact.
        """,
        source=FIELD,
        domain="real",
        holds_for="numbers",
    ),
    law(
        "sub_add",
        A - B + B,
        A,
        doc="""
        Subtracting and adding the same disappears.

        (a - b) + b  ->  a
        For real numbers; integers wrap around and back. Floats get more exact.
        """,
        source=FIELD,
        domain="real",
        holds_for="numbers",
    ),
    law(
        "mul_div",
        A * B / B,
        A,
        doc="""
        Multiplying and dividing by the same disappears.

        (a * b) / b  ->  a
        For floats, where b is finite and not zero (the left side is no number elsewhere, the right one is a).
        """,
        source=FIELD,
        domain="real",
    ),
    law(
        "log_exp",
        A.exp().log(),
        A,
        doc="""
        The logarithm of an exponential disappears.

        log(exp(a))  ->  a
        For floats; it even holds where the exponential would overflow.
        """,
        source="definition of the logarithm",
        domain="real",
    ),
    law(
        "log_exp2",
        A.function("exp2").log(),
        A * math.log(2),
        doc="""
        The logarithm of a power of two is a scale.

        log(2 ** a)  ->  a log(2)
        For floats; it even holds where the power would overflow.
        """,
        source="definition of the logarithm",
        domain="real",
    ),
    law(
        "cast_same",
        A.cast(T),
        A,
        doc="""
        A cast to the type a value has already disappears.

        cast[t](a)  ->  a
        Where `a` is of type t.
        """,
        source="definition of a cast",
    ),
    law(
        "cast_twice",
        A.cast(T).cast(T),
        A.cast(T),
        doc="""
        A repeated cast disappears.

        cast[t](cast[t](a))  ->  cast[t](a)
        Always: the second changes nothing.
        """,
        source="definition of a cast",
        types={"a": "float64"},
    ),
    law(
        "identity",
        A.function("identity"),
        A,
        doc="""
        The identity function disappears.

        identity(a)  ->  a
        Always.
        """,
        source="definition of the identity",
    ),
    law(
        "relu_relu",
        A.relu().relu(),
        A.relu(),
        doc="""
        A repeated rectifier disappears.

        relu(relu(a))  ->  relu(a)
        Always: a projection is idempotent.
        """,
        source="idempotence of a projection",
    ),
    law(
        "abs_abs",
        abs(abs(A)),
        abs(A),
        doc="""
        A repeated absolute value disappears.

        |(|a|)|  ->  |a|
        Always: a projection is idempotent.
        """,
        source="idempotence of a projection",
    ),
    law(
        "abs_neg",
        abs(-A),
        abs(A),
        doc="""
        A negation under an absolute value disappears.

        |-a|  ->  |a|
        For floats; an unsigned negative wraps around.
        """,
        source="definition of the absolute value",
        holds_for="floats",
    ),
    law(
        "square_neg",
        (-A).square(),
        A.square(),
        doc="""
        A negation under a square disappears.

        (-a)^2  ->  a^2
        Always.
        """,
        source=FIELD,
    ),
    law(
        "where_same",
        C.where(A, A),
        A,
        doc="""
        A choice between equals disappears.

        c ? a : a  ->  a
        Always.
        """,
        source=STEP,
        types={"c": "bool"},
    ),
    law(
        "where_nested",
        C.where(C.where(A, B), B),
        C.where(A, B),
        doc="""
        A choice that was made already is not made again.

        c ? (c ? a : b) : b  ->  c ? a : b
        Always: inside the first branch c holds.
        """,
        source=STEP,
        types={"c": "bool"},
    ),
)
