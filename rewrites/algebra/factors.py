"""Factors of an operand that the other operand can absorb: they are multiplied into the weights instead.

A shift before a convolution becomes a bias after it, which has an image's dimensions where the convolution pads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tapestry.rewrites.algebra.affine import affine, factors, has_index, is_coefficient, multiplied, summed
from tapestry.rewrites.cell_form import ADD, CellForm, CellRead, Labels, any_cell, cell, dim_labels, pointwise
from tapestry.rewrites.equations import equation
from tapestry.rewrites.example_builder import ExampleBuilder, sure
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, pick, rest, tensor
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression, inputs_of, substitute

W = tensor("w")
LINEAR = "linearity of sums of products in each operand"
CONV_ATTRIBUTES: dict[str, Any] = {n: attr(n) for n in ("strides", "pads", "dilations")}


def _product_of(m: Match) -> tuple[Expression, Expression, Mapping[str, int]] | None:
    """Split an operand's cell: the factor that fits the other operand, the remainder, and its dimensions.

    The dimensions are the cell's names, each with the weight dimension it runs along. None if there is no such
    factor.
    """
    names = [n for n, _ in m["dims"]]
    x_labels, w_labels = _operand_labels(m)
    axes = {n: w_labels.index(label) for n, label in zip(names, x_labels, strict=True) if label in w_labels}
    kinds = {m["dtype"], m.dtype("w"), *(t.dtype for t in m.types("xs"))}
    if len(kinds) != 1 or not is_float(m["dtype"]) or len(set(x_labels)) != len(x_labels):
        return None
    small = {j for j, labels in enumerate(m["labels"]) if {n for n in labels if n} <= axes.keys()}
    split = factors(m["expr"])
    moved = [f for f in split if inputs_of(f[1]) and is_coefficient(f[1], small)]
    kept = [f for f in split if f not in moved]
    if not moved or not any(inputs_of(e) for _, e in kept) or any(has_index(e) for _, e in kept):
        return None
    return multiplied(moved), multiplied(kept), axes


def _operand_labels(m: Match) -> tuple[Labels, Labels]:
    """Return the names of the cell's and the weights' dimensions; a convolution's are those of the channels."""
    if "contract_labels" in m.bindings:
        x_labels, w_labels = m["contract_labels"]
        return x_labels, w_labels
    rank = len(m.shape("w"))
    return tuple("c" if k == 1 else f"x{k}" for k in range(rank)), tuple(
        "c" if k == 1 else f"w{k}" for k in range(rank)
    )


def _weights_with_factor(m: Match) -> CellForm:
    factor, _, axes = sure(_product_of(m))
    shape, names = m.shape("w"), dim_labels(len(m.shape("w")))
    used = inputs_of(factor)
    moved: Mapping[int, Expression] = {j: ("input", i + 1) for i, j in enumerate(used)}
    labels = [tuple(names[axes[n]] if n else "" for n in m["labels"][j]) for j in used]
    reads = (CellRead(m["w"], names), *(CellRead(m["xs"][j], n) for j, n in zip(used, labels, strict=True)))
    expr = ("mul", ("input", 0), substitute(factor, moved))
    return CellForm(reads, expr, tuple(zip(names, shape, strict=True)), m.dtype("w")).normal()


def _without_factor(m: Match) -> CellForm:
    _, kept, _ = sure(_product_of(m))
    reads = tuple(map(CellRead, m["xs"], m["labels"]))
    return CellForm(reads, kept, m["dims"], m["dtype"]).normal()


class Normal(NamedTuple):
    """The cell before a convolution: its input `k` times `scale` plus `shift`, both per channel."""

    k: int
    scale: Expression
    shift: Expression


def _normal(m: Match) -> Normal | None:
    """Write the image's cell as a scale and a shift per channel of one of its inputs; None if impossible."""
    names = tuple(n for n, _ in m["dims"])
    kinds = {m["dtype"], m.dtype("w"), *(t.dtype for t in m.types("xs"))}
    if len(kinds) != 1 or not is_float(m["dtype"]):
        return None
    small = {j for j, labels in enumerate(m["labels"]) if {n for n in labels if n} <= {names[1]}}
    for k, labels in enumerate(m["labels"]):
        if labels != names:
            continue
        form = affine(m["expr"], k, small)
        if form is not None and form.terms and all(is_coefficient(t, small) for _, t in form.terms):
            return Normal(k, form.scale or ("const", 1.0), summed(form.terms))
    return None


def _per_channel(m: Match, expr: Expression, sites: Sequence[str], names: Sequence[Labels]) -> CellForm:
    """Build the cell of a per-channel expression of the image's cell, its inputs numbered after these reads."""
    (channel, size), used = m["dims"][1], inputs_of(expr)
    moved: Mapping[int, Expression] = {j: ("input", i + len(sites)) for i, j in enumerate(used)}
    own = [CellRead(m["xs"][j], tuple("c" if n == channel else "" for n in m["labels"][j])) for j in used]
    reads = (*map(CellRead, sites, names), *own)
    return CellForm(reads, substitute(expr, moved), (("c", size),), m["dtype"])


def _scaled_channels(m: Match) -> CellForm:
    """Multiply the weights by the scale of their input channel."""
    shape = m.shape("w")
    names = _operand_labels(m)[1]
    form = _per_channel(m, sure(_normal(m)).scale, (m["w"],), (names,))
    dims = tuple(zip(names, shape, strict=True))
    return replace(form, expr=("mul", ("input", 0), form.expr), dims=dims).normal()


def _shift_image(m: Match) -> CellForm:
    """Build the shift as one image; beyond its border it is zero."""
    names, sizes = dim_labels(len(m["dims"])), (1, *(size for _, size in m["dims"][1:]))
    form = _per_channel(m, sure(_normal(m)).shift, (), ())
    reads = tuple(CellRead(r.site, tuple(names[1] if n else "" for n in r.labels)) for r in form.reads)
    return replace(form, reads=reads, dims=tuple(zip(names, sizes, strict=True))).normal()


def _with_border(m: Match) -> Mapping[str, Any]:
    names = dim_labels(len(m.result().shape))
    return pointwise(ADD, (names, ("", *names[1:])), m.result().shape, m["dtype"])


def _with_bias(m: Match) -> Mapping[str, Any]:
    shape = m.result().shape
    return pointwise(ADD, (dim_labels(len(shape)), dim_labels(len(shape))[1:2]), shape, m["dtype"])


OPERAND = any_cell(rest("xs")).only_here()
KEPT, SCALED = cell(_without_factor).named("rest"), cell(_weights_with_factor).named("weights")


def _norm_example(size: ExampleSizes) -> Graph:
    """Build an example: a root-mean-square normalization, its scale per feature, a linear layer."""
    b = ExampleBuilder("factor_into_contract")
    x = b.tensor("x", size(3), size(4))
    scale = b.tensor("scale", b.shape(x)[1], role="parameter")
    row = b.tensor("row", b.shape(x)[0])
    w = b.tensor("w", size(5), b.shape(x)[1], role="parameter")
    expr = ("div", ("mul", ("mul", ("input", 0), ("input", 1)), ("input", 2)), ("const", 3.0))
    return b.result(b.contract("nk,mk->mn", w, b.cell(expr, {x: "mk", scale: "k", row: "m"})))


def _image_example(size: ExampleSizes) -> Graph:
    """Build an example: a scale per channel, a convolution."""
    b = ExampleBuilder("factor_into_conv")
    x = b.tensor("x", size(2), size(3), 6, 5)
    scale = b.tensor("scale", b.shape(x)[1], role="parameter")
    w = b.tensor("w", size(4), b.shape(x)[1], 3, 3, role="parameter")
    y = b.cell(("mul", ("tanh", ("input", 0)), ("input", 1)), {x: "ncyx", scale: "c"})
    return b.result(b.op("conv", y, w, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=1))


def _shifted_image_example(name: str, padding: int, size: ExampleSizes) -> Graph:
    """Build an example: a batch norm of stored statistics, a convolution padded by `padding` on three sides."""
    b = ExampleBuilder(name)
    x = b.tensor("x", size(2), size(3), 6, 5)
    scale, mean, shift = (b.tensor(n, b.shape(x)[1], role="parameter") for n in ("scale", "mean", "shift"))
    w = b.tensor("w", size(4), b.shape(x)[1], 3, 3, role="parameter")
    expr = ("add", ("input", 3), ("mul", ("sub", ("input", 0), ("input", 2)), ("input", 1)))
    y = b.cell(expr, {x: "ncyx", scale: "c", mean: "c", shift: "c"})
    return b.result(
        b.op("conv", y, w, strides=(1, 2), pads=(padding, 0, padding, padding), dilations=(2, 1), groups=1)
    )


BIAS = op(
    "contract",
    W,
    cell(lambda m: _per_channel(m, sure(_normal(m)).shift, (), ()).normal()).named("shift"),
    labels=lambda m: (_operand_labels(m)[1], ("c",)),
    output=lambda m: _operand_labels(m)[1][:1],
).named("bias")

SCALED_CONV = op(
    "conv",
    pick(lambda m: [m["xs"][sure(_normal(m)).k]]),
    cell(_scaled_channels).named("weights"),
    **CONV_ATTRIBUTES,
    groups=1,
).named("conv")

FACTORS: tuple[Rule, ...] = (
    Rule(
        name="factor_into_contract",
        left=op("contract", OPERAND, W, labels=attr("contract_labels"), output=attr("output")).commutative(),
        right=op("contract", KEPT, SCALED, labels=attr("contract_labels"), output=attr("output")),
        when=lambda m: _product_of(m) is not None,
        doc="""
        A factor of one operand of a contraction moves to the other operand.

        (x s) w  ->  x (w s)
        Where s varies only along dimensions that both operands have, as the scale of a normalization before a
        linear layer does, all in one float type, and nobody else reads the product.
        """,
        source=LINEAR,
        example=_norm_example,
        domain="real",
    ),
    Rule(
        name="factor_into_conv",
        left=op("conv", OPERAND, W, **CONV_ATTRIBUTES, groups=1),
        right=op("conv", KEPT, SCALED, **CONV_ATTRIBUTES, groups=1),
        when=lambda m: _product_of(m) is not None,
        doc="""
        A scale per channel before a convolution goes into its weights.

        conv(x s, w)  ->  conv(x, w s)
        Where s varies along the input channels only, in one group and one float type, and nobody else reads the
        scaled image: what lies beyond the image is zero with any scale.
        """,
        source=LINEAR,
        example=_image_example,
        domain="real",
    ),
    Rule(
        name="shift_through_conv",
        left=op("conv", OPERAND, W, **CONV_ATTRIBUTES, groups=1),
        right=op("cell", SCALED_CONV, BIAS, given=_with_bias),
        when=lambda m: not any(m["pads"]) and _normal(m) is not None,
        doc="""
        A scale and a shift per channel before a convolution go into its weights and a bias.

        conv(x s + t, w)  ->  conv(x, w s) + sum(w t)
        Where nothing is padded (what lies beyond the image is zero without the shift), s and t vary along the
        input channels only, in one group and one float type, and nobody else reads the shifted image.
        """,
        source=LINEAR,
        example=lambda size: _shifted_image_example("shift_through_conv", 0, size),
        domain="real",
    ),
    Rule(
        name="shift_through_padded_conv",
        left=op("conv", OPERAND, W, **CONV_ATTRIBUTES, groups=1),
        right=op(
            "cell",
            SCALED_CONV,
            op("conv", cell(_shift_image).named("shift"), W, **CONV_ATTRIBUTES, groups=1).named("bias"),
            given=_with_border,
        ),
        when=lambda m: any(m["pads"]) and _normal(m) is not None,
        doc="""
        A scale and a shift per channel before a padded convolution go into its weights and a bias per place.

        conv(x s + t, w)  ->  conv(x, w s) + conv(t, w), the shift as an image of its own
        Where s and t vary along the input channels only, in one group and one float type, and nobody else reads the
        shifted image. Near the border a part of the shift is missing; the bias is the same for all images and
        depends on parameters only, so that it is computed once where these do not change.
        """,
        source=LINEAR,
        example=lambda size: _shifted_image_example("shift_through_padded_conv", 1, size),
        domain="real",
    ),
    equation(
        "norm_affine_into_contract",
        left=lambda x, s, t, w, eps: x.layer_norm("k", scale=s, bias=t, eps=eps).contract(w, "k"),
        right=lambda x, s, t, w, eps: x.layer_norm("k", eps=eps).contract(w * s, "k") + t.contract(w, "k"),
        tensors={"x": "m k", "s": "k", "t": "k", "w": "k n"},
        numbers={"eps": 1.1e-5},
        doc="""
        Scale and bias of a layer normalization move through the linear layer behind it.

        layer_norm(x, s, t) w  ->  layer_norm(x) (s w) + t w
        Where nobody else reads the normalized values: what is made of s, t and w depends on parameters only.
        """,
        source=LINEAR,
    ),
)
