"""Recognition of expanded operators: softmax, its logarithm, sums in the logarithmic domain.

Exports and traced programs write them as reductions and cells. The normalized dimensions are any group of
dimensions, and operations on the result in the same cell stay around it. Not for saturation: a search that
expands an operator, to split its rows or to fuse its parts, shall keep what it chose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tapestry.rewrites.algebra.normalizations import NORMALIZATIONS
from tapestry.rewrites.algebra.reductions import SQUARES
from tapestry.rewrites.algebra.sinks import SINKS
from tapestry.rewrites.algebra.units import SPELLED_UNITS
from tapestry.rewrites.equations import equation
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph

SOFTMAX = "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2"
LOG_SUM = "Blanchard, Higham and Higham, Accurately computing the log-sum-exp, 2021"

ROWS = {"x": "m k"}


def _exponential(x: Any) -> Any:
    return (x - x.max("k")).exp()


def _finite(peak: Any) -> Any:
    return peak.is_inf().where(0.0, peak)


def _finite_number(peak: Any) -> Any:
    return (peak.is_inf() | peak.is_nan()).where(0.0, peak)


def _same(x: Any) -> Any:
    return x


def _absolute(x: Any) -> Any:
    return x.abs()


def _guarded_sum(peak: Callable[[Any], Any], total: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a pattern of a sum in the logarithmic domain with these functions of maximum and sum."""

    def left(x: Any) -> Any:
        m = peak(x.max("k"))
        return m + total((x - m).exp().sum("k")).log()

    return left


def _sum_guarded_in_cells(x: Any) -> Any:
    m = x.max("k")
    total = x.fused("exp", lambda a, peak: (a - _finite(peak)).exp(), m).sum("k")
    return total.fused("log", lambda a, peak: a.log() + _finite(peak), m)


def _is_exponential(m: Match) -> bool:
    """Return whether a cell computes `e` as exponentials, for the matched blocks only."""
    producer = m.edited.producers[m["e"]]
    if (
        producer.operator != "cell"
        or producer.definition["expr"][0] not in ("exp", "exp2")
        or not is_float(m.dtype("e"))
    ):
        return False
    return all(reader in m.blocks for reader, _ in m.edited.readers[m["e"]])


def _exponentials_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("softmax_of_exponentials")
    x = b.tensor("x", size(3, least=2), size(4, least=2))
    e = b.cell(("exp", ("mul", ("input", 0), ("const", 0.25))), {x: "mk"}, site="e")
    s = b.op("reduce", e, monoid="sum", labels=("m", "k"), output=("m",))
    return b.result(b.cell(("div", ("input", 0), ("input", 1)), {e: "mk", s: "m"}))


def _reciprocal_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("softmax_of_exponentials_by_reciprocal")
    x = b.tensor("x", size(3, least=2), size(4, least=2))
    e = b.cell(("exp2", ("mul", ("input", 0), ("const", 0.25))), {x: "mk"}, site="e")
    s = b.op("reduce", e, monoid="sum", labels=("m", "k"), output=("m",))
    r = b.cell(("reciprocal", ("input", 0)), {s: "m"})
    return b.result(b.cell(("mul", ("input", 0), ("input", 1)), {e: "mk", r: "m"}))


RECOMPOSITION: tuple[Rule, ...] = (
    equation(
        "softmax_of_parts",
        left=lambda x: _exponential(x) / _exponential(x).sum("k"),
        right=lambda x: x.softmax("k"),
        tensors=ROWS,
        doc="""
        A spelled out softmax is named.

        e / sum_k e with e = exp(x - max_k x)  ->  softmax_k(x)
        Over any dimensions: it is the definition, computed so that nothing overflows.
        """,
        source=SOFTMAX,
    ),
    *(
        replace(
            equation(
                f"softmax_of_exponentials{suffix}",
                left=left,
                right=lambda e: e.log().softmax("k"),
                tensors={"e": "m k"},
                when=_is_exponential,
                context_depth=1,
                doc=f"""
        Exponentials over their sum are a softmax of what stood in the exponent.

        {form}  ->  softmax_k(log e)
        Where a cell makes e as an exponential, which nobody else reads: its logarithm falls away. A shift of all
        exponents cancels, so where one overflows this is even right; exponents are finite or minus infinity.
        """,
                source=SOFTMAX,
            ),
            example=example,
        )
        for suffix, left, form, example in (
            ("", lambda e: e / e.sum("k"), "e / sum_k e", _exponentials_example),
            (
                "_by_reciprocal",
                lambda e: e * e.sum("k").reciprocal(),
                "e (1 / sum_k e)",
                _reciprocal_example,
            ),
        )
    ),
    equation(
        "gradient_of_quotient",
        left=lambda e, s, g: (g / s - (g * e * s.square().reciprocal()).sum("k")) * e,
        right=lambda e, s, g: (g - (g * (e / s)).sum("k")) * (e / s),
        tensors={"e": "m k", "s": "m", "g": "m k"},
        doc="""
        The derivative of a softmax, traced by the rule of quotients, reads the softmax only.

        (g / s - sum_k (g e / s^2)) e  ->  (g - sum_k (g y)) y with y = e / s
        Over any dimensions. The quotient is what the forward pass has; what it is made of need not be kept.
        """,
        source="rule of quotients",
    ),
    equation(
        "gradient_of_negated_quotient",
        left=lambda e, s, g: (g / s + -(g * e * s.square().reciprocal()).sum("k")) * e,
        right=lambda e, s, g: (g - (g * (e / s)).sum("k")) * (e / s),
        tensors={"e": "m k", "s": "m", "g": "m k"},
        doc="""
        The derivative of a softmax, traced by the rule of quotients, reads the softmax only.

        (g / s + (-sum_k (g e / s^2))) e  ->  (g - sum_k (g y)) y with y = e / s
        Over any dimensions. As `gradient_of_quotient`, the sign apart, as transposed programs have it.
        """,
        source="rule of quotients",
    ),
    equation(
        "log_softmax_of_parts",
        left=lambda x: (x - x.max("k")) - _exponential(x).sum("k").log(),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        A spelled out logarithmic softmax is named.

        d - log(sum_k exp(d)) with d = x - max_k x  ->  log_softmax_k(x)
        Over any dimensions: it is the definition.
        """,
        source=SOFTMAX,
    ),
    equation(
        "log_softmax_of_sum",
        left=lambda x: x - x.logsumexp("k"),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        A value less the logarithm of its row's sum of exponentials is a logarithmic softmax.

        x - logsumexp_k(x)  ->  log_softmax_k(x)
        Over any dimensions: it is the definition.
        """,
        source=SOFTMAX,
    ),
    equation(
        "log_of_softmax",
        left=lambda x: x.softmax("k").log(),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        The logarithm of a softmax is one operator.

        log(softmax_k(x))  ->  log_softmax_k(x)
        Over any dimensions: where a probability underflows it is even right.
        """,
        source=SOFTMAX,
    ),
    equation(
        "exp_of_log_softmax",
        left=lambda x: x.log_softmax("k").exp(),
        right=lambda x: x.softmax("k"),
        tensors=ROWS,
        doc="""
        The exponential of a logarithmic softmax is one operator.

        exp(log_softmax_k(x))  ->  softmax_k(x)
        Over any dimensions, where nobody else reads the logarithms.
        """,
        source=SOFTMAX,
    ),
    equation(
        "logsumexp_of_exponentials",
        left=lambda x: x.exp().sum("k").log(),
        right=lambda x: x.logsumexp("k"),
        tensors=ROWS,
        doc="""
        The logarithm of a sum of exponentials is one reduction.

        log(sum_k exp(x))  ->  logsumexp_k(x)
        Over any dimensions: where an exponential overflows it is even right; exponents are finite or minus infinity.
        """,
        source=LOG_SUM,
    ),
    equation(
        "logsumexp_of_parts",
        left=lambda x: x.max("k") + _exponential(x).sum("k").log(),
        right=lambda x: x.logsumexp("k"),
        tensors=ROWS,
        doc="""
        A spelled out sum in the logarithmic domain is one reduction.

        m + log(sum_k exp(x - m)) with m = max_k x  ->  logsumexp_k(x)
        Over any dimensions, of finite maxima.
        """,
        source=LOG_SUM,
    ),
    *(
        equation(
            f"logsumexp_of_finite_parts{suffix}",
            left=left,
            right=lambda x: x.logsumexp("k"),
            tensors=ROWS,
            doc=f"""
            A sum in the logarithmic domain that minds infinite maxima is one reduction.

            m + log({form}) with m = max_k x where that is {what}, else 0  ->  logsumexp_k(x)
            Over any dimensions: the operator minds them too.
            """,
            source=LOG_SUM,
        )
        for suffix, left, form, what in (
            ("", _guarded_sum(_finite, _same), "sum_k exp(x - m)", "finite"),
            ("_of_numbers", _guarded_sum(_finite_number, _absolute), "|sum_k exp(x - m)|", "a finite number"),
            ("_in_cells", _sum_guarded_in_cells, "sum_k exp(x - m)", "finite, in each cell anew,"),
        )
    ),
    *(
        equation(
            f"{name}_of_shifted",
            left=left,
            right=right,
            tensors={"x": "m k", "r": "m"},
            doc=f"""
            A shift of a whole row cancels.

            {form}
            Over any dimensions, where r is one finite number for a row: the operator takes its own maximum away.
            """,
            source=LOG_SUM,
        )
        for name, left, right, form in (
            (
                "softmax",
                lambda x, r: (x - r).softmax("k"),
                lambda x: x.softmax("k"),
                "softmax_k(x - r)  ->  softmax_k(x)",
            ),
            (
                "log_softmax",
                lambda x, r: (x - r).log_softmax("k"),
                lambda x: x.log_softmax("k"),
                "log_softmax_k(x - r)  ->  log_softmax_k(x)",
            ),
            (
                "logsumexp",
                lambda x, r: (x - r).logsumexp("k") + r,
                lambda x: x.logsumexp("k"),
                "logsumexp_k(x - r) + r  ->  logsumexp_k(x)",
            ),
        )
    ),
    equation(
        "softmax_of_scaled_shifted",
        left=lambda x, r, scale: ((x - r) * scale).softmax("k"),
        right=lambda x, scale: (x * scale).softmax("k"),
        tensors={"x": "m k", "r": "m"},
        numbers={"scale": 0.75},
        doc="""
        A shift of a whole row cancels, scaled as well.

        softmax_k((x - r) c)  ->  softmax_k(x c)
        Over any dimensions, where r is one finite number for a row: kernels that compute by powers of two scale so.
        """,
        source=LOG_SUM,
    ),
    *SQUARES,
    *SINKS,
    *NORMALIZATIONS,
    *SPELLED_UNITS,
)
