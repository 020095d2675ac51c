"""Moving of reshapes through operators with named dimensions: a name is factored, or factors are merged.

It does not matter to a contraction or a cell whether `batch * sequence` is one dimension or two. If every operand
has all of the factors side by side, or none, the reshape may be on either side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import Labels, any_cell
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest
from tapestry.rewrites.selectors.reshapes import ROW_MAJOR, parts_of
from tapestry.rewrites.selectors.viewing import X, at
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression

NAMES = ROW_MAJOR + "; index spaces may be factored"


class Factored(NamedTuple):
    """Adjacent names, and the names and sizes that replace them."""

    old: Labels
    new: Labels
    sizes: tuple[int, ...]


def _factored(
    names: Labels, shape: Sequence[int], wanted: Sequence[int], taken: Sequence[str]
) -> list[Factored] | None:
    """Compute the replacements for the names of a tensor that is reshaped; None if a name has no origin."""
    found: list[Factored] = []
    for part in parts_of(shape, wanted):
        if part.same:
            continue
        old = tuple(names[k] for k in part.before)
        if not old or "" in old:
            return None
        new = tuple(
            _fresh(f"{old[0]}{j}", (*taken, *(n for f in found for n in f.new)))
            for j in range(len(part.after))
        )
        found.append(Factored(old, new, tuple(wanted[k] for k in part.after)))
    return found or None


def _fresh(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _regrouped(
    names: Labels, shape: Sequence[int], factored: Sequence[Factored]
) -> tuple[Labels, tuple[int, ...]] | None:
    """Replace all factors in names and sizes; None if names that belong together are missing or apart."""
    own, sizes = list(names), list(shape)
    for old, new, new_sizes in factored:
        if not set(old) & set(own):
            continue
        first = own.index(old[0]) if old[0] in own else 0
        if tuple(own[first : first + len(old)]) != old:
            return None
        own[first : first + len(old)] = new
        sizes[first : first + len(old)] = new_sizes
    return tuple(own), tuple(sizes)


def _uses(expr: Expression, names: set[str]) -> bool:
    return (expr[0] == "index" and expr[1] in names) or any(
        _uses(p, names) for p in expr[1:] if isinstance(p, tuple)
    )


def _operands(
    m: Match, sites: Sequence[str], labels: Sequence[Labels], factored: Sequence[Factored]
) -> tuple[list[Term], tuple[Labels, ...]] | None:
    """Reshape the operands that have changing names, and relabel them; None if that is impossible."""
    terms: list[Term] = []
    renamed: list[Labels] = []
    for site, own in zip(sites, labels, strict=True):
        shape = m.edited.tensors[site].shape
        found = _regrouped(own, shape, factored)
        if found is None:
            return None
        terms.append(at(site) if found[0] == own else op("reshape", at(site), shape=found[1]))
        renamed.append(found[0])
    return terms, tuple(renamed)


def _cell_reshaped(m: Match) -> Mapping[str, Any] | None:
    names, shape = tuple(n for n, _ in m["dims"]), m.shape("y")
    factored = _factored(names, shape, m["shape"], names)
    if factored is None or _uses(m["expr"], {n for f in factored for n in f.old}):
        return None
    found, result = _operands(m, m["xs"], m["labels"], factored), _regrouped(names, shape, factored)
    if found is None or result is None:
        return None
    dims = tuple(zip(*result, strict=True))
    return {"made": op("cell", *found[0], expr=m["expr"], labels=found[1], dims=dims, dtype=m["dtype"])}


def _contract_reshaped(m: Match) -> Mapping[str, Any] | None:
    output, taken = m["output"], [n for own in m["labels"] for n in own]
    factored = _factored(output, m.shape("y"), m["shape"], taken)
    found = None if factored is None else _operands(m, m["xs"], m["labels"], factored)
    result = None if factored is None else _regrouped(output, m.shape("y"), factored)
    if found is None or result is None:
        return None
    return {"made": op("contract", *found[0], labels=found[1], output=result[0])}


def _root_first(
    m: Match, taken: Sequence[str]
) -> tuple[list[Term], tuple[Labels, ...], list[Factored]] | None:
    """Put the root of the reshape in its place among the operands, with the factors that change, or None."""
    k = len(m["before"])
    factored = _factored(m["labels"][k], m.shape("y"), m.shape("x"), taken)
    others = None
    if factored is not None:
        sites, labels = (*m["before"], *m["after"]), (*m["labels"][:k], *m["labels"][k + 1 :])
        others = _operands(m, sites, labels, factored)
    own = None if factored is None else _regrouped(m["labels"][k], m.shape("y"), factored)
    if factored is None or others is None or own is None:
        return None
    (terms, labels), (renamed, _) = others, own
    return [*terms[:k], X, *terms[k:]], (*labels[:k], renamed, *labels[k:]), factored


def _cell_of_root(m: Match) -> Mapping[str, Any] | None:
    names = tuple(n for n, _ in m["dims"])
    found = _root_first(m, names)
    if found is None or _uses(m["expr"], {n for f in found[2] for n in f.old}):
        return None
    terms, labels, factored = found
    result = _regrouped(names, m.result().shape, factored)
    if result is None:
        return None
    dims = tuple(zip(*result, strict=True))
    return {"made": op("cell", *terms, expr=m["expr"], labels=labels, dims=dims, dtype=m["dtype"])}


def _contract_of_root(m: Match) -> Mapping[str, Any] | None:
    found = _root_first(m, [n for own in m["labels"] for n in own])
    result = None if found is None else _regrouped(m["output"], m.result().shape, found[2])
    if found is None or result is None:
        return None
    return {"made": op("contract", *found[0], labels=found[1], output=result[0])}


def _shaped(m: Match) -> Sequence[Op]:
    return [op("reshape", m["made"], shape=m.result().shape)]


def _cell_graph(name: str, size: ExampleSizes, after: bool) -> Graph:
    b = ExampleBuilder(name)
    x, bias = b.tensor("x", size(3), 6 if after else 2, *(() if after else (3,))), b.tensor("bias", 1)
    rows = b.shape(x)[0]
    read = x if after else b.op("reshape", x, shape=(rows, 6))
    y = b.cell(("mul", ("tanh", ("input", 0)), ("input", 1)), {read: "rc", bias: "-"})
    return b.result(b.op("reshape", y, shape=(rows, 3, 2)) if after else y)


def _contract_graph(name: str, size: ExampleSizes, after: bool) -> Graph:
    b = ExampleBuilder(name)
    heads, width = size(2, least=2), size(3, least=2)
    x = b.tensor("x", 4, 3) if after else b.tensor("x", 2, 2, 3)
    w = b.tensor("w", 3, heads * width, role="parameter")
    y = b.contract("mk,kn->mn", x if after else b.op("reshape", x, shape=(4, 3)), w)
    return b.result(b.op("reshape", y, shape=(4, heads, width)) if after else y)


CELL_OF_RESHAPE = any_cell(rest("before"), op("reshape", X).only_here().named("y"), rest("after"))
CONTRACT_OF_RESHAPE = op(
    "contract",
    rest("before"),
    op("reshape", X).only_here().named("y"),
    rest("after"),
    labels=attr("labels"),
    output=attr("output"),
)
CONTRACT = op("contract", rest("xs"), labels=attr("labels"), output=attr("output")).only_here().named("y")

REFACTORING: tuple[Rule, ...] = (
    Rule(
        name="reshape_of_cell",
        left=op("reshape", any_cell(rest("xs")).only_here().named("y"), shape=attr("shape")),
        right=computed(lambda m: [m["made"]]),
        where=_cell_reshaped,
        doc="""
        A cell is computed in the shape in which it is read.

        reshape(cell(x, y))  ->  cell(reshape(x), reshape(y))
        Where operands have all of what is split or merged, side by side, or nothing of it, and no coordinate of it is
        used.
        """,
        source=NAMES,
        example=lambda size: _cell_graph("reshape_of_cell", size, after=True),
    ),
    Rule(
        name="reshape_of_contract",
        left=op("reshape", CONTRACT, shape=attr("shape")),
        right=computed(lambda m: [m["made"]]),
        where=_contract_reshaped,
        doc="""
        A contraction is computed in the shape in which it is read: its operands have the factors as names.

        reshape(x[m, k] w[k, h d])  ->  x[m, k] reshape(w)[k, h, d]
        Where operands have all of what is split or merged, side by side, or nothing of it. The factors can be split
        over devices then.
        """,
        source=NAMES,
        example=lambda size: _contract_graph("reshape_of_contract", size, after=True),
        domain="real",
    ),
    Rule(
        name="cell_of_reshape",
        left=CELL_OF_RESHAPE,
        right=computed(_shaped),
        where=lambda m: None if m["y"] in (*m["before"], *m["after"]) else _cell_of_root(m),
        doc="""
        A cell is computed in the shape in which its operand was made.

        cell(reshape(x))  ->  reshape(cell(x))
        Where other operands and the result have all of what was split or merged, side by side, or nothing of it.
        """,
        source=NAMES,
        example=lambda size: _cell_graph("cell_of_reshape", size, after=False),
    ),
    Rule(
        name="contract_of_reshape",
        left=CONTRACT_OF_RESHAPE,
        right=computed(_shaped),
        where=lambda m: None if m["y"] in (*m["before"], *m["after"]) else _contract_of_root(m),
        doc="""
        A contraction is computed in the shape in which its operand was made.

        reshape(x)[b s, k] w[k, n]  ->  reshape(x[b, s, k] w[k, n])
        Where other operands and the result have all of what was split or merged, side by side, or nothing of it.
        """,
        source=NAMES,
        example=lambda size: _contract_graph("contract_of_reshape", size, after=False),
        domain="real",
    ),
)
