"""Merging of padding into the windows that read it: the border is generated when it is read."""

from __future__ import annotations

from typing import Any

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.windows import window_settings
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, tensor
from tapestry.rewrites.selectors.pads import any_pad
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.monoids import identity

X, W = tensor("x"), tensor("w")
SOURCE = "definition of a padded window"
CONV: dict[str, Any] = {n: attr(n) for n in ("strides", "dilations", "groups")}
POOL: dict[str, Any] = {n: attr(n) for n in ("kernel", "strides", "dilations")}


def _is_around_image(m: Match, value: Any) -> bool:
    """Return whether only spatial positions are padded, by this value, and nothing is cropped on any side."""
    low, high = m["low"], m["high"]
    grows = min((*low, *high, *m["pads"])) >= 0
    return grows and not any((*low[:2], *high[:2])) and (m["value"] or 0) == value


def _pads(m: Match) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(m["pads"], (*m["low"][2:], *m["high"][2:]), strict=True))


def _conv_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("pad_into_conv")
    x = b.tensor("x", size(2), size(3), 5, 6)
    w = b.tensor("w", size(4), b.shape(x)[1], 3, 2, role="parameter")
    wide = b.op("pad", x, low=(0, 0, 1, 0), high=(0, 0, 2, 1))
    return b.result(b.op("conv", wide, w, **window_settings(pads=(1, 0, 0, 1), strides=(2, 1), groups=1)))


def _pool_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("pad_into_pool")
    x = b.tensor("x", size(2), size(3), 5, 6)
    wide = b.op("pad", x, low=(0, 0, 1, 0), high=(0, 0, 1, 1), value=-float("inf"))
    return b.result(b.op("pool", wide, kind="max", **window_settings(kernel=(3, 2), strides=(2, 1))))


WINDOW_PADS: tuple[Rule, ...] = (
    Rule(
        name="pad_into_conv",
        left=op("conv", any_pad(X), W, pads=attr("pads"), **CONV),
        right=op("conv", X, W, pads=_pads, **CONV),
        when=lambda m: _is_around_image(m, 0),
        doc="""
        Zeros around an image become the padding of the convolution that reads it.

        conv(pad(x), w)  ->  conv[pads](x, w)
        Where images are padded by zeros in their places only; others may go on reading the padded image.
        """,
        source=SOURCE,
        example=_conv_example,
        domain="real",
        saturating=True,
    ),
    Rule(
        name="pad_into_pool",
        left=op("pool", any_pad(X), kind="max", pads=attr("pads"), **POOL),
        right=op("pool", X, kind="max", pads=_pads, **POOL),
        when=lambda m: is_float(m.dtype("x")) and _is_around_image(m, identity("max", m.dtype("x"))),
        doc="""
        What can never be largest around an image becomes the padding of the pooling that reads it.

        pool[max](pad(x, -inf))  ->  pool[max, pads](x)
        Where images of floats are padded by the lowest value in their places only.
        """,
        source=SOURCE,
        example=_pool_example,
        saturating=True,
    ),
)
