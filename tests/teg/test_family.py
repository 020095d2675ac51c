"""Tests of families: sizes and depth are left out, operators and names are not."""

from __future__ import annotations

import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.family import family_of, site_pattern
from tapestry.teg.graph import Graph


def stack(layers: int, width: int = 64, expression: str = "relu", prefix: str = "layers") -> Graph:
    """Build layers of a product and a function of it, each `width` wide."""
    b = GraphBuilder(f"stack of {layers}")
    x = b.source("x", (width, width), "float32")
    for k in range(layers):
        weight = b.source(f"{prefix}.{k}.weight", (width, width), "float32", "parameter")
        (x,) = b.apply(
            "contract",
            (x, weight),
            site=f"{prefix}.{k}.product",
            labels=(("m", "k"), ("k", "n")),
            output=("m", "n"),
        )
        (x,) = b.apply(
            "cell",
            (x,),
            site=f"{prefix}.{k}.active",
            expr=(expression, ("input", 0)),
            labels=(("m", "n"),),
            dims=(("m", width), ("n", width)),
            dtype="float32",
        )
    b.sink(x, site="y")
    return b.build()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("h.3.mlp", "h.11.mlp"),
        ("node_silu", "node_silu_12"),
        ("block.2.conv1", "block.10.conv2"),
        ("mlp.0badcafe", "mlp.12345678"),
    ],
)
def test_numbers_and_hashes_are_no_part_of_a_pattern(one: str, other: str) -> None:
    assert site_pattern(one) == site_pattern(other)


def test_words_are() -> None:
    assert len({site_pattern(s) for s in ("h.3.up", "h.3.down", "g.3.up", "deadbeef", "cafe")}) == 5


def test_sizes_and_depth_are_no_part_of_a_family_but_operators_and_names_are() -> None:
    family = family_of(stack(2))
    assert family == family_of(stack(5)) == family_of(stack(2, width=128))
    assert family != family_of(stack(2, prefix="blocks"))
    other = GraphBuilder("other")
    other.sink(other.source("x", (64, 64), "float32"), site="y")
    assert family != family_of(other.build())
