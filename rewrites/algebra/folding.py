"""Folding of scales and shifts around a linear operator into its weights and one bias.

A batch normalization after a convolution is a scale and a shift per channel; both depend on parameters only,
so the scale is multiplied into the weights once instead of into every element of the activation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tapestry.rewrites.algebra.affine import (
    Affine,
    affine_part,
    is_coefficient,
    summed,
)
from tapestry.rewrites.cell_form import CellForm, CellRead, Labels, any_cell, cell, dim_labels
from tapestry.rewrites.example_builder import ExampleBuilder, sure
from tapestry.rewrites.patterns import replaced
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, case, op, pick, rest, tensor
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression, inputs_of, substitute

X, W = tensor("x"), tensor("w")
SOURCE = (
    "Jacob et al., Quantization and Training of Neural Networks, CVPR 2018, section 3.2 (batch norm folding)"
)
LINEAR = "linearity of sums of products in each operand"


class Fold(NamedTuple):
    """A fold: `scale` goes into the weights, `shift` into a bias, `others` stay in the cell.

    All expressions are over the inputs of the cell; `k` is the one that the linear operator produces.
    """

    k: int
    text: str
    scale: Expression | None
    shift: Expression | None
    others: tuple[tuple[bool, Expression], ...]
    axes: Mapping[str, int]  # the cell's name of each weight dimension along which coefficients vary


def _sites(m: Match) -> tuple[str, ...]:
    return (*m["before"], m["y"], *m["after"])


def _dtypes(m: Match) -> tuple[str, ...]:
    return tuple(m.edited.tensors[t].dtype for t in _sites(m))


def _weights(m: Match) -> tuple[str, Mapping[int, int]]:
    """Return the weight operand, and a map from the result's dimensions to those of the weights."""
    if m.bindings.get("w") is not None:
        return m["w"], {1: 0}
    k = int(m.choice or 0)
    names: Labels = m["contract_labels"][k]
    along = {p: names.index(n) for p, n in enumerate(m["contract_output"]) if n in names}
    return m["xs"][k], along


def _fold(m: Match) -> Fold | None:
    """Find the scale and shift of the linear operator's result in the cell that reads it; None if none."""
    k, site = len(m["before"]), m["y"]
    read: Labels = m["labels"][k]
    weights, along = _weights(m)
    kinds = {m.type("y").dtype, m.edited.tensors[weights].dtype}
    named = [n for n in read if n]
    if site in m["before"] + m["after"] or len(set(named)) != len(named):
        return None
    if len(kinds) != 1 or not is_float(m.dtype("y")):
        return None
    axes = {read[p]: axis for p, axis in along.items() if read[p]}
    small = {j for j, labels in enumerate(m["labels"]) if j != k and {n for n in labels if n} <= axes.keys()}
    part = affine_part(m["expr"], k, frozenset(small), _dtypes(m))
    if part is None:
        return None
    return _sorted_out(m, k, part.text, part.form, small, axes)


def _sorted_out(
    m: Match, k: int, text: str, form: Affine, small: set[int], axes: Mapping[str, int]
) -> Fold | None:
    """Separate the terms of the affine form: those of coefficients become one shift, the others stay."""
    shifts = [t for t in form.terms if inputs_of(t[1]) and is_coefficient(t[1], small)]
    others = tuple(t for t in form.terms if t not in shifts)
    shift = summed(shifts) if shifts else None
    varies = shift is not None and any(n for j in inputs_of(shift) for n in m["labels"][j])
    if not varies:
        return Fold(k, text, form.scale, None, form.terms, axes)
    return Fold(k, text, form.scale, shift, others, axes)


def _has_scale(m: Match) -> bool:
    """Return whether there is a scale that comes from the program (constants move by other rules)."""
    fold = _fold(m)
    return fold is not None and fold.scale is not None and bool(inputs_of(fold.scale))


def _own(m: Match, expr: Expression, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Labels, ...], Any]:
    """Return sites, labels and expression of a part of the cell, alone; its dimensions are among `names`."""
    used = inputs_of(expr)
    numbers: Mapping[int, Expression] = {j: ("input", i) for i, j in enumerate(used)}
    labels = tuple(tuple(n if n in names else "" for n in m["labels"][j]) for j in used)
    return tuple(_sites(m)[j] for j in used), labels, substitute(expr, numbers)


def _scaled_weights(m: Match) -> CellForm:
    """Multiply the weights by the scale."""
    fold = sure(_fold(m))
    site, _ = _weights(m)
    kind = m.edited.tensors[site].type
    names = dim_labels(len(kind.shape))
    sites, labels, scale = _own(m, fold.scale or ("const", 1.0), tuple(fold.axes))
    renamed = tuple(tuple(names[fold.axes[n]] if n else "" for n in part) for part in labels)
    moved: Mapping[int, Expression] = {j: ("input", j + 1) for j in range(len(sites))}
    reads = (CellRead(site, names), *map(CellRead, sites, renamed))
    dims = tuple(zip(names, kind.shape, strict=True))
    return CellForm(reads, ("mul", ("input", 0), substitute(scale, moved)), dims, kind.dtype).normal()


def _shift_names(m: Match) -> tuple[str, ...]:
    """Return the cell's dimensions along which the shift varies."""
    shift = sure(sure(_fold(m)).shift)
    found = {n for j in inputs_of(shift) for n in m["labels"][j] if n}
    return tuple(n for n, _ in m["dims"] if n in found)


def _shift_cell(m: Match) -> CellForm:
    """Build the cell that computes the shift once per channel."""
    shift = sure(sure(_fold(m)).shift)
    names = _shift_names(m)
    sites, labels, expr = _own(m, shift, names)
    dims = tuple((n, size) for n, size in m["dims"] if n in names)
    return CellForm(tuple(map(CellRead, sites, labels)), expr, dims, m.dtype("y"))


def _is_apart(m: Match) -> bool:
    """Return whether the shift needs a cell of its own; a bare tensor is read directly."""
    shift = sure(_fold(m)).shift
    return shift is not None and shift[0] != "input"


def _rest_expression(m: Match) -> Expression:
    """Build the cell's expression over its old inputs, with the shift (if separate) as an additional input."""
    fold = sure(_fold(m))
    value: Expression = ("input", fold.k)
    if fold.shift is not None:
        value = ("add", value, ("input", len(_sites(m))) if _is_apart(m) else fold.shift)
    return replaced(m["expr"], fold.text, summed(fold.others, value))


def _others_read(m: Match) -> list[int]:
    fold = sure(_fold(m))
    return [j for j in inputs_of(_rest_expression(m)) if j not in (fold.k, len(_sites(m)))]


def _rest_cell(m: Match) -> Mapping[str, Any]:
    """Build the remaining cell: it reads the scaled result, the other inputs that it needs, and the shift."""
    fold, others = sure(_fold(m)), _others_read(m)
    order = [fold.k, *others, *([len(_sites(m))] if _is_apart(m) else [])]
    numbers: Mapping[int, Expression] = {j: ("input", i) for i, j in enumerate(order)}
    labels = tuple(m["labels"][j] for j in (fold.k, *others))
    if _is_apart(m):
        labels = (*labels, _shift_names(m))
    expr = substitute(_rest_expression(m), numbers)
    return {"expr": expr, "labels": labels, "dims": m["dims"], "dtype": m["dtype"]}


def _cell_behind(result: Op) -> Any:
    """Build the right-hand side: the remaining cell, after the linear operator `result`."""
    others = pick(lambda m: [_sites(m)[j] for j in _others_read(m)])
    shift = cell(_shift_cell).named("shift")
    return case(
        _is_apart,
        op("cell", result, others, shift, given=_rest_cell),
        op("cell", result, others, given=_rest_cell),
    )


CONV_ATTRIBUTES: dict[str, Any] = {n: attr(n) for n in ("strides", "pads", "dilations", "groups")}
CONV = op("conv", X, W, **CONV_ATTRIBUTES)
CONTRACT = op("contract", rest("xs"), labels=attr("contract_labels"), output=attr("contract_output"))
SCALED = cell(_scaled_weights).named("weights")


def _choices(m: Match) -> list[str]:
    """List the operands of the contraction into which the scale can be folded."""
    return [str(k) for k in range(len(m["xs"])) if _has_scale(replace(m, choice=str(k)))]


def _conv_example(name: str) -> Callable[[ExampleSizes], Graph]:
    """Return a builder of an example: a convolution, its batch norm, another branch and a rectifier."""

    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        x = b.tensor("x", size(2), size(3), 6, 5)
        w = b.tensor("w", size(4), b.shape(x)[1], 3, 3, role="parameter")
        y = b.op("conv", x, w, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=1)
        channels = b.shape(w)[0]
        mean, scale, shift = (b.tensor(n, channels, role="parameter") for n in ("mean", "scale", "shift"))
        other = b.tensor("other", *b.shape(y))
        normal = (
            "mul",
            ("sub", ("input", 0), ("input", 1)),
            ("rsqrt", ("add", ("square", ("input", 2)), ("const", 1e-5))),
        )
        expr = ("relu", ("add", ("add", normal, ("input", 4)), ("input", 3)))
        reads = {y: "ncyx", mean: "c", scale: "c", shift: "c", other: "ncyx"}
        return b.result(b.cell(expr, reads))

    return example


def _contract_example(size: ExampleSizes) -> Graph:
    """Build an example: a linear layer, and a scale and a shift per feature, supplied as three tensors."""
    b = ExampleBuilder("fold_into_contract")
    x = b.tensor("x", size(3), size(4))
    w = b.tensor("w", b.shape(x)[1], size(2), size(5), role="parameter")
    y = b.contract("mk,khd->hmd", x, w)
    heads, width = b.shape(w)[1:]
    scale = b.tensor("scale", heads, width, role="parameter")
    mean, shift = (b.tensor(n, width, role="parameter") for n in ("mean", "shift"))
    expr = ("add", ("mul", ("sub", ("input", 0), ("input", 1)), ("input", 2)), ("input", 3))
    return b.result(b.cell(expr, {y: "hmd", mean: "d", scale: "hd", shift: "d"}))


FOLDING: tuple[Rule, ...] = (
    Rule(
        name="fold_into_conv",
        left=any_cell(rest("before"), CONV.only_here().named("y"), rest("after")),
        right=_cell_behind(op("conv", X, SCALED, **CONV_ATTRIBUTES).named("conv")),
        when=_has_scale,
        doc="""
        A scale per channel behind a convolution goes into its weights, the shift becomes one bias.

        f(conv(x, w) s + t + z)  ->  f(conv(x, w s) + t + z)
        Where s and t vary along the channels only, as a batch normalization of stored statistics does, all in
        one float type, and nobody else reads the convolution: it is linear in its weights.
        """,
        source=SOURCE,
        example=_conv_example("fold_into_conv"),
        domain="real",
    ),
    Rule(
        name="fold_into_contract",
        left=any_cell(rest("before"), CONTRACT.only_here().named("y"), rest("after")),
        right=_cell_behind(
            op(
                "contract",
                pick(lambda m: m["xs"][: int(m.choice)]),
                SCALED,
                pick(lambda m: m["xs"][int(m.choice) + 1 :]),
                labels=attr("contract_labels"),
                output=attr("contract_output"),
            ).named("contract")
        ),
        when=lambda m: bool(_choices(m)),
        choices=_choices,
        doc="""
        A scale behind a contraction goes into an operand that has its dimensions; which one is the choice.

        f((x w) s + t + z)  ->  f(x (w s) + t + z)
        Where s and t vary only along dimensions that the operand shares with the result, all in one float type,
        and nobody else reads the contraction: it is linear in each operand.
        """,
        source=SOURCE,
        example=_contract_example,
        domain="real",
    ),
)
