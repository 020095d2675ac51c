"""Small graphs, each with a feature that cost models easily get wrong, and random plans for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.costs import cost_table
from tapestry.teg.graph import Attributes, Graph, attributes
from tapestry.teg.operators.fused_examples import EXAMPLES
from tapestry.teg.operators.selectors import broadcast, permuted, reversed_along, selected, sliced
from tests.hardware.simulator.programs import cell, view

TANH = ("tanh", ("input", 0))
ADD = ("add", ("input", 0), ("input", 1))


def contract(b: GraphBuilder, site: str, x: str, w: str, labels: str) -> str:
    """Add a contraction as `numpy.einsum` writes it."""
    inputs, output = labels.split("->")
    left, right = (tuple(part) for part in inputs.split(","))
    return b.apply("contract", (x, w), site=site, labels=(left, right), output=tuple(output))[0]


def weight(b: GraphBuilder, site: str, *shape: int) -> str:
    return b.source(site, shape, "float32", "parameter")


def product_of(m: int, k: int, n: int) -> Graph:
    """Build `y = x @ w` and nothing else."""
    b = GraphBuilder("product")
    b.sink(contract(b, "y", b.source("x", (m, k), "float32"), weight(b, "w", k, n), "mk,kn->mn"))
    return b.build()


def layers(count: int) -> Graph:
    """Build a stack of equal two-product layers over a batch of 64."""
    b = GraphBuilder("layers")
    x = b.source("x", (64, 32), "float32")
    for k in range(count):
        hidden = contract(b, f"up{k}", x, weight(b, f"u{k}", 32, 128), "nc,ch->nh")
        active = cell(b, f"act{k}", ("relu", ("input", 0)), (hidden,))
        x = contract(b, f"down{k}", active, weight(b, f"d{k}", 128, 32), "nh,hc->nc")
    b.sink(x, site="y")
    return b.build()


def perceptron() -> Graph:
    """Build two products with views in between; the input is read again by the residual sum."""
    b = GraphBuilder("perceptron")
    x = b.source("x", (6, 10), "float32")
    hidden = contract(b, "up", x, weight(b, "w1", 10, 3, 8), "sc,chf->shf")
    turned = view(b, "turn", cell(b, "act", TANH, (hidden,)), permuted((6, 3, 8), (1, 0, 2)))
    part = view(b, "part", turned, sliced((3, 6, 8), (0, 0, 1), (3, 6, 8), (1, 1, 2)))
    down = contract(b, "down", part, weight(b, "w2", 3, 4, 10), "hsf,hfc->sc")
    b.sink(cell(b, "y", ADD, (down, x)))
    return b.build()


def convolutions() -> Graph:
    """Build a strided convolution with halo, and a shortcut of stride 2 through a crop; rows do not divide evenly."""
    b = GraphBuilder("convolutions")
    x = b.source("x", (2, 3, 13, 9), "float32")
    stem = _conv(b, "stem", x, weight(b, "k0", 4, 3, 3, 3), 1, (1, 1, 1, 1))
    relu = cell(b, "relu", ("relu", ("input", 0)), (stem,))
    main = _conv(b, "main", relu, weight(b, "k1", 6, 4, 3, 3), 2, (1, 1, 1, 1))
    crop = view(b, "crop", relu, sliced((2, 4, 13, 9), (0, 0, 0, 0), (2, 4, 13, 9)))
    short = _conv(b, "short", crop, weight(b, "k2", 6, 4, 1, 1), 2, (0, 0, 0, 0))
    b.sink(cell(b, "y", ADD, (main, short)))
    return b.build()


def _conv(b: GraphBuilder, site: str, x: str, w: str, stride: int, pads: tuple[int, ...]) -> str:
    return b.apply(
        "conv", (x, w), site=site, strides=(stride, stride), pads=pads, dilations=(1, 1), groups=1
    )[0]


def attention() -> Graph:
    """Build three projections that share one input, heads that do not divide evenly, a softmax, a sum over heads."""
    b = GraphBuilder("attention")
    x = b.apply("layer_norm", (b.source("x", (10, 12), "float32"),), site="norm", axes=(1,), eps=1e-5)[0]
    q, k, v = (contract(b, n, x, weight(b, f"w{n}", 12, 3, 4), "sc,chd->shd") for n in "qkv")
    scores = contract(b, "scores", q, k, "shd,thd->hst")
    (p,) = b.apply("softmax", (scores,), site="softmax", axes=(2,))
    mixed = contract(b, "mixed", p, v, "hst,thd->shd")
    out = contract(b, "out", mixed, weight(b, "wo", 3, 4, 12), "shd,hdc->sc")
    b.sink(cell(b, "y", ADD, (out, x)))
    b.sink(p, site="seen")
    return b.build()


def embedding() -> Graph:
    """Build a table gathered by position (its entries may be split), read again transposed as the output weight."""
    b = GraphBuilder("embedding")
    table = weight(b, "table", 11, 8)
    ids = b.source("ids", (7,), "int64")
    (x,) = b.apply("gather", (table, ids), site="looked up", axis=0)
    (lowest,) = b.apply("reduce", (x,), site="max", monoid="max", labels=("s", "c"), output=("s",), keep=(1,))
    y = cell(b, "shifted", ("sub", ("input", 0), ("input", 1)), (x, lowest))
    b.sink(contract(b, "logits", y, view(b, "tied", table, permuted((11, 8), (1, 0))), "sc,cv->sv"))
    return b.build()


def joints() -> Graph:
    """Build a concatenation, reversal, selection and broadcast: views of one tensor read by several blocks."""
    b = GraphBuilder("joints")
    x, y = b.source("x", (5, 8), "float32"), b.source("y", (3, 8), "float32", "buffer")
    (both,) = b.apply("concat", (cell(b, "tx", TANH, (x,)), y), site="both", axis=0)
    back = view(b, "back", both, reversed_along((8, 8), (0,)))
    row = view(b, "row", both, selected((8, 8), 0, 6))
    wide = view(b, "wide", view(b, "tall", row, broadcast((8,), (8, 8))), permuted((8, 8), (1, 0)))
    total = cell(b, "total", ADD, (back, wide))
    (flat,) = b.apply("reshape", (total,), site="flat", shape=(64,))
    b.sink(cell(b, "z", TANH, (flat,)))
    b.sink(both, site="seen")
    return b.build()


def leftovers() -> Graph:
    """Build values observed midway, an observed source, a source and a block without readers, carried state."""
    return _training("leftovers", is_observed=False)


def observed() -> Graph:
    """Build the program of `leftovers` with every block observed, so that nothing is pruned before a search."""
    return _training("observed", is_observed=True)


def _training(name: str, is_observed: bool) -> Graph:
    b = GraphBuilder(name)
    x = b.source("x", (8, 6), "float32")
    state = b.source("state", (6, 6), "float32", "optimizer_state")
    b.source("unread", (5, 5), "float32")
    y = contract(b, "y", x, state, "sc,cd->sd")
    unread = cell(b, "unread_too", TANH, (y,))
    if is_observed:
        b.sink(unread, site="read")
    gradient = contract(b, "gradient", x, y, "sc,sd->cd")
    b.sink(gradient, site="seen")
    b.sink(cell(b, "step", ADD, (state, gradient)), site="next", carries="state")
    b.sink(x, site="as it is")
    b.sink(cell(b, "last", TANH, (y,)))
    return b.build()


def priced() -> Graph:
    """Build blocks whose flops and bytes the program itself specifies, before and behind a sequence point."""
    b = GraphBuilder("priced")
    x, w = b.source("x", (12, 10), "float32"), weight(b, "w", 10, 6)
    table = cost_table({"flops": 1e9, "gpu": 1}, {"m": {"flops": 2.5e8, "bytes": 64}, "k": {"gpu": 2}})
    labels = (("m", "k"), ("k", "n"))
    (y,) = b.apply("contract", (x, w), site="y", costs=table, labels=labels, output=("m", "n"))
    moved = cost_table({"bytes": 4096})
    b.sink(y, site="early")
    point = b.sequence_point(("early", "y"))
    dims = (("a", 12), ("b", 6))
    (z,) = b.apply(
        "cell",
        (y,),
        site="z",
        after=(point,),
        costs=moved,
        expr=TANH,
        labels=(("a", "b"),),
        dims=dims,
        dtype="float32",
    )
    b.sink(z, site="late")
    return b.build()


def fusions() -> Graph:
    """Build fused blocks, four times as large as their examples: a product and its bias, attention, an update."""
    b = GraphBuilder("fusions")
    for number, example in enumerate((EXAMPLES[0], EXAMPLES[3], EXAMPLES[4])):
        reads = [
            b.source(f"x{number}.{k}", tuple(4 * n for n in kind.shape), kind.dtype)
            for k, kind in enumerate(example.inputs)
        ]
        for made in b.add("fused", reads, larger(example.attributes, 4), site=f"block{number}"):
            b.sink(made)
    return b.build()


def larger(attrs: Attributes, factor: int) -> Attributes:
    """Return the attributes of a fused block with all sizes multiplied."""

    def scaled(name: str, value: Any) -> Any:
        if name == "dims":
            return tuple((d, factor * n) for d, n in value)
        return value

    given = dict(attrs)
    body = tuple(
        (operator, tuple((k, scaled(k, v)) for k, v in own), reads) for operator, own, reads in given["body"]
    )
    types = tuple((tuple(factor * n for n in shape), dtype) for shape, dtype in given["types"])
    return attributes(body=body, types=types, results=given["results"])


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    make.__name__: make
    for make in (perceptron, convolutions, attention, embedding, joints, leftovers, observed, priced, fusions)
}

MESHES = ("dgx-h100", "2x-dgx-h100", "tpu-v5e-4x4", "cpu-node")


def random_genes(rng: np.random.Generator, space: PlanSpace) -> Genes:
    """Draw any strategy for every block; some edges prefetch up to four blocks ahead, some cut their shared copy."""
    edges = space.edge_count
    return Genes(
        space.with_state(rng.integers(0, space.space.strategy_count).astype(np.int64)),
        np.where(rng.random(edges) < 0.4, rng.integers(0, 5, edges), 0),
        (rng.random(edges) < 0.3).astype(np.int64),
    )
