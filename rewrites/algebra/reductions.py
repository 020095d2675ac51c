"""Algebra of reductions: steps merged into one, scales absorbed into the reduction."""

from __future__ import annotations

from tapestry.rewrites.cell_form import INPUT, Labels, any_cell, dim_labels, element_type, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, sure
from tapestry.rewrites.laws import Whole
from tapestry.rewrites.patterns import K, chained, parts_of, replaced, terms_of
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.teg.dtypes import HALF, is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression, inputs_of

X = tensor("x")
MONOID = "definition of a monoid"


def _scale(m: Match, name: str) -> float:
    return 1.0 if m[name] is None else float(m[name])


def _inner_names(m: Match, names: Labels) -> Labels:
    """Translate the outer reduction's names to those of the inner one."""
    return tuple(m["inner_output"][m["labels"].index(n)] for n in names)


def _one_step_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_reduce")
    x = b.tensor("x", size(3), size(4), size(2))
    rows = b.op("reduce", x, monoid="sum", labels=("a", "b", "c"), output=("c", "a"), scale=0.5)
    return b.result(
        b.op("reduce", rows, monoid="sum", labels=("p", "q"), output=("q",), keep=(1,), scale=0.25)
    )


def _scaled_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("scale_into_reduce")
    y = b.op(
        "reduce", b.tensor("x", size(3), size(4)), monoid="sum", labels=("a", "b"), output=("a",), keep=(1,)
    )
    return b.result(b.cell(("mul", INPUT, ("const", 0.125)), {y: "rc"}))


def _rescaled(m: Match) -> tuple[float, Expression] | None:
    """Find the constant that scales the sum wherever a cell reads it, and the expression without it, or None."""
    k, expr = len(m["before"]), m["expr"]
    kinds = tuple(m.edited.tensors[t].dtype for t in (*m["before"], m["y"], *m["after"]))
    if not is_float(kinds[k]) or m["y"] in m["before"] + m["after"]:
        return None
    for text, part in parts_of(expr).items():
        terms = terms_of("mul", part)
        constants = [t for t in terms if t[0] == "const" and not isinstance(t[1], bool)]
        if terms.count(("input", k)) != 1 or len(constants) != 1 or len(terms) < 2:
            continue
        if k in inputs_of(replaced(expr, text, ("const", 0))) or element_type(part, kinds) != kinds[k]:
            continue
        others = [t for t in terms if t is not constants[0]]
        if any(k in inputs_of(t) for t in others if t != ("input", k)):
            continue
        return float(constants[0][1]), replaced(expr, text, chained("mul", others))
    return None


def _inside_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("scale_inside_cell")
    x = b.tensor("x", size(3), size(4))
    y = b.op("reduce", x, monoid="sum", labels=("a", "b"), output=("a",), scale=0.5)
    z = b.tensor("z", b.shape(x)[0])
    product = ("mul", ("mul", ("input", 1), ("input", 0)), ("const", 0.125))
    return b.result(b.cell(("rsqrt", ("add", ("abs", product), ("const", 1e-5))), {y: "r", z: "r"}))


def _is_own_square(m: Match) -> bool:
    """Return whether both operands share all dimensions, and squares keep their element type."""
    one, two = m["labels"]
    plain = one == two and len(set(one)) == len(one)
    return bool(plain and len(m["output"]) < len(one) and m.dtype("x") not in HALF)


def _square_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_self_contract")
    x = b.tensor("x", size(3), size(4), size(2))
    return b.result(b.contract("abc,abc->ca", x, x))


SQUARES: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_self_contract",
        left=op("contract", X, X, labels=attr("labels"), output=attr("output")),
        right=op(
            "reduce",
            op(
                "cell",
                X,
                given=lambda m: pointwise(
                    ("square", INPUT), (dim_labels(len(m.shape("x"))),), m.shape("x"), m.dtype("x")
                ),
            ).named("square"),
            monoid="sum",
            labels=lambda m: m["labels"][0],
            output=attr("output"),
        ),
        when=_is_own_square,
        doc="""
        A contraction of a tensor with itself, element by element, is a sum of squares.

        sum_k (x[m, k] x[m, k])  ->  sum_k x^2
        Where both operands have the same names, for whole numbers and wide floats (a square in half precision
        would be rounded, or overflow). It is no matrix product, and x is read once; a variance is found again.
        """,
        source="definition of a contraction",
        example=_square_example,
        domain="real",
    ),
)

REDUCTIONS: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_reduce",
        left=op(
            "reduce",
            op(
                "reduce",
                X,
                monoid=attr("monoid"),
                labels=attr("inner_labels"),
                output=attr("inner_output"),
                keep=attr("inner_keep"),
                scale=attr("inner_scale"),
            ).only_here(),
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=op(
            "reduce",
            X,
            monoid=attr("monoid"),
            labels=attr("inner_labels"),
            output=lambda m: _inner_names(m, m["output"]),
            keep=attr("keep"),
            scale=lambda m: _scale(m, "scale") * _scale(m, "inner_scale"),
        ),
        when=lambda m: not m["inner_keep"],
        doc="""
        Two reductions in a row by one monoid become one.

        sum_a (sum_b x)  ->  sum_{a, b} x
        Where nobody else reads the first. A monoid does not care where brackets stand. Not for saturation, which
        would undo every `split_reduce`.
        """,
        source=MONOID,
        example=_one_step_example,
        domain="real",
    ),
    Rule(
        name="scale_into_reduce",
        left=any_cell(
            op(
                "reduce",
                X,
                monoid="sum",
                labels=attr("labels"),
                output=attr("output"),
                keep=attr("keep"),
                scale=attr("scale"),
            )
            .only_here()
            .named("y"),
            prefix="cell_",
            inside=Whole(("mul", INPUT, ("const", K))),
        ),
        right=op(
            "reduce",
            X,
            monoid="sum",
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=lambda m: _scale(m, "scale") * m["k"],
        ),
        when=lambda m: (
            m["cell_labels"] == (tuple(n for n, _ in m["cell_dims"]),)
            and m.dtype("y") == m["cell_dtype"]
            and is_float(m["cell_dtype"])
        ),
        doc="""
        A scale of a sum is taken into the sum: a mean is found again.

        k (sum x)  ->  sum[scale k] x
        For floats, where nobody else reads the unscaled sum.
        """,
        source="distributive law",
        example=_scaled_example,
        domain="real",
        saturating=True,
    ),
    Rule(
        name="scale_out_of_cell",
        left=any_cell(
            rest("before"),
            op(
                "reduce",
                X,
                monoid="sum",
                labels=attr("reduce_labels"),
                output=attr("output"),
                keep=attr("keep"),
                scale=attr("scale"),
            )
            .only_here()
            .named("y"),
            rest("after"),
        ),
        right=op(
            "cell",
            rest("before"),
            op(
                "reduce",
                X,
                monoid="sum",
                labels=attr("reduce_labels"),
                output=attr("output"),
                keep=attr("keep"),
                scale=lambda m: _scale(m, "scale") * sure(_rescaled(m))[0],
            ).named("scaled"),
            rest("after"),
            expr=lambda m: sure(_rescaled(m))[1],
            labels=attr("labels"),
            dims=attr("dims"),
            dtype=attr("dtype"),
        ),
        when=lambda m: _rescaled(m) is not None,
        doc="""
        A sum that a cell multiplies by a constant is scaled by itself: a mean is found again.

        f(k (sum x), z)  ->  f(sum[scale k] x, z)
        For floats, where the cell multiplies it wherever it reads it, and nobody else reads the unscaled sum.
        """,
        source="distributive law",
        example=_inside_example,
        domain="real",
        saturating=True,
    ),
)
