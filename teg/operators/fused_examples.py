"""Examples of fused blocks for contract tests and documentation: the most common fusions of compilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.graph import Attributes, TensorType, attributes
from tapestry.teg.operators.operator import OperatorExample

BodyStep = tuple[str, Attributes, tuple[int, ...]]


def _cell(
    expr: Any, labels: Sequence[str], dims: dict[str, int], reads: Sequence[int], dtype: str
) -> BodyStep:
    names = tuple(tuple(text) for text in labels)
    return (
        "cell",
        attributes(expr=expr, labels=names, dims=tuple(dims.items()), dtype=dtype),
        tuple(reads),
    )


def _contract(text: str, reads: Sequence[int]) -> BodyStep:
    left, right = text.split("->")
    labels = tuple(tuple(part) for part in left.split(","))
    return "contract", attributes(labels=labels, output=tuple(right)), tuple(reads)


def _reduce(monoid: str, text: str, reads: Sequence[int]) -> BodyStep:
    labels, output = text.split("->")
    return "reduce", attributes(monoid=monoid, labels=tuple(labels), output=tuple(output)), tuple(reads)


def _fused(
    shapes: Sequence[tuple[int, ...]],
    body: Sequence[BodyStep],
    outputs: Sequence[int],
    dtype: str = "float32",
) -> OperatorExample:
    types = tuple(TensorType(shape, dtype) for shape in shapes)
    specified = tuple((shape, dtype) for shape in shapes)
    return OperatorExample(attributes(body=tuple(body), types=specified, results=tuple(outputs)), types)


_X, _Y, _Z = ("input", 0), ("input", 1), ("input", 2)
_MASKED = (
    "where",
    ("le", ("index", "t"), ("index", "s")),
    ("mul", _X, ("const", 0.5)),
    ("const", -1e9),
)


def _biased(dtype: str) -> OperatorExample:
    """Build an example of a contraction, its bias and relu."""
    dims = {"m": 4, "n": 5}
    body = (
        _contract("mk,kn->mn", (0, 1)),
        _cell(("max", ("add", _X, _Y), ("const", 0.0)), ("mn", "n"), dims, (3, 2), dtype),
    )
    return _fused([(4, 6), (6, 5), (5,)], body, (4,), dtype)


def _softmax() -> OperatorExample:
    """Build an example of a softmax written out."""
    dims, rows = {"r": 4, "c": 6}, ("rc", "r")
    body = (
        _reduce("max", "rc->r", (0,)),
        _cell(("exp", ("sub", _X, _Y)), rows, dims, (0, 1), "float32"),
        _reduce("sum", "rc->r", (2,)),
        _cell(("div", _X, _Y), rows, dims, (2, 3), "float32"),
    )
    return _fused([(4, 6)], body, (4,))


def _attention() -> OperatorExample:
    """Build an example of scores, a causal mask, softmax and the weighted sum; two query heads share one of keys."""
    dims = {"b": 2, "h": 2, "s": 4, "t": 5}
    body = (
        _contract("bhsd,btd->bhst", (0, 1)),
        _cell(_MASKED, ("bhst",), dims, (3,), "float32"),
        ("softmax", attributes(axes=(3,)), (4,)),
        _contract("bhst,bte->bshe", (5, 2)),
    )
    return _fused([(2, 2, 4, 3), (2, 5, 3), (2, 5, 3)], body, (6,))


def _update() -> OperatorExample:
    """Build an example of the update of a parameter and its momentum from the gradient: two outputs."""
    dims, both = {"r": 4, "c": 3}, ("rc", "rc")
    body = (
        _cell(("add", ("mul", ("const", 0.9), _X), _Y), both, dims, (2, 1), "float32"),
        _cell(("sub", _X, ("mul", ("const", 0.1), _Y)), both, dims, (0, 3), "float32"),
    )
    return _fused([(4, 3)] * 3, body, (4, 3))


def _norm() -> OperatorExample:
    """Build an example of a cell into a sum that parts may share: the squared norm of a difference."""
    square = ("square", ("sub", _X, _Y))
    body = (
        _cell(square, ("rc", "rc"), {"r": 4, "c": 6}, (0, 1), "float32"),
        _reduce("sum", "rc->c", (2,)),
    )
    return _fused([(4, 6), (4, 6)], body, (3,))


def _prologue() -> OperatorExample:
    """Build an example of a cell recomputed by every column of the product that reads it; the sum is shared."""
    gate = ("mul", _X, ("sigmoid", _Y))
    body = (
        _cell(gate, ("mk", "mk"), {"m": 4, "k": 6}, (0, 1), "float32"),
        _contract("mk,kn->mn", (3, 2)),
    )
    return _fused([(4, 6), (4, 6), (6, 5)], body, (4,))


EXAMPLES: tuple[OperatorExample, ...] = (
    _biased("float32"),
    _biased("bfloat16"),
    _softmax(),
    _attention(),
    _update(),
    _norm(),
    _prologue(),
)
