"""Pooling in terms of reductions."""

from __future__ import annotations

import math
from typing import Any

from rewrites.expansions.images import X, image_names, spatial_rank
from rewrites.rule import Match, Rule, Sizes, attr, op
from rewrites.sketch import Sketch
from teg.graph import Graph


def _is_global(m: Match) -> bool:
    """Whether one window covers the whole image and nothing else."""
    whole = m["kernel"] == m.shape("x")[2:] and not any(m["pads"])
    return bool(whole and all(d == 1 for d in m["dilations"]))


def _pool_example(size: Sizes) -> Graph:
    b = Sketch("reduce_of_pool")
    x = b.tensor("x", size(2), size(3), size(4), size(5))
    image = b.shape(x)[2:]
    shared: dict[str, Any] = {"kernel": image, "strides": image, "pads": (0,) * 4, "dilations": (1, 1)}
    mean = b.op("pool", x, kind="average", size=image, **shared)
    return b.result(mean, b.op("pool", x, kind="max", **shared))


POOLING: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_pool",
        left=op(
            "pool",
            X,
            kind=attr("kind"),
            kernel=attr("kernel"),
            pads=attr("pads"),
            dilations=attr("dilations"),
        ),
        right=op(
            "reduce",
            X,
            monoid=lambda m: "max" if m["kind"] == "max" else "sum",
            labels=image_names,
            output=("n", "c"),
            keep=lambda m: tuple(range(2, 2 + spatial_rank(m))),
            scale=lambda m: 1.0 if m["kind"] == "max" else 1.0 / math.prod(m["kernel"]),
        ),
        when=_is_global,
        doc="""
        A pooling over the whole image becomes a reduction, so that the image can be split.

        pool[kernel = image](x)  ->  mean or max of x over its spatial dimensions
        Only where the one window covers the image without padding.
        """,
        source="definition of pooling",
        example=_pool_example,
        kind="semantic",
        domain="real",
    ),
)
