"""Moving of slices towards the sources: only the elements of a result that are read are computed.

Each law has two forms. A view that only permutes dimensions costs the producer nothing, which then
writes in that order; a view that selects reduces what the producer reads of its operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import CellForm, CellRead, Labels, any_cell, bound_cell, cell
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, op, parts, rest
from tapestry.rewrites.selectors.viewing import X, any_view, at, cut_like, is_whole, origins, seen, view_of
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import permuted, selected, sliced
from tapestry.teg.views import ViewMap

SELECTION = (
    "a selection commutes with what is computed element by element (Iverson, A Programming Language, 1962)"
)
ORDER = "labels of index spaces name dimensions, so their order is free"


class SelectorCut(NamedTuple):
    """The slice that a view selects: the names of its dimensions, and per operand site, view and labels."""

    names: Labels
    operands: tuple[tuple[str, ViewMap, Labels], ...]

    @property
    def labels(self) -> tuple[Labels, ...]:
        return tuple(labels for _, _, labels in self.operands)

    def terms(self, m: Match) -> list[Term]:
        """Build the operands through their views."""
        return [seen(at(site), view, m.edited.tensors[site].shape) for site, view, _ in self.operands]


def only_reorders(m: Match) -> bool:
    """Return whether the view shows every element of `y` once: dimensions of size 1 may be added or dropped."""
    view, shape = view_of(m), m.shape("y")
    new = [n for n, k in zip(view.shape, origins(view), strict=True) if k < 0]
    kept = [is_whole(view, shape, k) or (d.dim < 0 and shape[k] == 1) for k, d in enumerate(view.dims)]
    return all(n == 1 for n in new) and all(kept)


def selects(m: Match) -> bool:
    """Return whether the view of `y` leaves elements out, and repeats none."""
    view = view_of(m)
    return -1 not in origins(view) and not only_reorders(m) and 0 not in view.shape


def cut_of(
    m: Match, view: ViewMap, names: Labels, sites: Sequence[str], labels: Sequence[Labels]
) -> SelectorCut:
    """Compute the slice for a view of a result with these names, made from operands with these labels."""
    operands = []
    for site, own in zip(sites, labels, strict=True):
        followed = [names.index(n) if n and n in names else None for n in own]
        looked = cut_like(view, m.edited.tensors[site].shape, followed)
        kept = (n for n, f in zip(own, followed, strict=True) if f is None or view.dims[f].dim >= 0)
        operands.append((site, looked, tuple(kept)))
    return SelectorCut(tuple(names[k] if k >= 0 else "" for k in origins(view)), tuple(operands))


def _cell_names(m: Match) -> Labels:
    return tuple(name for name, _ in m["dims"])


def _cell_cut(m: Match) -> SelectorCut:
    return cut_of(m, view_of(m), _cell_names(m), m["xs"], m["labels"])


def _moved(expr: Expression, names: Labels, view: ViewMap) -> Expression:
    """Rewrite coordinates of the whole in the expression in terms of those of the view."""
    if expr[0] == "index":
        d = view.dims[names.index(expr[1])]
        if d.dim < 0:
            return ("cast", "int64", ("const", d.offset))
        scaled: Expression = expr if d.stride == 1 else ("mul", expr, ("const", d.stride))
        return scaled if d.offset == 0 else ("add", scaled, ("const", d.offset))
    return tuple(_moved(part, names, view) if isinstance(part, tuple) else part for part in expr)


def cut_cell(m: Match, view: ViewMap, found: SelectorCut) -> Mapping[str, Any]:
    """Build the attributes of the matched cell if it computes only the elements that a view selects."""
    return {
        "expr": _moved(m["expr"], _cell_names(m), view),
        "labels": found.labels,
        "dims": tuple(zip(found.names, view.shape, strict=True)),
        "dtype": m["dtype"],
    }


def _reordered_cell(m: Match) -> CellForm:
    """Build the cell that computes what the view shows; new dimensions of size 1 get names of their own."""
    form, view, names = bound_cell(m, m["xs"]), view_of(m), _cell_names(m)
    longest = max(map(len, names), default=0)
    shown = (names[k] if k >= 0 else f"one{j}".ljust(longest + 1, "_") for j, k in enumerate(origins(view)))
    gone = {names[k] for k, d in enumerate(view.dims) if d.dim < 0}
    reads = tuple(CellRead(r.site, tuple("" if n in gone else n for n in r.labels)) for r in form.reads)
    dims = tuple(zip(shown, view.shape, strict=True))
    return CellForm(reads, _moved(form.expr, names, view), dims, form.dtype).normal()


def _contract_cut(m: Match) -> SelectorCut:
    return cut_of(m, view_of(m), m["output"], m["xs"], m["labels"])


def _reduced_names(m: Match) -> Labels:
    """Return the names of a reduction's result, "" where a dimension of size 1 is kept."""
    names, keep = iter(m["output"]), m["keep"] or ()
    return tuple("" if k in keep else next(names) for k in range(len(m["output"]) + len(keep)))


def _reduce_cut(m: Match) -> SelectorCut:
    return cut_of(m, view_of(m), _reduced_names(m), (m["x"],), (m["labels"],))


def _reduce_given(m: Match) -> Mapping[str, Any]:
    """Build the attributes of the reduction that computes the elements of the view."""
    found = _reduce_cut(m)
    result = {
        "monoid": m["monoid"],
        "labels": found.labels[0],
        "output": tuple(n for n in found.names if n),
        "keep": tuple(j for j, n in enumerate(found.names) if not n),
    }
    return result if m["scale"] is None else {**result, "scale": m["scale"]}


def _reorders_contract(m: Match) -> bool:
    return only_reorders(m) and len(m.shape("y")) == len(m["shape"]) and -1 not in origins(view_of(m))


def _reorders_reduce(m: Match) -> bool:
    """Return whether the view drops only dimensions that the reduction keeps at size 1."""
    pairs = zip(view_of(m).dims, _reduced_names(m), strict=True)
    return only_reorders(m) and all(d.dim >= 0 or not name for d, name in pairs)


def _cell_graph(name: str, size: ExampleSizes, cuts: bool) -> Graph:
    b = ExampleBuilder(name)
    x, bias = b.tensor("x", size(3), size(4, least=3)), b.tensor("bias", size(2), 1)
    scaled = ("mul", ("input", 0), ("cast", "float32", ("index", "c")))
    dims = (("r", b.shape(x)[0]), ("one", 1), ("c", b.shape(x)[1]), ("s", b.shape(bias)[0]))
    expr = ("add", scaled, ("input", 1))
    y = b.op("cell", x, bias, expr=expr, labels=(("r", "c"), ("s", "one")), dims=dims, dtype="float32")
    shape = b.shape(y)
    if cuts:
        stepped = sliced(shape, (0, 0, 1, 0), shape, (1, 1, 2, 1))
        return b.result(b.view(y, stepped), b.view(y, selected(shape, 2, 1)))
    return b.result(b.view(y, selected(shape, 1, 0).then(permuted((shape[0], *shape[2:]), (2, 0, 1)))))


def _contract_graph(name: str, size: ExampleSizes, cuts: bool) -> Graph:
    b = ExampleBuilder(name)
    x = b.tensor("x", size(2), size(4, least=2), size(3))
    y = b.contract("bmk,kn->bmn", x, b.tensor("w", b.shape(x)[2], size(5), role="parameter"))
    shape = b.shape(y)
    return b.result(b.view(y, sliced(shape, (0, 1, 0), shape) if cuts else permuted(shape, (2, 0, 1))))


def _reduce_graph(name: str, size: ExampleSizes, cuts: bool) -> Graph:
    b = ExampleBuilder(name)
    x = b.tensor("x", size(3, least=2), size(4), size(2))
    y = b.op("reduce", x, monoid="sum", labels=("a", "b", "c"), output=("c", "a"), keep=(1,), scale=0.5)
    shape = b.shape(y)
    return b.result(b.view(y, selected(shape, 2, 1) if cuts else permuted(shape, (2, 1, 0))))


def _cell() -> Op:
    return any_cell(rest("xs")).named("y")


def _contract() -> Op:
    return op("contract", rest("xs"), labels=attr("labels"), output=attr("output")).named("y")


def _reduce() -> Op:
    return op(
        "reduce",
        X,
        monoid=attr("monoid"),
        labels=attr("labels"),
        output=attr("output"),
        keep=attr("keep"),
        scale=attr("scale"),
    ).named("y")


CUTS: tuple[Rule, ...] = (
    Rule(
        name="reorder_cell",
        left=any_view(_cell().only_here()),
        right=cell(_reordered_cell),
        when=only_reorders,
        doc="""
        A cell writes its result in the order in which it is read.

        permute(cell(x))  ->  cell'(x)
        Where nobody else reads it and the view shows all of it; dimensions of size 1 may come and go.
        """,
        source=ORDER,
        example=lambda size: _cell_graph("reorder_cell", size, cuts=False),
        saturating=True,
    ),
    Rule(
        name="reorder_contract",
        left=any_view(_contract().only_here()),
        right=op(
            "contract",
            rest("xs"),
            labels=attr("labels"),
            output=lambda m: tuple(m["output"][k] for k in origins(view_of(m))),
        ),
        when=_reorders_contract,
        doc="""
        A contraction writes its result in the order in which it is read.

        permute(x w)  ->  x w with its output names permuted
        Where nobody else reads it and the view is a permutation.
        """,
        source=ORDER,
        example=lambda size: _contract_graph("reorder_contract", size, cuts=False),
        domain="real",
        saturating=True,
    ),
    Rule(
        name="reorder_reduce",
        left=any_view(_reduce().only_here()),
        right=op("reduce", X, given=_reduce_given),
        when=_reorders_reduce,
        doc="""
        A reduction writes its result in the order in which it is read.

        permute(sum x)  ->  sum x with its output names permuted
        Where nobody else reads it and the view shows all of it; dimensions of size 1 are kept or not.
        """,
        source=ORDER,
        example=lambda size: _reduce_graph("reorder_reduce", size, cuts=False),
        domain="real",
        saturating=True,
    ),
    Rule(
        name="cut_cell",
        left=any_view(_cell()),
        right=op(
            "cell",
            parts(lambda m: _cell_cut(m).terms(m)),
            given=lambda m: cut_cell(m, view_of(m), _cell_cut(m)),
        ),
        when=selects,
        doc="""
        Of a cell only what is looked at is computed.

        slice(cell(x, y))  ->  cell(slice(x), slice(y))
        Where the view leaves something out. The whole may be read elsewhere too, and what both need is then
        computed twice: the search decides.
        """,
        source=SELECTION,
        duplicates=True,
        example=lambda size: _cell_graph("cut_cell", size, cuts=True),
    ),
    Rule(
        name="cut_contract",
        left=any_view(_contract()),
        right=op(
            "contract",
            parts(lambda m: _contract_cut(m).terms(m)),
            labels=lambda m: _contract_cut(m).labels,
            output=lambda m: _contract_cut(m).names,
        ),
        when=selects,
        doc="""
        Of a contraction only what is looked at is computed.

        (x w)[rows, columns]  ->  x[rows] w[:, columns]
        Where the view leaves something out. The whole may be read elsewhere too: the search decides.
        """,
        source="definition of a contraction",
        duplicates=True,
        example=lambda size: _contract_graph("cut_contract", size, cuts=True),
        domain="real",
    ),
    Rule(
        name="cut_reduce",
        left=any_view(_reduce()),
        right=op("reduce", parts(lambda m: _reduce_cut(m).terms(m)), given=_reduce_given),
        when=selects,
        doc="""
        Of a reduction only what is looked at is computed.

        (sum_k x)[rows]  ->  sum_k x[rows]
        Where the view leaves something out. The whole may be read elsewhere too: the search decides.
        """,
        source="definition of a reduction",
        duplicates=True,
        example=lambda size: _reduce_graph("cut_reduce", size, cuts=True),
        domain="real",
    ),
)
