"""Local expansions: an operator in terms of simpler ones, whose parts can be sharded, fused and merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from rewrites.cell_form import INPUT, MULTIPLY, Labels, dim_labels, pointwise
from rewrites.rule import Match, Op, Rule, Sizes, attr, case, op, pick, rest, tensor
from rewrites.sketch import Sketch
from teg.graph import Graph
from teg.operators.expressions import Expression
from teg.operators.monoids import HALF, accumulation

X, W = tensor("x"), tensor("w")
SOFTMAX = "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2"

# An intermediate tensor is small where it has at most so many elements per element read and written.
SMALL_FACTOR = 4


def _wide(m: Match) -> str:
    """The element type in which sums over `x` are accumulated."""
    return str(accumulation(m.dtype("x")))


def _cast(name: str, k: int) -> Expression:
    return ("cast", name, ("input", k))


# `x` in the element type of sums: halves are widened once, the others read as they are.
WIDE_X = case(
    lambda m: m.dtype("x") in HALF,
    op(
        "cell",
        X,
        given=lambda m: pointwise(INPUT, (dim_labels(len(m.shape("x"))),), m.shape("x"), _wide(m)),
    ).named("wide"),
    X,
)


def _names(m: Match) -> Labels:
    return dim_labels(len(m.shape("x")))


def _kept(m: Match) -> Labels:
    """The names of the dimensions that a normalisation leaves parallel."""
    names = _names(m)
    whole = {a % len(names) for a in m["axes"]}
    return tuple(n for k, n in enumerate(names) if k not in whole)


def _row_cell(m: Match, expr: Expression, dtype: str, row_reads: int = 1) -> Mapping[str, Any]:
    """A cell over `x` and one value per row (`row_reads` of them)."""
    return pointwise(expr, (_names(m), *(_kept(m),) * row_reads), m.shape("x"), dtype)


def _reduce_rows(term: Any, monoid: str, role: str, scale: Any = None) -> Op:
    """A reduction of the normalised dimensions."""
    return op("reduce", term, monoid=monoid, labels=_names, output=_kept, scale=scale).named(role)


DIFFERENCE = ("sub", ("input", 0), ("input", 1))
PEAK = _reduce_rows(WIDE_X, "max", "max")
EXPONENTIAL = op("cell", WIDE_X, PEAK, given=lambda m: _row_cell(m, ("exp", DIFFERENCE), _wide(m))).named(
    "exp"
)


def _mean_scale(m: Match) -> float:
    return 1.0 / int(math.prod(m.shape("x")[a] for a in m["axes"]))


MEAN = _reduce_rows(WIDE_X, "sum", "mean", _mean_scale)
CENTRED = op("cell", WIDE_X, MEAN, given=lambda m: _row_cell(m, DIFFERENCE, _wide(m))).named("centred")
SQUARE = op("cell", CENTRED, given=lambda m: _row_cell(m, ("square", INPUT), _wide(m), 0)).named("square")
VARIANCE = _reduce_rows(SQUARE, "sum", "variance", _mean_scale)


def _normalised(m: Match) -> Mapping[str, Any]:
    """(centred) rsqrt(variance + eps), times scale, plus bias, as far as these are there."""
    expr: Expression = ("mul", INPUT, ("rsqrt", ("add", ("input", 1), ("const", m["eps"]))))
    for k, name in enumerate(("mul", "add")[: len(m["affine"])]):
        expr = (name, expr, _cast(_wide(m), 2 + k))
    names, kept = _names(m), _kept(m)
    vector = tuple(n for n in names if n not in kept)
    return pointwise(expr, (names, kept, *(vector,) * len(m["affine"])), m.shape("x"), m.dtype("x"))


def _sizes(m: Match) -> dict[str, int]:
    """The size of every name of a contraction."""
    types = m.types("xs")
    return {
        n: s for names, t in zip(m["labels"], types, strict=True) for n, s in zip(names, t.shape, strict=True)
    }


def _elements(shape: Sequence[int]) -> int:
    return math.prod(shape)


def _is_small_product(m: Match) -> bool:
    """Whether two operands are multiplied to something not much larger than all that is read and written."""
    if len(m["xs"]) != 2 or len({t.dtype for t in m.types("xs")}) != 1:
        return False
    sizes = _sizes(m)
    moved = sum(_elements(t.shape) for t in (*m.types("xs"), m.result()))
    return math.prod(sizes.values()) <= SMALL_FACTOR * moved and len(sizes) > len(m["output"])


def _product(m: Match) -> Mapping[str, Any]:
    wide = str(accumulation(m.types("xs")[0].dtype))
    expr = ("mul", _cast(wide, 0), _cast(wide, 1)) if m.result().dtype in HALF else MULTIPLY
    return {"expr": expr, "labels": m["labels"], "dims": tuple(_sizes(m).items()), "dtype": wide}


SUMMED = op(
    "reduce",
    op("cell", rest("xs"), given=_product).named("product"),
    monoid="sum",
    labels=lambda m: tuple(_sizes(m)),
    output=attr("output"),
).named("sum")


def _narrowed(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.result()
    return pointwise(INPUT, (dim_labels(len(shape)),), shape, dtype)


def _pair(m: Match) -> tuple[int, int]:
    i, j = m.choice.split(",")
    return int(i), int(j)


def _others(m: Match) -> list[int]:
    return [k for k in range(len(m["xs"])) if k not in _pair(m)]


def _pair_output(m: Match) -> Labels:
    """The names of a pair that are seen outside it."""
    outside = {*m["output"], *(n for k in _others(m) for n in m["labels"][k])}
    i, j = _pair(m)
    return tuple(n for n in dict.fromkeys((*m["labels"][i], *m["labels"][j])) if n in outside)


def _reduced(m: Match) -> list[str]:
    return [n for n in m["labels"] if n not in m["output"]]


def _without_choice(m: Match) -> Labels:
    return tuple(n for n in m["labels"] if n != m.choice)


def _log_sum_exp_kept(m: Match) -> list[int]:
    """The positions of the result's dimensions that are not inserted."""
    return [k for k in range(len(m.result().shape)) if k not in (m["keep"] or ())]


def _log_sum(m: Match) -> Mapping[str, Any]:
    shape = m.result().shape
    labels = tuple(dim_labels(len(shape))[k] for k in _log_sum_exp_kept(m))
    return pointwise(("add", ("log", INPUT), _finite(1)), (labels, labels), shape, m.dtype("x"))


def _finite(k: int) -> Expression:
    """Input k where it is finite, else 0: a row of infinities has no maximum to subtract."""
    return ("where", ("is_inf", ("input", k)), ("const", 0.0), ("input", k))


def _shifted(m: Match) -> Mapping[str, Any]:
    dims = tuple(zip(m["labels"], m.shape("x"), strict=True))
    expr = ("exp", ("sub", INPUT, _finite(1)))
    return {"expr": expr, "labels": (m["labels"], m["output"]), "dims": dims, "dtype": _wide(m)}


ROW_PEAK = op("reduce", WIDE_X, monoid="max", labels=attr("labels"), output=attr("output")).named("max")
ROW_SUM = op(
    "reduce",
    op("cell", WIDE_X, ROW_PEAK, given=_shifted).named("exp"),
    monoid="sum",
    labels=attr("labels"),
    output=attr("output"),
).named("sum")


def _softmax_example(name: str, operator: str) -> Any:
    def example(size: Sizes) -> Graph:
        b = Sketch(name)
        x = b.tensor("x", size(2), size(3), size(4))
        return b.result(b.op(operator, x, axes=(1, 2)))

    return example


def _layer_norm_example(size: Sizes) -> Graph:
    b = Sketch("expand_layer_norm")
    x = b.tensor("x", size(3), size(2), size(4))
    affine = [b.tensor(n, b.shape(x)[2], role="parameter") for n in ("scale", "bias")]
    results = [b.op("layer_norm", x, *affine[:k], axes=(2,), eps=1e-5) for k in range(3)]
    return b.result(*results)


def _product_example(size: Sizes) -> Graph:
    b = Sketch("expand_contract")
    x = b.tensor("x", size(3), size(4))
    return b.result(b.contract("bk,k->b", x, b.tensor("w", b.shape(x)[1])))


def _order_example(size: Sizes) -> Graph:
    b = Sketch("order_contract")
    a, c = b.tensor("a", size(3), size(2)), b.tensor("c", size(4), size(5))
    d = b.tensor("d", b.shape(a)[1], b.shape(c)[0])
    return b.result(b.contract("ij,kl,jk->li", a, c, d))


def _split_example(size: Sizes) -> Graph:
    b = Sketch("split_reduce")
    x = b.tensor("x", size(3), size(4), size(2))
    means = b.op("reduce", x, monoid="sum", labels=("a", "b", "c"), output=("b",), keep=(0,), scale=0.125)
    peaks = b.op("reduce", x, monoid="max", labels=("a", "b", "c"), output=())
    return b.result(means, peaks)


def _log_sum_exp_example(size: Sizes) -> Graph:
    b = Sketch("expand_logsumexp")
    x = b.tensor("x", size(3), size(4))
    return b.result(
        b.op("reduce", x, monoid="logsumexp", labels=("a", "b"), output=("a",), keep=(1,)),
        b.op("reduce", x, monoid="logsumexp", labels=("a", "b"), output=("b",)),
    )


DEFINITIONS: tuple[Rule, ...] = (
    Rule(
        name="expand_softmax",
        left=op("softmax", X, axes=attr("axes")),
        right=op(
            "cell",
            EXPONENTIAL,
            _reduce_rows(EXPONENTIAL, "sum", "sum"),
            given=lambda m: _row_cell(m, ("div", ("input", 0), ("input", 1)), m.dtype("x")),
        ).named("quotient"),
        doc="""
        A softmax becomes cells and reductions, so that its rows can be split.

        softmax(x)  ->  e / sum(e) with e = exp(x - max(x))
        Always: it is the safe definition; halves are computed in float32, as by the operator.
        """,
        source=SOFTMAX,
        example=_softmax_example("expand_softmax", "softmax"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_log_softmax",
        left=op("log_softmax", X, axes=attr("axes")),
        right=op(
            "cell",
            WIDE_X,
            _reduce_rows(WIDE_X, "logsumexp", "logsumexp"),
            given=lambda m: _row_cell(m, DIFFERENCE, m.dtype("x")),
        ).named("difference"),
        doc="""
        A logarithmic softmax becomes a cell and a reduction, so that its rows can be split.

        log_softmax(x)  ->  x - logsumexp(x)
        Always: it is the definition.
        """,
        source=SOFTMAX,
        example=_softmax_example("expand_log_softmax", "log_softmax"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_layer_norm",
        left=op("layer_norm", X, rest("affine"), axes=attr("axes"), eps=attr("eps")),
        right=op("cell", CENTRED, VARIANCE, rest("affine"), given=_normalised).named("normalised"),
        when=lambda m: len(m["affine"]) <= 2,
        doc="""
        A layer normalisation becomes mean, variance and cells, so that its rows can be split.

        layer_norm(x, scale?, bias?)  ->  c rsqrt(mean(c^2) + eps) scale + bias with c = x - mean(x)
        With or without scale and bias; halves are computed in float32, as by the operator.
        """,
        source="Ba, Kiros and Hinton, Layer Normalization, 2016, equation 3",
        example=_layer_norm_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_logsumexp",
        left=op(
            "reduce",
            X,
            monoid="logsumexp",
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
        ),
        right=op("cell", ROW_SUM, ROW_PEAK, given=_log_sum).named("log"),
        when=lambda m: len(m["output"]) < len(m["labels"]),
        doc="""
        A sum in the logarithmic domain becomes a maximum and a sum of exponentials.

        logsumexp(x)  ->  log(sum(exp(x - m))) + m with m = max(x)
        Always; where the maximum is infinite nothing is subtracted.
        """,
        source="Blanchard, Higham and Higham, Accurately computing the log-sum-exp, 2021, algorithm 3.1",
        example=_log_sum_exp_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=case(
            lambda m: m.result().dtype in HALF, op("cell", SUMMED, given=_narrowed).named("narrow"), SUMMED
        ),
        when=_is_small_product,
        doc="""
        A contraction of two operands becomes their product and its sum.

        x w  ->  sum_k (x[m, k] w[k, n])
        Only where the product is small against what is read and written anyhow, as for matrix times vector.
        """,
        source="definition of a contraction",
        example=_product_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="order_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=op(
            "contract",
            op(
                "contract",
                pick(lambda m: [m["xs"][k] for k in _pair(m)]),
                labels=lambda m: [m["labels"][k] for k in _pair(m)],
                output=_pair_output,
            ).named("pair"),
            pick(lambda m: [m["xs"][k] for k in _others(m)]),
            labels=lambda m: [_pair_output(m), *(m["labels"][k] for k in _others(m))],
            output=attr("output"),
        ),
        when=lambda m: len(m["xs"]) > 2 and len({t.dtype for t in m.types("xs")}) == 1,
        choices=lambda m: [f"{i},{j}" for i, j in combinations(range(len(m["xs"])), 2)],
        doc="""
        A contraction of many operands begins with two of them; which two is the choice.

        a b c  ->  (a b) c  or  (a c) b  or  a (b c)
        For three operands and more of one element type. Names that nobody else has are summed at once.
        """,
        source="Lam, Sadayappan and Wenger, On Optimizing a Class of Multi-Dimensional Loops with Reductions, 1997",
        example=_order_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="split_reduce",
        left=op(
            "reduce",
            X,
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=op(
            "reduce",
            op("reduce", X, monoid=attr("monoid"), labels=attr("labels"), output=_without_choice).named(
                "first"
            ),
            monoid=attr("monoid"),
            labels=_without_choice,
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        when=lambda m: len(_reduced(m)) > 1,
        choices=_reduced,
        doc="""
        A reduction of several dimensions becomes two steps; which dimension goes first is the choice.

        sum_{a, b} x  ->  sum_b (sum_a x)  or  sum_a (sum_b x)
        For two dimensions and more. A monoid does not care where brackets stand; the scale comes last.
        """,
        source="definition of a monoid",
        example=_split_example,
        kind="semantic",
        domain="real",
    ),
)
