"""Exchange of lookups with readers: each row of a small table is computed once, not once per lookup."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import Labels, any_cell
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.patterns import parts_of
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, op, rest, tensor
from tapestry.rewrites.selectors.viewing import given
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import permuted

TABLE, INDICES = tensor("table"), tensor("indices")
GATHER = (
    op("gather", TABLE, INDICES, axis=attr("axis"), aligned=None, mode=attr("mode")).named("rows").only_here()
)
ONE_HOT = any_cell(INDICES, prefix="hot_").only_here()
CONTRACT: dict[str, Any] = {"labels": attr("labels"), "output": attr("output")}
COMPOSITION = "a lookup is a composition of functions"
ENTRY = "entry"


def _is_one_hot(m: Match) -> bool:
    """Return whether the cell is one where the position is the table's row, and zero elsewhere."""
    (hot,), names = m["hot_labels"], [n for n, _ in m["hot_dims"]]
    entry = [n for n in names if n not in hot]
    labels, table = m["labels"]
    if len(entry) != 1 or "" in hot or m.dtype("table") != m["hot_dtype"] or not _counts(m):
        return False
    compared = (("eq", ("input", 0), ("index", entry[0])), ("eq", ("index", entry[0]), ("input", 0)))
    meant = [(("cast", m["hot_dtype"], c)) for c in compared]
    summed, positions = labels[names.index(entry[0])], _positions(m)
    free = [*positions, *(n for n in table if n != summed)]
    plain = len(set(free)) == len(free) and sorted(free) == sorted(m["output"])
    return m["hot_expr"] in meant and plain and table.count(summed) == 1 and is_float(m["hot_dtype"])


def _counts(m: Match) -> bool:
    """Return whether positions are whole numbers."""
    return m.dtype("indices") != "bool" and not is_float(m.dtype("indices"))


def _positions(m: Match) -> Labels:
    """Return the contraction's names of the dimensions of positions, in their order."""
    (hot,), names = m["hot_labels"], [n for n, _ in m["hot_dims"]]
    return tuple(m["labels"][0][names.index(n)] for n in hot)


def _summed(m: Match) -> int:
    """Return the dimension of the table that positions index."""
    free = {*_positions(m)}
    return next(k for k, n in enumerate(m["labels"][1]) if n in m["labels"][0] and n not in free)


def _found_names(m: Match) -> Labels:
    """Return the names of the gathered tensor."""
    table, axis = m["labels"][1], _summed(m)
    return (*table[:axis], *_positions(m), *table[axis + 1 :])


def _as_wanted(m: Match) -> Mapping[str, Any]:
    """Build the view from the gathered tensor to the contraction's result."""
    names = _found_names(m)
    sizes = dict(zip(m["output"], m.result().shape, strict=True))
    order = [names.index(n) for n in m["output"]]
    return given(permuted([sizes[n] for n in names], order))


def _rows_for_lookups(m: Match) -> bool:
    """Return whether the table has no more rows than are looked up."""
    return bool(m.shape("table")[m["axis"]] <= math.prod(m.shape("indices")))


def _looked_up(m: Match, names: Labels) -> Labels:
    """Return the names of a reader that run along positions."""
    return names[m["axis"] : m["axis"] + len(m.shape("indices"))]


def _entries_named(m: Match, names: Labels) -> Labels:
    """Translate a reader's names of the gathered rows to names of the table."""
    after = m["axis"] + len(m.shape("indices"))
    return (*names[: m["axis"]], ENTRY, *names[after:])


def _place_of(m: Match, names: Labels, output: Labels) -> int | None:
    """Find the start of the dimensions of positions in a result; None unless they are adjacent and in order."""
    looked = _looked_up(m, names)
    if not looked or looked[0] not in output or len(set(names)) != len(names) or "" in names:
        return None
    start = output.index(looked[0])
    return start if output[start : start + len(looked)] == looked else None


def _moves_behind_contract(m: Match) -> bool:
    k = len(m["before"])
    names = m["labels"][k]
    others = {n for j, part in enumerate(m["labels"]) if j != k for n in part}
    apart = not others & set(_looked_up(m, names)) and ENTRY not in {*others, *names}
    return apart and _rows_for_lookups(m) and _place_of(m, names, m["output"]) is not None


def _result_of_entries(m: Match, names: Labels, output: Labels) -> Labels:
    place = _place_of(m, names, output)
    assert place is not None
    return (*output[:place], ENTRY, *output[place + len(m.shape("indices")) :])


def _moves_behind_cell(m: Match) -> bool:
    k, dims = len(m["before"]), tuple(n for n, _ in m["dims"])
    names = m["labels"][k]
    others = {n for j, part in enumerate(m["labels"]) if j != k for n in part}
    place = _place_of(m, names, dims)
    looked = _looked_up(m, names)
    coordinates = [("index", n) for n in looked]
    unread = not others & set(looked) and not any(e in coordinates for e in parts_of(m["expr"]).values())
    return place is not None and unread and _rows_for_lookups(m) and ENTRY not in dims and m["mode"] != "fill"


def _cell_of_entries(m: Match) -> Mapping[str, Any]:
    k, dims = len(m["before"]), dict(m["dims"])
    names = tuple(dims)
    labels = replaced_at(m["labels"], k, _entries_named(m, m["labels"][k]))
    sizes = {**dims, ENTRY: m.shape("table")[m["axis"]]}
    new = _result_of_entries(m, m["labels"][k], names)
    return {
        "expr": m["expr"],
        "labels": labels,
        "dims": tuple((n, sizes[n]) for n in new),
        "dtype": m["dtype"],
    }


def _lookup(made: Op, axis: Any) -> Op:
    """Gather from the computed rows, in the same way as from the original rows."""
    return op(
        "gather", made, INDICES, axis=axis, given=lambda m: {} if m["mode"] is None else {"mode": m["mode"]}
    )


def _one_hot_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("gather_of_one_hot")
    table, rows = (
        b.tensor("table", size(5), size(3), role="parameter"),
        b.tensor("rows", size(2), 3, dtype="int64"),
    )
    dims = (("a", b.shape(rows)[0]), ("b", 3), ("v", b.shape(table)[0]))
    expr = ("cast", "float32", ("eq", ("index", "v"), ("input", 0)))
    hot = b.op("cell", rows, expr=expr, labels=(("a", "b"),), dims=dims, dtype="float32")
    return b.result(b.contract("abv,vc->acb", hot, table))


def _positions_of(b: ExampleBuilder, entries: int, count: int) -> str:
    """Build positions that lie within a table."""
    expr = ("mod", ("index", "a"), ("const", entries))
    return b.op("cell", expr=expr, labels=(), dims=(("a", count),), dtype="int64", site="positions")


def _contract_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("gather_of_contract")
    table = b.tensor("table", 2, 3, size(4), role="parameter")
    found = b.op("gather", table, _positions_of(b, 3, 3 + size(3)), axis=1)
    w = b.tensor("w", b.shape(table)[2], size(5), role="parameter")
    return b.result(b.contract("kn,bsk->bsn", w, found))


def _cell_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("gather_of_cell")
    table = b.tensor("table", 3, size(4), role="parameter")
    found = b.op("gather", table, _positions_of(b, 3, 3 + size(3)), axis=0)
    bias = b.tensor("bias", b.shape(table)[1], role="parameter")
    return b.result(b.cell(("tanh", ("add", ("input", 0), ("input", 1))), {found: "sc", bias: "c"}))


EXCHANGED_LOOKUPS: tuple[Rule, ...] = (
    Rule(
        name="gather_of_one_hot",
        left=op("contract", ONE_HOT, TABLE, **CONTRACT).commutative(),
        right=op(
            "view",
            op("gather", TABLE, INDICES, axis=_summed, mode="fill").named("rows"),
            given=_as_wanted,
        ),
        when=_is_one_hot,
        doc="""
        A product with one-hot rows is a lookup.

        onehot(indices) table  ->  table[indices], zero where there is no such row
        For floats, where nobody else reads the one-hot rows: they are zero but for one element.
        """,
        source="definition of one-hot encoding",
        example=_one_hot_example,
        domain="real",
    ),
    Rule(
        name="gather_of_contract",
        left=op("contract", rest("before"), GATHER, rest("after"), **CONTRACT),
        right=_lookup(
            op(
                "contract",
                rest("before"),
                TABLE,
                rest("after"),
                labels=lambda m: replaced_at(
                    m["labels"], len(m["before"]), _entries_named(m, m["labels"][len(m["before"])])
                ),
                output=lambda m: _result_of_entries(m, m["labels"][len(m["before"])], m["output"]),
            ).named("entries"),
            lambda m: _place_of(m, m["labels"][len(m["before"])], m["output"]),
        ),
        when=_moves_behind_contract,
        doc="""
        What is looked up and then multiplied is multiplied once per row of the table.

        table[i] w  ->  (table w)[i]
        Where the table has no more rows than are looked up, and nobody else reads these: rows are independent. Of a
        table and weights that do not change, the product is computed once and for all.
        """,
        source=COMPOSITION,
        example=_contract_example,
        domain="real",
    ),
    Rule(
        name="gather_of_cell",
        left=any_cell(rest("before"), GATHER, rest("after")),
        right=_lookup(
            op("cell", rest("before"), TABLE, rest("after"), given=_cell_of_entries).named("entries"),
            lambda m: _place_of(m, m["labels"][len(m["before"])], tuple(n for n, _ in m["dims"])),
        ),
        when=_moves_behind_cell,
        doc="""
        What is looked up and then computed element by element is computed once per row of the table.

        f(table[i], z)  ->  f(table, z)[i]
        Where z does not vary with the position, the table has no more rows than are looked up, and nobody else reads
        these. Not for saturation: a cell behind a lookup may fuse with what reads it.
        """,
        source=COMPOSITION,
        example=_cell_example,
    ),
)
