"""Partial sums with their own dimension, and linear operators on either side of the sum that combines them.

The sum that combines the partial results of devices is the collective. A linear operator may be before it, on every
device, or after it, once: the smaller side should cross the mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapestry.rewrites.cell_form import ADD, Labels, any_cell, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.laws import Whole
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, computed, op, rest, tensor
from tapestry.rewrites.selectors.viewing import at
from tapestry.teg.graph import Graph

X, Y = tensor("x"), tensor("y")
COUNTS = (2, 4, 8)
LINEAR = "linearity of sums"


def any_sum(of: Term, prefix: str = "") -> Op:
    """Build the left-side pattern of a sum, its attributes bound to `prefix` + labels, output, keep, scale."""
    names = {name: attr(prefix + name) for name in ("labels", "output", "keep", "scale")}
    return Op("reduce", (of,), (("monoid", "sum"), *names.items()))


def sum_given(m: Match, prefix: str = "") -> Mapping[str, Any]:
    """Return the attributes that `any_sum` bound."""
    given = {"monoid": "sum", "labels": m[prefix + "labels"], "output": m[prefix + "output"]}
    optional = {k: m[prefix + k] for k in ("keep", "scale") if m[prefix + k] is not None}
    return {**given, **optional}


def _fresh(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _splits(sizes: Mapping[str, int], output: Labels) -> list[str]:
    """List `name:count` for every dimension that is combined and every count that divides it."""
    return [
        f"{name}:{count}"
        for name, size in sizes.items()
        if name not in output
        for count in COUNTS
        if size % count == 0 and size > count
    ]


def _chosen(m: Match) -> tuple[str, int]:
    name, _, count = m.choice.rpartition(":")
    return name, int(count)


def _sizes(m: Match) -> dict[str, int]:
    """Return the sizes of all names of a contraction."""
    pairs = zip(m["labels"], m.types("xs"), strict=True)
    return {n: s for names, (shape, _) in pairs for n, s in zip(names, shape, strict=True)}


def _in_parts(site: str, shape: Sequence[int], axis: int, count: int) -> Op:
    """Reshape an operand to split a dimension into parts and the positions in a part."""
    new = (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :])
    return op("reshape", at(site), shape=new)


def _split_contract(m: Match) -> Sequence[Op]:
    (name, count), sizes = _chosen(m), _sizes(m)
    part, output = _fresh(f"{name}_parts", tuple(sizes)), m["output"]
    terms: list[Term] = []
    labels: list[Labels] = []
    for site, own, kind in zip(m["xs"], m["labels"], m.types("xs"), strict=True):
        if name in own:
            k = own.index(name)
            terms.append(_in_parts(site, kind.shape, k, count))
            labels.append((*own[:k], part, *own[k:]))
        else:
            terms.append(at(site))
            labels.append(own)
    partial = op("contract", *terms, labels=tuple(labels), output=(part, *output)).named("partial")
    return [op("reduce", partial, monoid="sum", labels=(part, *output), output=output)]


def _reduced(m: Match) -> dict[str, int]:
    return dict(zip(m["labels"], m.shape("x"), strict=True))


def _split_reduce(m: Match) -> Sequence[Op]:
    (name, count), own, output = _chosen(m), m["labels"], m["output"]
    part, k = _fresh(f"{name}_parts", own), own.index(name)
    given = {n: m[n] for n in ("keep", "scale") if m[n] is not None}
    inner = op(
        "reduce",
        _in_parts(m["x"], m.shape("x"), k, count),
        monoid=m["monoid"],
        labels=(*own[:k], part, *own[k:]),
        output=(part, *output),
    ).named("partial")
    return [op("reduce", inner, monoid=m["monoid"], labels=(part, *output), output=output, **given)]


def _adds(m: Match) -> bool:
    """Return whether the cell adds elementwise two sums with equal attributes of tensors of equal type."""
    names = tuple(n for n, _ in m["cell_dims"])
    same = all(m[k] == m["other_" + k] for k in ("labels", "output", "keep", "scale"))
    return bool(
        same
        and m["cell_labels"] == (names, names)
        and m.type("x") == m.type("y")
        and m["cell_dtype"] == m.dtype("x")
    )


def _sum_of_added(m: Match) -> Sequence[Op]:
    shape, dtype = m.type("x")
    given = pointwise(ADD, (dim_labels(len(shape)),) * 2, shape, dtype)
    added = op("cell", X, Y, given=lambda _: given).named("added")
    return [op("reduce", added, given=sum_given)]


def _adds_whole(m: Match) -> bool:
    names = tuple(n for n, _ in m["cell_dims"])
    return bool(m["cell_labels"] == (names, names) and {m["cell_dtype"]} == {m.dtype("x"), m.dtype("y")})


def _added_sums(m: Match) -> Sequence[Op]:
    shape, dtype = m.result()
    given = pointwise(ADD, (dim_labels(len(shape)),) * 2, shape, dtype)
    return [op("cell", *(op("reduce", t, given=sum_given) for t in (X, Y)), given=lambda _: given)]


def _summed_names(m: Match) -> Labels | None:
    """Return the contraction's names of what a reduction of its operand summed; None if sizes 1 are kept."""
    if m["sum_keep"] or m["sum_scale"] not in (None, 1.0):
        return None
    outer = dict(zip(m["sum_output"], m["labels"][len(m["before"])], strict=True))
    taken = [n for own in m["labels"] for n in own]
    names: list[str] = []
    for name in m["sum_labels"]:
        names.append(outer[name] if name in outer else _fresh(f"{name}_summed", [*taken, *names]))
    return tuple(names)


def _private_names(m: Match) -> Iterator[tuple[int, Labels]]:
    """Yield, per operand, the names that are summed and that no other operand has."""
    for k, own in enumerate(m["labels"]):
        others = {n for j, names in enumerate(m["labels"]) if j != k for n in names}
        alone = tuple(n for n in own if n not in others and n not in m["output"])
        if alone:
            yield k, alone


def _summed_first(m: Match) -> Sequence[Op]:
    k = int(m.choice)
    own, alone = m["labels"][k], dict(_private_names(m))[k]
    left = tuple(n for n in own if n not in alone)
    terms: list[Term] = [at(site) for site in m["xs"]]
    terms[k] = op("reduce", at(m["xs"][k]), monoid="sum", labels=own, output=left).named("summed")
    return [op("contract", *terms, labels=replaced_at(m["labels"], k, left), output=m["output"])]


def _contract_names(m: Match) -> Labels:
    """Return the contraction's names of the output that remains after a reduction sums some of it."""
    return tuple(m["inner_output"][m["labels"].index(n)] for n in m["output"])


def _split_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("split_contraction")
    width = 4 * size(2)
    w = b.tensor("w", width, size(4), role="parameter")
    return b.result(b.contract("mk,kn->mn", b.tensor("x", size(3), width), w))


def _split_reduce_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("split_reduction")
    x = b.tensor("x", size(3), 4 * size(2))
    return b.result(b.op("reduce", x, monoid="sum", labels=("r", "c"), output=("r",), keep=(1,), scale=0.5))


def _sum(b: ExampleBuilder, x: str) -> str:
    return b.op("reduce", x, monoid="sum", labels=("p", "m", "n"), output=("n", "m"))


def _add_of_sums_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("add_of_sums")
    shape = (size(4), size(3), size(2))
    one, two = (_sum(b, b.tensor(n, *shape)) for n in "xy")
    return b.result(b.cell(ADD, {one: "nm", two: "nm"}))


def _sum_of_adds_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("sum_of_adds")
    shape = (size(4), size(3), size(2))
    return b.result(_sum(b, b.cell(ADD, {b.tensor("x", *shape): "pmn", b.tensor("y", *shape): "pmn"})))


def _into_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("sum_into_contract")
    x = b.tensor("x", size(4), size(3), size(2))
    w = b.tensor("w", b.shape(x)[2], size(5), role="parameter")
    return b.result(b.contract("km,kp->mp", _sum(b, x), w))


def _out_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("sum_out_of_contract")
    x = b.tensor("x", size(4), size(3), size(2))
    w = b.tensor("w", b.shape(x)[2], size(5), role="parameter")
    return b.result(b.contract("pmk,kn->mn", x, w))


def _of_contract_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("sum_of_contract")
    x = b.tensor("x", size(4), size(3), size(2))
    w = b.tensor("w", size(5), b.shape(x)[2], role="parameter")
    return b.result(_sum(b, b.contract("pmk,nk->pmn", x, w)))


PARTIAL_SUMS: tuple[Rule, ...] = (
    Rule(
        name="split_contraction",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=computed(_split_contract),
        when=lambda m: len(m["xs"]) == 2,
        choices=lambda m: _splits(_sizes(m), m["output"]),
        doc="""
        A sum of products is made in parts, side by side, which are then added.

        sum_k x[m, k] w[k, n]  ->  sum_c (sum_j x[m, c, j] w[c, j, n])
        Of two operands, where k = c j, of choice `k:c`: the parts are a dimension like others, so that what follows
        may be linear in them, and short rows with long sums find work for all devices.
        """,
        source="Osama et al., Stream-K, PPoPP 2023, section 3 (split-K)",
        example=_split_example,
        domain="real",
    ),
    Rule(
        name="split_reduction",
        left=op(
            "reduce",
            X,
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=computed(_split_reduce),
        choices=lambda m: _splits(_reduced(m), m["output"]),
        doc="""
        A reduction is made in parts, side by side, which are then combined.

        sum_k x[k]  ->  sum_c (sum_j x[c, j])
        Where k = c j, of choice `k:c`. A monoid does not care where brackets stand.
        """,
        source="Blelloch, Prefix Sums and Their Applications, 1990",
        example=_split_reduce_example,
        domain="real",
    ),
    Rule(
        name="add_of_sums",
        left=any_cell(
            any_sum(X).only_here(), any_sum(Y, "other_").only_here(), prefix="cell_", inside=Whole(ADD)
        ),
        right=computed(_sum_of_added),
        when=_adds,
        doc="""
        Two sums that are added become the sum of what is added: one collective instead of two.

        (sum_p x) + (sum_p y)  ->  sum_p (x + y)
        Where both sum the same dimensions of equal shapes, and nobody else reads them.
        """,
        source=LINEAR,
        example=_add_of_sums_example,
        domain="real",
    ),
    Rule(
        name="sum_of_adds",
        left=any_sum(any_cell(X, Y, prefix="cell_", inside=Whole(ADD)).only_here()),
        right=computed(_added_sums),
        when=_adds_whole,
        doc="""
        The sum of what is added becomes two sums that are added: less is added.

        sum_p (x + y)  ->  (sum_p x) + (sum_p y)
        Where both are added element by element, and nobody else reads it.
        """,
        source=LINEAR,
        example=_sum_of_adds_example,
        domain="real",
    ),
    Rule(
        name="sum_into_contract",
        left=op(
            "contract",
            rest("before"),
            any_sum(X, "sum_").only_here(),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "contract",
            rest("before"),
            X,
            rest("after"),
            labels=lambda m: replaced_at(m["labels"], len(m["before"]), m["names"]),
            output=attr("output"),
        ),
        where=lambda m: None if (names := _summed_names(m)) is None else {"names": names},
        doc="""
        A contraction sums what its operand was summed over: the collective moves behind it.

        (sum_p x) w  ->  sum_p (x w)
        Where nobody else reads the sum. More products, but partial sums are combined once, in the result.
        """,
        source=LINEAR,
        example=_into_example,
        domain="real",
    ),
    Rule(
        name="sum_out_of_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=computed(_summed_first),
        when=lambda m: len(m["xs"]) > 1,
        choices=lambda m: [str(k) for k, _ in _private_names(m)],
        doc="""
        What only one operand is summed over is summed first: the collective moves in front.

        sum_p (x w)  ->  (sum_p x) w
        Where no other operand has the name, of the operand of the choice. Fewer products.
        """,
        source=LINEAR,
        example=_out_example,
        domain="real",
    ),
    Rule(
        name="sum_of_contract",
        left=any_sum(
            op("contract", rest("xs"), labels=attr("inner_labels"), output=attr("inner_output")).only_here()
        ),
        right=op("contract", rest("xs"), labels=attr("inner_labels"), output=_contract_names),
        when=lambda m: not m["keep"] and m["scale"] in (None, 1.0),
        doc="""
        A sum over dimensions of a contraction is summed by the contraction.

        sum_m (x w)  ->  x w without m
        Where nobody else reads the contraction. Not for saturation, which would undo every `split_contraction`.
        """,
        source=LINEAR,
        example=_of_contract_example,
        domain="real",
    ),
)
