"""Chunking of a contraction or convolution: while one piece is transferred, the next is computed.

Pieces meet in a concatenation, where the laws of selectors apply: `cell_of_concat` and
`contract_of_concat` carry the pieces on through what follows, `cut_cell` and `cut_contract` back to what is before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.expansions.images import W, X
from tapestry.rewrites.expansions.windows import view_of, window_settings
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op, rest
from tapestry.rewrites.selectors.cuts import cut_of
from tapestry.rewrites.selectors.window_cuts import CutWindows, StridedRange, cut_windows
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.views import ViewMap

COUNTS = (2, 4)
SOURCE = "Wang et al., Overlap Communication with Dependent Computation via Decomposition, ASPLOS 2023"

CONV_ATTRIBUTES: dict[str, Any] = {n: attr(n) for n in ("strides", "pads", "dilations")}


def _choices(m: Match, names: Labels) -> list[str]:
    """List the dimensions of the result that are long enough, each with numbers of pieces."""
    pairs = zip(names, m.result().shape, strict=False)
    return [f"{n}:{count}" for n, size in pairs for count in COUNTS if size >= count * count]


def _chosen(m: Match, names: Labels) -> tuple[int, int]:
    """Return the dimension that is split, and the number of pieces."""
    name, _, count = m.choice.rpartition(":")
    return names.index(name), int(count)


def _slices(shape: Sequence[int], axis: int, count: int) -> Iterator[ViewMap]:
    """Yield the pieces of a tensor along a dimension, as even as possible."""
    edges = [shape[axis] * k // count for k in range(count + 1)]
    for start, end in pairwise(edges):
        begin = replaced_at((0,) * len(shape), axis, start)
        yield sliced(shape, begin, replaced_at(shape, axis, end))


def _contract_pieces(m: Match) -> Sequence[Op]:
    output = m["output"]
    axis, count = _chosen(m, output)
    pieces = []
    for view in _slices(m.result().shape, axis, count):
        found = cut_of(m, view, output, m["xs"], m["labels"])
        pieces.append(op("contract", *found.terms(m), labels=m["labels"], output=output).named("piece"))
    return [op("concat", *pieces, axis=axis)]


def _conv_names(m: Match) -> Labels:
    """Return the names of the dimensions of a convolution's result: images, channels, spatial positions."""
    return ("n", "o", *(f"y{k}" for k in range(len(m.shape("w")) - 2)))


def _cut_places(m: Match) -> dict[str, list[CutWindows]]:
    """Find the windows that pieces along images or places read, by choice.

    Choices that leave a piece to the padding are omitted.
    """
    names, shape = _conv_names(m), m.result().shape
    found = {}
    for choice in _choices(m, names):
        axis, count = _chosen(replace(m, choice=choice), names)
        if axis == 1:
            continue
        spans = (
            replaced_at([StridedRange(0, 1, n) for n in shape], axis, part)
            for part in _parts(shape[axis], count)
        )
        pieces = [cut_windows(m, m.shape("w")[2:], s) for s in spans]
        if None not in pieces:
            found[choice] = [p for p in pieces if p is not None]
    return found


def _parts(size: int, count: int) -> Iterator[StridedRange]:
    for start, end in pairwise([size * k // count for k in range(count + 1)]):
        yield StridedRange(start, 1, end - start)


def _conv_choices(m: Match) -> list[str]:
    places = _cut_places(m)
    return [c for c in _choices(m, _conv_names(m)) if c in places or c.startswith("o:")]


def _conv_pieces(m: Match) -> Sequence[Op]:
    """Build the pieces: some images, some of the weights' results, or places with the halo of their windows."""
    axis, count = _chosen(m, _conv_names(m))
    same: dict[str, Any] = {"dilations": m["dilations"], "groups": 1}
    if axis == 1:
        same.update(strides=m["strides"], pads=m["pads"])
        parts = [view_of(W, view, "part") for view in _slices(m.shape("w"), 0, count)]
        pieces = [op("conv", X, part, **same).named("piece") for part in parts]
    else:
        cuts = _cut_places(m)[m.choice]
        pieces = [
            op("conv", view_of(X, c.image, "part"), W, strides=c.strides, pads=c.pads, **same).named("piece")
            for c in cuts
        ]
    return [op("concat", *pieces, axis=axis)]


def _example(size: ExampleSizes) -> Graph:
    """Build an example: a product of two operands, and one of three."""
    b = ExampleBuilder("chunk")
    x = b.tensor("x", size(4, least=4), size(3))
    w = b.tensor("w", b.shape(x)[1], size(4), role="parameter")
    v = b.tensor("v", b.shape(w)[1], 2)
    return b.result(b.contract("mk,kn->mn", x, w), b.contract("mk,kn,nj->jm", x, w, v))


def _conv_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("chunk_conv")
    x = b.tensor("x", size(4, least=4), size(3), 5, 6)
    w = b.tensor("w", size(5, least=4), b.shape(x)[1], 3, 2, role="parameter")
    return b.result(b.op("conv", x, w, **window_settings(pads=(1, 0, 1, 1), strides=(2, 1), groups=1)))


CHUNKS: tuple[Rule, ...] = (
    Rule(
        name="chunk",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=computed(_contract_pieces),
        when=lambda m: len(m["xs"]) > 1,
        choices=lambda m: _choices(m, m["output"]),
        doc="""
        A contraction is computed in pieces, so that copies of one overlap with computing another.

        x w  ->  concat(x[:m/2] w, x[m/2:] w)
        Along a dimension of the result, in as many pieces as the choice `name:count` says.
        """,
        source=SOURCE,
        example=_example,
        domain="real",
    ),
    Rule(
        name="chunk_conv",
        left=op("conv", X, W, **CONV_ATTRIBUTES, groups=1),
        right=computed(_conv_pieces),
        choices=_conv_choices,
        doc="""
        A convolution is computed in pieces, so that copies of one overlap with computing another.

        conv(x, w)  ->  concat(conv(x[:n/2], w), conv(x[n/2:], w))  or  concat(conv(x, w[:o/2]), conv(x, w[o/2:]))
        In one group, along images (`n:count`), channels of the result (`o:count`) or its places (`y0:count`), whose
        pieces read the halo that their windows reach.
        """,
        source=SOURCE,
        example=_conv_example,
        domain="real",
    ),
)
