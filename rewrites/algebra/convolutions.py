"""Algebra of convolutions: merged where they share an image, combined or factored where they are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from tapestry.rewrites.cell_form import ADD, ADD_OR_SUBTRACT, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import (
    ExampleSizes,
    Match,
    Op,
    Rule,
    TensorPattern,
    attr,
    computed,
    op,
    pick,
    tensor,
)
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced, view_attributes

X, Y, W, V = tensor("x"), tensor("y"), tensor("w"), tensor("v")
TASO = "Jia et al., TASO, SOSP 2019, table 3 (convolutions that share an input; enlarged kernels)"
LINEAR = "linearity of a convolution in its image and in its weights"


def _conv(image: TensorPattern, weights: TensorPattern, pads: str = "pads") -> Op:
    """Build the left-side pattern of a convolution in one group; strides and dilations bind the same names."""
    return op(
        "conv",
        image,
        weights,
        strides=attr("strides"),
        dilations=attr("dilations"),
        pads=attr(pads),
        groups=1,
    )


def _like(image: Any, weights: Any, pads: Any = None) -> Op:
    """Build the right-hand side of a convolution with the matched strides and dilations."""
    return op(
        "conv",
        image,
        weights,
        strides=attr("strides"),
        dilations=attr("dilations"),
        pads=attr("pads") if pads is None else pads,
        groups=1,
    )


def _growth(m: Match) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Compute by how many taps both kernels grow, below and above per dimension, to become equal, or None."""
    common = [max(a, b) for a, b in zip(m["pads"], m["other_pads"], strict=True)]
    dilations = (*m["dilations"], *m["dilations"])
    grown, kernels = [], []
    for name, pads in (("w", m["pads"]), ("v", m["other_pads"])):
        spans = [c - p for c, p in zip(common, pads, strict=True)]
        if any(span % d for span, d in zip(spans, dilations, strict=True)):
            return None
        taps = tuple(span // d for span, d in zip(spans, dilations, strict=True))
        rank = len(taps) // 2
        kernels.append([k + taps[j] + taps[rank + j] for j, k in enumerate(m.shape(name)[2:])])
        grown.append(taps)
    return (grown[0], grown[1]) if kernels[0] == kernels[1] else None


def _may_merge(m: Match) -> bool:
    return m["w"] != m["v"] and m.dtype("w") == m.dtype("v") and _growth(m) is not None


def _enlarged(weights: TensorPattern, taps: Sequence[int]) -> TensorPattern | Op:
    """Pad weights with zeros: a larger kernel with the same result."""
    rank = len(taps) // 2
    if not any(taps):
        return weights
    return op("pad", weights, low=(0, 0, *taps[:rank]), high=(0, 0, *taps[rank:])).named("enlarged")


def _merged(m: Match) -> list[Op]:
    grown = _growth(m)
    assert grown is not None
    pads = tuple(max(a, b) for a, b in zip(m["pads"], m["other_pads"], strict=True))
    parts = [_enlarged(W, grown[0]), _enlarged(V, grown[1])]
    return _parts(m, _like(X, op("concat", *parts, axis=0).named("weights"), pads), 2)


def _all_merged(m: Match) -> list[Op]:
    others = pick(lambda _: [each["v"] for each in m.together])
    weights = op("concat", W, others, axis=0).named("weights")
    return _parts(m, _like(X, weights), 1 + len(m.together))


def _parts(m: Match, wide: Op, count: int) -> list[Op]:
    """Slice the channels of each result out of a wide convolution."""
    wide = wide.named("wide")
    shapes = [m.result(k).shape for k in range(count)]
    starts = list(accumulate((shape[1] for shape in shapes), initial=0))
    full = (shapes[0][0], starts[-1], *shapes[0][2:])
    parts = []
    for start, shape in zip(starts, shapes, strict=False):
        begin = (0, start, *(0 for _ in shape[2:]))
        view = sliced(full, begin, (shape[0], start + shape[1], *shape[2:]))
        parts.append(op("view", wide, **dict(view_attributes(view))).named("part"))
    return parts


def _summed(one: Op, two: Op, expr: Any = ADD) -> Op:
    """Build the left-hand-side pattern of two convolutions added element by element."""
    return op(
        "cell",
        one.only_here(),
        two.only_here(),
        expr=expr,
        labels=attr("labels"),
        dims=attr("dims"),
        dtype=attr("dtype"),
    )


def _adds_in_order(m: Match) -> bool:
    names = tuple(name for name, _ in m["dims"])
    kinds = {m.dtype(t) for t in ("x", "w", "v")} | {m["dtype"]}
    return bool(m["labels"] == (names, names) and len(kinds) == 1)


def _sum_of_weights(m: Match) -> Mapping[str, Any]:
    return pointwise(m["expr"], (dim_labels(len(m.shape("w"))),) * 2, m.shape("w"), m.dtype("w"))


def _joins(m: Match) -> bool:
    """Return whether two images of one size are convolved by kernels of one size and added."""
    same = m.shape("w")[2:] == m.shape("v")[2:] and m.shape("x")[2:] == m.shape("y")[2:]
    return same and _adds_in_order(m) and m.dtype("y") == m.dtype("x")


PLAIN: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}


def _merge_example(size: ExampleSizes) -> Graph:
    """Build an example: a kernel of three by three next to one of one by one, and one of three by one."""
    b = ExampleBuilder("merge_convs")
    x = b.tensor("x", size(2), size(3), 5, 6)
    kernels = {"w": (3, 3), "v": (1, 1), "u": (3, 1)}
    weights = {n: b.tensor(n, size(2), b.shape(x)[1], *k, role="parameter") for n, k in kernels.items()}
    pads = {"w": (1, 1, 1, 1), "v": (0, 0, 0, 0), "u": (1, 0, 1, 0)}
    return b.result(*(b.op("conv", x, weights[n], pads=pads[n], **PLAIN) for n in kernels))


def _all_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("merge_all_convs")
    x = b.tensor("x", size(2), size(3), 5, 6)
    weights = [b.tensor(n, size(k), b.shape(x)[1], 3, 1, role="parameter") for k, n in enumerate("wvu", 1)]
    return b.result(
        *(b.op("conv", x, w, **{**PLAIN, "pads": (1, 0, 1, 0), "strides": (2, 1)}) for w in weights)
    )


def _sum_example(name: str, images: int) -> Any:
    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        shape, out = (size(2), size(3), 5, 6), size(2)
        x = b.tensor("x", *shape)
        y = b.tensor("y", shape[0], size(2), *shape[2:]) if images == 2 else x
        convs = [
            b.op(
                "conv",
                image,
                b.tensor(n, out, b.shape(image)[1], 3, 2, role="parameter"),
                pads=(1, 0, 1, 1),
                **PLAIN,
            )
            for n, image in (("w", x), ("v", y))
        ]
        return b.result(b.cell(ADD, dict.fromkeys(convs, "ncyx")))

    return example


CONVOLUTIONS: tuple[Rule, ...] = (
    Rule(
        name="merge_convs",
        left=(_conv(X, W), _conv(X, V, "other_pads")),
        right=computed(_merged),
        when=_may_merge,
        doc="""
        Two convolutions of one image become a wider one, and two views of its channels.

        conv(x, w), conv(x, v)  ->  parts of conv(x, concat(w, v))
        In one group, with the same strides and dilations; the smaller kernel is enlarged by zeros where the
        padding grows along, so that a kernel of one tap joins one of three by three. Of finite images, where
        kernels grow: the neighbors of a tap are multiplied by zero.
        """,
        source=TASO,
        example=_merge_example,
        domain="real",
    ),
    Rule(
        name="merge_all_convs",
        left=(_conv(X, W), _conv(X, V)),
        right=computed(_all_merged),
        when=lambda m: (
            m["w"] != m["v"] and m.dtype("w") == m.dtype("v") and m.shape("w")[2:] == m.shape("v")[2:]
        ),
        together=True,
        doc="""
        All convolutions of one image with kernels of one size become a wider one, and views of its channels.

        conv(x, w), conv(x, v), conv(x, u), ...  ->  parts of conv(x, concat(w, v, u, ...))
        In one group, with the same strides, paddings and dilations.
        """,
        source=TASO,
        example=_all_example,
        domain="real",
    ),
    Rule(
        name="factor_convs",
        left=_summed(_conv(X, W), _conv(X, V), attr("expr")),
        right=_like(X, op("cell", W, V, given=_sum_of_weights).named("sum")),
        when=lambda m: m["expr"] in ADD_OR_SUBTRACT and _adds_in_order(m) and m.shape("w") == m.shape("v"),
        doc="""
        Two convolutions of one image that are added or subtracted become one.

        conv(x, w) + conv(x, v)  ->  conv(x, w + v)  and  conv(x, w) - conv(x, v)  ->  conv(x, w - v)
        Where both have the same form, and nobody else reads them.
        """,
        source=LINEAR,
        example=_sum_example("factor_convs", 1),
        domain="real",
    ),
    Rule(
        name="join_convs",
        left=_summed(_conv(X, W), _conv(Y, V)),
        right=_like(op("concat", X, Y, axis=1).named("images"), op("concat", W, V, axis=1).named("weights")),
        when=_joins,
        doc="""
        Two convolutions that are added become one over the channels of both images.

        conv(x, w) + conv(y, v)  ->  conv(concat(x, y), concat(w, v))
        Where images and kernels are of one size, and nobody else reads what is added.
        """,
        source=LINEAR,
        example=_sum_example("join_convs", 2),
        domain="real",
    ),
)
