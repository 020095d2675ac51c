"""Rules about `swiglu`: recognition where a program spells it out, expansion where a search wants its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, op, pick, tensor
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph

SOURCE = "N. Shazeer, GLU Variants Improve Transformer, 2020, equation 6"

X, A, B = tensor("x"), tensor("a"), tensor("b")
GATED = ("mul", ("silu", ("input", 0)), ("input", 1))
Labels = tuple[str, ...]


def _contraction(weight: Any, prefix: str) -> Op:
    """Build the pattern of a contraction of x with a weight, read by the cell alone."""
    labels, output = attr(f"{prefix}_labels"), attr(f"{prefix}_output")
    return op("contract", X, weight, labels=labels, output=output).commutative().only_here()


def _factors(expr: Any) -> tuple[Any, ...]:
    """Return the factors of a product, however it is bracketed."""
    return (*_factors(expr[1]), *_factors(expr[2])) if expr[0] == "mul" else (expr,)


def _gate(m: Match) -> int | None:
    """Find the cell's operand that is the gate, one of two; None where the cell computes something else."""
    found = sorted(map(repr, _factors(m["expr"])))
    for i, j in ((0, 1), (1, 0)):
        gate, up = ("input", i), ("input", j)
        spelled = (("silu", gate), up), (("sigmoid", gate), gate, up)
        if found in [sorted(map(repr, factors)) for factors in spelled]:
            return i
    return None


def _renamed(m: Match) -> tuple[tuple[Labels, ...], Labels]:
    """Return labels and output of the second contraction, in the names of the first."""
    (x, w), (other_x, other_w) = m["a_labels"], m["b_labels"]
    names = dict(zip((*other_x, *other_w), (*x, *w), strict=True))
    labels = tuple(tuple(names[n] for n in part) for part in m["b_labels"])
    return labels, tuple(names[n] for n in m["b_output"])


def _is_swiglu(m: Match) -> bool:
    """Return whether both contractions do the same to dimensions and the cell gates one by the other, elementwise."""
    dtypes = {m.dtype("x"), m.dtype("a"), m.result().dtype}
    if m.type("a") != m.type("b") or len(dtypes) > 1 or not is_float(m.dtype("x")):
        return False
    (first, second), dims = m["labels"], [name for name, _ in m["dims"]]
    if first != second or sorted(first) != sorted(dims) or _gate(m) is None:
        return False
    return _renamed(m) == (m["a_labels"], m["a_output"])


def _attributes(m: Match) -> Mapping[str, Any]:
    """Return the operator's attributes, with the result's dimensions in the order in which the cell writes them."""
    written = dict(zip(m["labels"][0], m["a_output"], strict=True))
    return {"labels": m["a_labels"], "output": tuple(written[name] for name, _ in m["dims"])}


def _weights(m: Match) -> Sequence[str]:
    """Return the two weights, the gate first."""
    return (m["a"], m["b"]) if _gate(m) == 0 else (m["b"], m["a"])


def _spelled_out(size: ExampleSizes) -> Graph:
    s = ExampleBuilder("find_swiglu")
    x, n = s.tensor("x", size(3), size(4)), size(5)
    weights = [s.tensor(name, n, s.shape(x)[1], role="parameter") for name in ("up", "gate")]
    up, gate = (s.contract("mk,nk->mn", x, w) for w in weights)
    return s.result(
        s.cell(
            ("mul", ("input", 0), ("mul", ("input", 1), ("sigmoid", ("input", 1)))), {up: "mn", gate: "mn"}
        )
    )


def _whole(size: ExampleSizes) -> Graph:
    s = ExampleBuilder("expand_swiglu")
    x, n = s.tensor("x", size(2), size(3), size(4)), size(5)
    gate, up = (s.tensor(name, s.shape(x)[2], n, role="parameter") for name in ("gate", "up"))
    return s.result(s.op("swiglu", x, gate, up, labels=(tuple("bsk"), tuple("kn")), output=tuple("bsn")))


FIND_SWIGLU = Rule(
    name="find_swiglu",
    left=op(
        "cell",
        *(_contraction(A, "a"), _contraction(B, "b")),
        expr=attr("expr"),
        labels=attr("labels"),
        dims=attr("dims"),
        dtype=attr("dtype"),
    ),
    right=op("swiglu", X, pick(_weights), given=_attributes),
    doc="""
    Two contractions of one tensor, one of them the gate of the other, become one block.

    silu(x G) * (x U)  ->  swiglu(x, G, U)

    Where nobody else reads the contractions, and both treat dimensions alike. The sums are the same; they
    need not be rounded and written to memory before they are multiplied.
    """,
    source=SOURCE,
    when=_is_swiglu,
    domain="real",
    example=_spelled_out,
)


def _product(role: str) -> Op:
    weight = tensor(role)
    return op("contract", X, weight, labels=attr("labels"), output=attr("output")).named(f"{role}_product")


def _cell(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.result()
    output = m["output"]
    return {
        "expr": GATED,
        "labels": (output, output),
        "dims": tuple(zip(output, shape, strict=True)),
        "dtype": dtype,
    }


EXPAND_SWIGLU = Rule(
    name="expand_swiglu",
    left=op("swiglu", X, tensor("gate"), tensor("up"), labels=attr("labels"), output=attr("output")),
    right=op("cell", _product("gate"), _product("up"), given=_cell),
    doc="""
    A gated linear unit becomes two contractions and a product.

    swiglu(x, G, U)  ->  silu(x G) * (x U)

    Always: it is the definition. The contractions can then be split along what they sum, which the whole
    cannot, or be merged with others that read x.
    """,
    source=SOURCE,
    kind="semantic",
    domain="real",
    example=_whole,
)

RULES: tuple[Rule, ...] = (FIND_SWIGLU, EXPAND_SWIGLU)
