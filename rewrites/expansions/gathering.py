"""Gathers from small tables as matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import Labels, dim_labels
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, tensor
from tapestry.teg.graph import Graph

TABLE, INDICES = tensor("table"), tensor("indices")

# A table of so few rows is read whole without much loss.
SMALL_TABLE = 64


def _position_names(m: Match) -> Labels:
    return tuple(f"i{k}" for k in range(len(m.shape("indices"))))


def _is_small_table(m: Match) -> bool:
    """Return whether the table has few rows, read as whole slices; negative positions count from the end."""
    plain = not m["aligned"] and m["mode"] in (None, "strict")
    return bool(plain and m.shape("table")[m["axis"]] <= SMALL_TABLE and m.dtype("table") != "bool")


def _one_hot(m: Match) -> Mapping[str, Any]:
    """Build attributes of the one-hot cell: 1 where the position is the table's row; negative: from the end."""
    names = _position_names(m)
    size = m.shape("table")[m["axis"]]
    index = ("input", 0)
    wrapped = ("where", ("lt", index, ("const", 0)), ("add", index, ("const", size)), index)
    dims = (*zip(names, m.shape("indices"), strict=True), ("v", size))
    expr = ("cast", m.dtype("table"), ("eq", wrapped, ("index", "v")))
    return {"expr": expr, "labels": (names,), "dims": dims, "dtype": m.dtype("table")}


def _table_names(m: Match) -> Labels:
    names = dim_labels(len(m.shape("table")))
    return (*names[: m["axis"]], "v", *names[m["axis"] + 1 :])


def _gathered_names(m: Match) -> Labels:
    names, axis = _table_names(m), m["axis"]
    return (*names[:axis], *_position_names(m), *names[axis + 1 :])


def _gather_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("contract_of_gather")
    table = b.tensor("table", size(2), size(5), size(3), role="parameter")
    indices = b.tensor("indices", size(2), size(3), dtype="int64")
    return b.result(b.op("gather", table, indices, axis=1))


GATHERS: tuple[Rule, ...] = (
    Rule(
        name="contract_of_gather",
        left=op("gather", TABLE, INDICES, axis=attr("axis"), aligned=attr("aligned"), mode=attr("mode")),
        right=op(
            "contract",
            op("cell", INDICES, given=_one_hot).named("one_hot"),
            TABLE,
            labels=lambda m: ((*_position_names(m), "v"), _table_names(m)),
            output=_gathered_names,
        ),
        when=_is_small_table,
        doc="""
        A gather from a small table becomes a contraction with one-hot rows.

        table[indices]  ->  onehot(indices) table
        Only for tables of few rows read by whole slices, of finite numbers, which no rule can see: a row that is
        not read is multiplied by zero, so that one infinity in it would make every result no number.
        """,
        source="Jouppi et al., Ten Lessons from Three Generations of TPUs, ISCA 2021 (embedding as matrix product)",
        example=_gather_example,
        kind="semantic",
        domain="real",
    ),
)
