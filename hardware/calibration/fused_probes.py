"""Programs of one block that no line of a user's program makes: moves, gated activations, and fused blocks."""

from __future__ import annotations

from typing import Any

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph, attributes

FLOAT = "float32"
_X, _Y = ("input", 0), ("input", 1)


def _built(builder: GraphBuilder, result: str) -> Graph:
    builder.sink(result)
    return builder.build()


def _cell(expr: Any, labels: Any, dims: Any) -> Any:
    return "cell", attributes(expr=expr, labels=labels, dims=dims, dtype=FLOAT)


def copied(rows: int, row: int) -> Graph:
    """Build the join of two halves of a matrix: frameworks copy nothing for a move alone."""
    b = GraphBuilder("probe")
    halves = [b.source(name, (rows // 2, row), FLOAT) for name in ("x", "y")]
    return _built(b, b.apply("concat", tuple(halves), site="joined", axis=0)[0])


def transposed(rows: int, row: int) -> Graph:
    """Build the join of two halves of a matrix, both transposed, as one fused block."""
    b = GraphBuilder("probe")
    halves = [b.source(name, (rows // 2, row), FLOAT) for name in ("x", "y")]
    turned = "contract", attributes(labels=(("r", "c"),), output=("c", "r"))
    body = ((*turned, (0,)), (*turned, (1,)), ("concat", attributes(axis=0), (2, 3)))
    types = (((rows // 2, row), FLOAT),) * 2
    return _built(b, b.apply("fused", tuple(halves), site="joined", body=body, types=types, results=(4,))[0])


def gated(rows: int, row: int) -> Graph:
    """Build the product of a matrix and the activation of another, as one cell."""
    b = GraphBuilder("probe")
    for name in ("x", "y"):
        b.source(name, (rows, row), FLOAT)
    dims, names = (("r", rows), ("c", row)), ("r", "c")
    expr = ("mul", ("silu", _X), _Y)
    return _built(
        b,
        b.apply("cell", ("x", "y"), site="gated", expr=expr, labels=(names,) * 2, dims=dims, dtype=FLOAT)[0],
    )


def normalized(rows: int, row: int) -> Graph:
    """Build the division of rows by their root mean square, and their scaling, as one fused block."""
    b = GraphBuilder("probe")
    b.source("x", (rows, row), FLOAT)
    b.source("scale", (row,), FLOAT, "parameter")
    names, dims = ("r", "c"), (("r", rows), ("c", row))
    mean = ("add", ("mul", _X, ("const", 1.0 / row)), ("const", 1e-5))
    scaled = ("mul", ("mul", _X, _Y), ("input", 2))
    body = (
        (*_cell(("square", _X), (names,), dims), (0,)),
        ("reduce", attributes(monoid="sum", labels=names, output=("r",)), (2,)),
        (*_cell(("rsqrt", mean), (("r",),), dims[:1]), (3,)),
        (*_cell(scaled, (names, ("r",), ("c",)), dims), (0, 4, 1)),
    )
    types = (((rows, row), FLOAT), ((row,), FLOAT))
    return _built(b, b.apply("fused", ("x", "scale"), site="norm", body=body, types=types, results=(5,))[0])


def activated_product(m: int, n: int, k: int) -> Graph:
    """Build a product with a bias and an activation of its outputs, as one fused block."""
    b = GraphBuilder("probe")
    b.source("x", (m, k), FLOAT)
    b.source("w", (k, n), FLOAT, "parameter")
    b.source("bias", (n,), FLOAT, "parameter")
    body = (
        ("contract", attributes(labels=(("m", "k"), ("k", "n")), output=("m", "n")), (0, 1)),
        (*_cell(("relu", ("add", _X, _Y)), (("m", "n"), ("n",)), (("m", m), ("n", n))), (3, 2)),
    )
    types = (((m, k), FLOAT), ((k, n), FLOAT), ((n,), FLOAT))
    return _built(
        b, b.apply("fused", ("x", "w", "bias"), site="layer", body=body, types=types, results=(4,))[0]
    )


def attention(batch: int, heads: int, length: int, width: int) -> Graph:
    """Build softmax(q k / sqrt(width)) v for so many heads, as one fused block."""
    b = GraphBuilder("probe")
    shape = (batch, heads, length, width)
    for name in ("q", "k", "v"):
        b.source(name, shape, FLOAT)
    scores, names = ("b", "h", "s", "t"), ("b", "h", "s", "d")
    dims = (("b", batch), ("h", heads), ("s", length), ("t", length))
    body = (
        ("contract", attributes(labels=(names, ("b", "h", "t", "d")), output=scores), (0, 1)),
        (*_cell(("mul", _X, ("const", width**-0.5)), (scores,), dims), (3,)),
        ("softmax", attributes(axes=(3,)), (4,)),
        ("contract", attributes(labels=(scores, ("b", "h", "t", "e")), output=("b", "h", "s", "e")), (5, 2)),
    )
    return _built(
        b,
        b.apply("fused", ("q", "k", "v"), site="mixed", body=body, types=((shape, FLOAT),) * 3, results=(6,))[
            0
        ],
    )
