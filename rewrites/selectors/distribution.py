"""Distribution over concatenations: readers are computed part by part; no copy, independent parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import Labels, any_cell, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest
from tapestry.rewrites.selectors.cuts import SelectorCut, cut_cell, cut_of
from tapestry.rewrites.selectors.viewing import at
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.views import ViewMap

# Every part is a block of its own, with its own launch: more of them never pay.
MOST_PARTS = 8

# How two partial results of a reduction are combined.
COMBINED: Mapping[str, str] = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "min": "min",
    "any": "or",
    "all": "and",
}
CONCAT = op("concat", rest("parts"), axis=attr("axis")).only_here().named("y")
SOURCE = "definition of concatenation; linearity of sums"


class CutPiece(NamedTuple):
    """A part of the concatenation: its tensor, and its start and end along the concatenated dimension."""

    site: str
    start: int
    end: int


def pieces(m: Match) -> list[CutPiece]:
    """List the nonempty parts of the matched concatenation."""
    axis = m["axis"]
    sizes = [t.shape[axis] for t in m.types("parts")]
    ends = accumulate(sizes)
    found = (CutPiece(s, e - n, e) for s, n, e in zip(m["parts"], sizes, ends, strict=True))
    return [p for p in found if p.end > p.start]


def _operands(m: Match) -> tuple[str, ...]:
    return (*m["before"], m["y"], *m["after"])


def _joined_name(m: Match) -> str:
    """Return the reader's name of the concatenated dimension."""
    return str(m["labels"][len(m["before"])][m["axis"]])


def _is_read_once(m: Match) -> bool:
    return _operands(m).count(m["y"]) == 1 and 2 <= len(pieces(m)) <= MOST_PARTS


def _slice_along(sizes: Mapping[str, int], name: str, piece: CutPiece) -> ViewMap:
    """Build the view of a part along one of the named dimensions."""
    names, shape = list(sizes), tuple(sizes.values())
    start = replaced_at((0,) * len(shape), names.index(name), piece.start)
    return sliced(shape, start, replaced_at(shape, names.index(name), piece.end))


def _cuts(m: Match, sizes: Mapping[str, int]) -> Iterator[tuple[SelectorCut, ViewMap, list[Term]]]:
    """Yield, for each part, the slices of the operands; the concatenation itself is replaced by the part."""
    for piece in pieces(m):
        view = _slice_along(sizes, _joined_name(m), piece)
        found = cut_of(m, view, tuple(sizes), _operands(m), m["labels"])
        terms = found.terms(m)
        yield found, view, [*terms[: len(m["before"])], at(piece.site), *terms[len(m["before"]) + 1 :]]


def _sizes(m: Match) -> dict[str, int]:
    """Return the sizes of all names that the operands have."""
    shapes = [m.edited.tensors[s].shape for s in _operands(m)]
    return {
        n: s
        for names, shape in zip(m["labels"], shapes, strict=True)
        for n, s in zip(names, shape, strict=True)
    }


def _cell_part(found: SelectorCut, view: ViewMap, terms: Sequence[Term]) -> Op:
    return op("cell", *terms, given=lambda m: cut_cell(m, view, found))


def _cell_by_parts(m: Match) -> Sequence[Op]:
    sizes = dict(m["dims"])
    cells = [_cell_part(*part) for part in _cuts(m, sizes)]
    return [op("concat", *cells, axis=list(sizes).index(_joined_name(m)))]


def _sum(terms: Sequence[Term], monoid: str) -> Op:
    """Combine the terms element by element."""

    def given(m: Match) -> Mapping[str, Any]:
        shape, dtype = m.result()
        return pointwise(_chain(COMBINED[monoid], len(terms)), (_dims(shape),) * len(terms), shape, dtype)

    return op("cell", *terms, given=given).named("combined")


def _dims(shape: Sequence[int]) -> Labels:
    return tuple(f"d{k}" for k in range(len(shape)))


def _chain(function: str, count: int) -> tuple[Any, ...]:
    expr: tuple[Any, ...] = ("input", 0)
    for k in range(1, count):
        expr = (function, expr, ("input", k))
    return expr


def _contract_by_parts(m: Match) -> Sequence[Op]:
    output, name = m["output"], _joined_name(m)
    contracts = [
        op("contract", *terms, labels=m["labels"], output=output) for _, _, terms in _cuts(m, _sizes(m))
    ]
    return [op("concat", *contracts, axis=output.index(name)) if name in output else _sum(contracts, "sum")]


def _reduce_by_parts(m: Match) -> Sequence[Op]:
    name, keep = m["labels"][m["axis"]], m["keep"] or ()
    same = {"monoid": m["monoid"], "labels": m["labels"], "output": m["output"], "keep": keep}
    given = same if m["scale"] is None else {**same, "scale": m["scale"]}
    reductions = [op("reduce", at(p.site), given=lambda _: given) for p in pieces(m)]
    if name not in m["output"]:
        return [_sum(reductions, m["monoid"])]
    rank = len(m["output"]) + len(keep)
    kept = [k for k in range(rank) if k not in keep]
    return [op("concat", *reductions, axis=kept[m["output"].index(name)])]


def _may_reduce(m: Match) -> bool:
    summed = m["labels"][m["axis"]] not in m["output"]
    return 2 <= len(pieces(m)) <= MOST_PARTS and (not summed or m["monoid"] in COMBINED)


def _joined(b: ExampleBuilder, size: ExampleSizes) -> str:
    rows = size(3)
    return b.op("concat", *(b.tensor(f"x{k}", rows, size(k + 2)) for k in range(3)), axis=1)


def _cell_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cell_of_concat")
    whole = _joined(b, size)
    bias = b.tensor("bias", b.shape(whole)[1])
    scaled = ("mul", ("input", 0), ("cast", "float32", ("index", "c")))
    return b.result(b.cell(("add", scaled, ("input", 1)), {whole: "rc", bias: "c"}))


def _contract_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("contract_of_concat")
    summed, free = _joined(b, size), b.op("concat", b.tensor("y0", 2, 3), b.tensor("y1", size(2), 3), axis=0)
    w = b.tensor("w", b.shape(summed)[1], size(4), role="parameter")
    v = b.tensor("v", 3, size(2), role="parameter")
    return b.result(b.contract("mk,kn->mn", summed, w), b.contract("kn,mk->nm", v, free))


def _reduce_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_concat")
    wholes = [b.op("concat", *(b.tensor(f"{n}{k}", 3, size(k + 2)) for k in range(2)), axis=1) for n in "xy"]
    total = b.op("reduce", wholes[0], monoid="sum", labels=("r", "c"), output=("r",), keep=(1,), scale=0.5)
    return b.result(
        total, b.op("reduce", wholes[1], monoid="max", labels=("r", "c"), output=("c",), keep=(0,))
    )


DISTRIBUTION: tuple[Rule, ...] = (
    Rule(
        name="cell_of_concat",
        left=any_cell(rest("before"), CONCAT, rest("after")),
        right=computed(_cell_by_parts),
        when=lambda m: _is_read_once(m) and _joined_name(m) in dict(m["dims"]),
        doc="""
        A cell of a concatenation is computed part by part.

        cell(concat(a, b), z)  ->  concat(cell(a, z's first part), cell(b, z's second part))
        Where nobody else reads the concatenation, of a few parts. Not for saturation: cells may fuse with what
        makes the parts, but there are more of them.
        """,
        source=SOURCE,
        example=_cell_example,
    ),
    Rule(
        name="contract_of_concat",
        left=op(
            "contract", rest("before"), CONCAT, rest("after"), labels=attr("labels"), output=attr("output")
        ),
        right=computed(_contract_by_parts),
        when=_is_read_once,
        doc="""
        A contraction of a concatenation is computed part by part.

        concat(a, b) w  ->  a w1 + b w2 where the parts are summed over, else concat(a w, b w)
        Where nobody else reads the concatenation, of a few parts; other operands are sliced likewise.
        """,
        source=SOURCE,
        example=_contract_example,
        domain="real",
    ),
    Rule(
        name="reduce_of_concat",
        left=op(
            "reduce",
            CONCAT,
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=computed(_reduce_by_parts),
        when=_may_reduce,
        doc="""
        A reduction of a concatenation is computed part by part.

        sum(concat(a, b))  ->  sum(a) + sum(b) where the parts are summed over, else concat(sum(a), sum(b))
        Where nobody else reads the concatenation, of a few parts; partial results combine by the monoid.
        """,
        source=SOURCE,
        example=_reduce_example,
        domain="real",
    ),
)
