"""Convolutions in terms of contractions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewrites.expansions.images import W, X, image_names
from rewrites.rule import Match, Rule, Sizes, attr, case, op
from rewrites.sketch import Sketch
from teg.graph import Graph
from teg.operators.selectors import sliced, squeezed, view_attributes


def _is_pointwise(m: Match) -> bool:
    return all(size == 1 for size in m.shape("w")[2:]) and not any(m["pads"])


def _stepped(m: Match) -> Mapping[str, Any]:
    """Every stride-th element of the image, as the windows of one tap read it."""
    shape = m.shape("x")
    steps = (1, 1, *m["strides"])
    ends = (*shape[:2], *(s * (n - 1) + 1 for s, n in zip(m["strides"], m.result().shape[2:], strict=True)))
    return dict(view_attributes(sliced(shape, (0,) * len(shape), ends, steps)))


def _taps_squeezed(m: Match) -> Mapping[str, Any]:
    shape = m.shape("w")
    return dict(view_attributes(squeezed(shape, range(2, len(shape)))))


def _pointwise_example(size: Sizes) -> Graph:
    b = Sketch("contract_of_conv")
    x = b.tensor("x", size(2), size(3), 7, 5)
    w = b.tensor("w", size(4), b.shape(x)[1], 1, 1, role="parameter")
    plain: dict[str, Any] = {"pads": (0,) * 4, "dilations": (1, 1), "groups": 1}
    return b.result(*(b.op("conv", x, w, strides=(s, s), **plain) for s in (1, 2)))


CONVOLUTION: tuple[Rule, ...] = (
    Rule(
        name="contract_of_conv",
        left=op("conv", X, W, strides=attr("strides"), pads=attr("pads"), groups=1),
        right=op(
            "contract",
            case(
                lambda m: any(s != 1 for s in m["strides"]), op("view", X, given=_stepped).named("stepped"), X
            ),
            op("view", W, given=_taps_squeezed).named("matrix"),
            labels=lambda m: (image_names(m), ("o", "c")),
            output=lambda m: ("n", "o", *image_names(m)[2:]),
        ),
        when=_is_pointwise,
        doc="""
        A convolution with one tap becomes a contraction of channels.

        conv[1 x 1](x, w)  ->  x[n, c, y] w[o, c]
        Only where the kernel is one tap, in one group, without padding; strides are a view.
        """,
        source="definition of a convolution",
        example=_pointwise_example,
        kind="semantic",
        domain="real",
    ),
)
