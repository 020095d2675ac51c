"""Algebra of contractions: merging, factoring, flattening, and scales that move through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewrites.cell_form import ADD, INPUT, MULTIPLY, Labels, any_cell, dim_labels, pointwise
from rewrites.laws import Whole
from rewrites.patterns import K
from rewrites.rule import Match, Rule, Sizes, attr, op, pick, rest, tensor
from rewrites.sketch import Sketch, replaced_at
from teg.dtypes import is_float
from teg.graph import Graph
from teg.operators.selectors import sliced, view_attributes

X, W, V = tensor("x"), tensor("w"), tensor("v")
SCALE = ("mul", INPUT, ("const", K))
EINSUM = "distributivity and associativity of sums of products (Einstein notation)"


def renaming(old: Sequence[Labels], new: Sequence[Labels]) -> Mapping[str, str] | None:
    """The names of `old` for those of `new` where both say the same of equal operands, else None."""
    if [len(a) for a in old] != [len(b) for b in new]:
        return None
    names: dict[str, str] = {}
    for a, b in zip((n for part in old for n in part), (n for part in new for n in part), strict=True):
        if names.setdefault(b, a) != a:
            return None
    return names if len(set(names.values())) == len(names) else None


def _agree(m: Match) -> bool:
    """Whether both contractions are the same but for the names and the second operand."""
    return renaming((*m["l1"], m["o1"]), (*m["l2"], m["o2"])) is not None


def _free_names(m: Match) -> list[str]:
    """The output names that only the second operands have, where these agree in all others."""
    (x, w), output = m["l1"], m["o1"]
    one, two = m.type("w"), m.type("v")
    found = []
    for k, name in enumerate(w):
        others = all(a == b for j, (a, b) in enumerate(zip(one.shape, two.shape, strict=True)) if j != k)
        if name in output and name not in x and others:
            found.append(name)
    return found


def _may_merge(m: Match) -> bool:
    return bool(_agree(m) and m["w"] != m["v"] and m.dtype("w") == m.dtype("v") and _free_names(m))


def _part(m: Match, k: int) -> Mapping[str, Any]:
    """The k-th result as a slice of the wide one along the chosen name."""
    axis = m["o1"].index(m.choice)
    first, own = m.result(0).shape, m.result(k).shape
    wide = replaced_at(first, axis, first[axis] + m.result(1).shape[axis])
    start = replaced_at((0,) * len(wide), axis, first[axis] if k else 0)
    end = tuple(s + n for s, n in zip(start, own, strict=True))
    return dict(view_attributes(sliced(wide, start, end)))


WIDE = op(
    "contract",
    X,
    op("concat", W, V, axis=lambda m: m["l1"][1].index(m.choice)).named("weights"),
    labels=attr("l1"),
    output=attr("o1"),
).named("wide")


def _sum_of_both(m: Match) -> bool:
    """Whether the cell adds the two contractions element by element, and these agree but for names."""
    names = tuple(name for name, _ in m["dims"])
    same = m["labels"] == (names, names) and m.type("w") == m.type("v")
    return bool(same and _agree(m) and m["dtype"] == m.result().dtype and m.dtype("y1") == m["dtype"])


def _inner_names(m: Match) -> Mapping[str, str]:
    """The names of the inner contraction as the outer one may call them."""
    outer: Labels = m["labels"][len(m["before"])]
    taken = {n for part in m["labels"] for n in part}
    names = dict(zip(m["inner_output"], outer, strict=True))
    for name in (n for part in m["inner_labels"] for n in part):
        fresh, k = name, 1
        while name not in names and fresh in taken:
            fresh, k = f"{name}_{k}", k + 1
        names.setdefault(name, fresh)
        taken.add(names[name])
    return names


def _flat_labels(m: Match) -> tuple[Labels, ...]:
    names, at = _inner_names(m), len(m["before"])
    inner = tuple(tuple(names[n] for n in part) for part in m["inner_labels"])
    return (*m["labels"][:at], *inner, *m["labels"][at + 1 :])


def _keeps_order(m: Match, labels: str = "cell_labels", dims: str = "cell_dims") -> bool:
    """Whether the cell reads its only operand element by element."""
    return bool(m[labels] == (tuple(name for name, _ in m[dims]),))


def _scaled(m: Match, name: str) -> Mapping[str, Any]:
    """Attributes of the cell that scales a tensor by k."""
    kind = m.draft.tensors[name].type
    expr = ("mul", INPUT, ("const", m["k"]))
    return pointwise(expr, (dim_labels(len(kind.shape)),), kind.shape, kind.dtype)


def _is_sum_of_products(m: Match) -> bool:
    labels = m["cell_labels"]
    named = {n for part in labels for n in part}
    plain = not m["keep"] and m["scale"] in (None, 1.0) and "" not in named
    kinds = {t.dtype for t in (m.type("x"), m.type("w"))}
    return bool(plain and named == {n for n, _ in m["cell_dims"]} and kinds == {m["cell_dtype"]} != {"bool"})


def _product_names(m: Match, names: Labels) -> Labels:
    """The reduction's names as the cell calls them."""
    return tuple(m["cell_dims"][m["labels"].index(n)][0] for n in names)


def _merge_example(size: Sizes) -> Graph:
    b = Sketch("merge_contracts")
    x = b.tensor("x", size(2), size(3), size(4))
    width, heads = b.shape(x)[2], size(2)
    q = b.tensor("q", width, heads, size(3), role="parameter")
    k = b.tensor("k", width, heads, b.shape(q)[2], role="parameter")
    late = b.contract("xyz,zuv->xuyv", x, k)
    return b.result(b.contract("bsd,dhe->bhse", x, q), late)


def _factor_example(size: Sizes) -> Graph:
    b = Sketch("factor_contracts")
    x = b.tensor("x", size(3), size(4))
    w, v = (b.tensor(n, b.shape(x)[1], 5, role="parameter") for n in "wv")
    one, two = b.contract("mk,kn->mn", x, w), b.contract("ba,cb->ca", v, x)
    w_shape = b.shape(w)
    other = b.tensor("u", *w_shape, role="parameter")
    three = b.contract("ik,kj->ij", x, other)
    return b.result(b.cell(ADD, {one: "mn", three: "mn"}), two)


def _flatten_example(size: Sizes) -> Graph:
    b = Sketch("flatten_contract")
    a, c, d = b.tensor("a", size(3), size(4)), b.tensor("c", 4, size(5)), b.tensor("d", size(2), 5)
    c = b.tensor("e", b.shape(a)[1], 5)
    return b.result(b.contract("kj,ij->ik", d, b.contract("ik,kj->ij", a, c)))


def _scale_out_example(size: Sizes) -> Graph:
    b = Sketch("scale_out_of_contract")
    x = b.tensor("x", size(3), size(4))
    half = b.cell(("mul", INPUT, ("const", 0.5)), {x: "mk"})
    return b.result(b.contract("mk,nk->mn", half, b.tensor("w", size(5), b.shape(x)[1])))


def _scale_into_example(size: Sizes) -> Graph:
    b = Sketch("scale_into_contract")
    x = b.tensor("x", size(3), size(4))
    y = b.contract("mk,nk->mn", x, b.tensor("w", size(5), b.shape(x)[1]))
    return b.result(b.cell(("mul", INPUT, ("const", 0.125)), {y: "mn"}))


def _product_example(size: Sizes) -> Graph:
    b = Sketch("contract_of_product")
    x = b.tensor("x", size(3), size(4))
    product = b.cell(MULTIPLY, {x: "mk", b.tensor("w", b.shape(x)[1], size(5)): "kn"})
    return b.result(b.op("reduce", product, monoid="sum", labels=("a", "b", "c"), output=("c", "a")))


def _contract(name: str, labels: str, output: str, other: Any) -> Any:
    """A contraction of `x` with another tensor, either way round."""
    return op("contract", X, other, labels=attr(labels), output=attr(output)).commutative().named(name)


CONTRACTIONS: tuple[Rule, ...] = (
    Rule(
        name="merge_contracts",
        left=(_contract("y1", "l1", "o1", W), _contract("y2", "l2", "o2", V)),
        right=(
            op("view", WIDE, given=lambda m: _part(m, 0)).named("first"),
            op("view", WIDE, given=lambda m: _part(m, 1)).named("second"),
        ),
        when=_may_merge,
        choices=_free_names,
        doc="""
        Two contractions of one tensor become a wider one, and two views of its result.

        x w, x v  ->  y[:n], y[n:] with y = x concat(w, v)
        Where both say the same but for names, and the other operands may be put together along a dimension
        that the shared one lacks; several such dimensions are choices. Columns of a product are independent.
        """,
        source="Jia et al., TASO, SOSP 2019, figure 2 (merging multiplications that share an operand)",
        example=_merge_example,
        domain="real",
    ),
    Rule(
        name="factor_contracts",
        left=op(
            "cell",
            _contract("y1", "l1", "o1", W).only_here(),
            _contract("y2", "l2", "o2", V).only_here(),
            expr=ADD,
            labels=attr("labels"),
            dims=attr("dims"),
            dtype=attr("dtype"),
        ),
        right=op(
            "contract",
            X,
            op(
                "cell",
                W,
                V,
                given=lambda m: pointwise(
                    ADD, (dim_labels(len(m.shape("w"))),) * 2, m.shape("w"), m.dtype("w")
                ),
            ).named("sum"),
            labels=attr("l1"),
            output=attr("o1"),
        ),
        when=_sum_of_both,
        doc="""
        Two contractions of one tensor that are added become one.

        x w + x v  ->  x (w + v)
        Where both say the same but for names, and nobody else reads them.
        """,
        source=EINSUM,
        example=_factor_example,
        domain="real",
    ),
    Rule(
        name="flatten_contract",
        left=op(
            "contract",
            rest("before"),
            op(
                "contract", rest("inner"), labels=attr("inner_labels"), output=attr("inner_output")
            ).only_here(),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "contract",
            rest("before"),
            rest("inner"),
            rest("after"),
            labels=_flat_labels,
            output=attr("output"),
        ),
        doc="""
        A contraction inside another is spread out, so that its order may be chosen anew.

        (a b) c  ->  a b c
        Where nobody else reads the inner one. Not for saturation: the flat form is slower as it stands.
        """,
        source=EINSUM,
        example=_flatten_example,
        domain="real",
    ),
    Rule(
        name="scale_out_of_contract",
        left=op(
            "contract",
            rest("before"),
            any_cell(X, prefix="cell_", inside=Whole(SCALE)).only_here().named("scaled"),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "cell",
            op("contract", rest("before"), X, rest("after"), labels=attr("labels"), output=attr("output")),
            given=lambda m: _scaled(m, m.roots[0].outputs[0]),
        ),
        when=lambda m: _keeps_order(m) and m.dtype("x") == m["cell_dtype"] and is_float(m["cell_dtype"]),
        doc="""
        A scale of an operand becomes a scale of the result.

        (k x) w  ->  k (x w)
        Where nobody else reads the scaled operand. Not for saturation: which side is smaller depends.
        """,
        source=EINSUM,
        example=_scale_out_example,
        domain="real",
    ),
    Rule(
        name="scale_into_contract",
        left=any_cell(
            op("contract", rest("xs"), labels=attr("labels"), output=attr("output")).only_here().named("y"),
            prefix="cell_",
            inside=Whole(SCALE),
        ),
        right=op(
            "contract",
            pick(lambda m: m["xs"][: int(m.choice)]),
            op(
                "cell",
                pick(lambda m: [m["xs"][int(m.choice)]]),
                given=lambda m: _scaled(m, m["xs"][int(m.choice)]),
            ).named("scaled"),
            pick(lambda m: m["xs"][int(m.choice) + 1 :]),
            labels=attr("labels"),
            output=attr("output"),
        ),
        when=lambda m: (
            _keeps_order(m)
            and is_float(m["cell_dtype"])
            and {t.dtype for t in m.types("xs")} == {m["cell_dtype"]}
        ),
        choices=lambda m: [str(k) for k in range(len(m["xs"]))],
        doc="""
        A scale of a contraction becomes a scale of one of its operands; which one is the choice.

        k (x w)  ->  (k x) w  or  x (k w)
        Where nobody else reads the unscaled result. Not for saturation: which side is smaller depends.
        """,
        source=EINSUM,
        example=_scale_into_example,
        domain="real",
    ),
    Rule(
        name="contract_of_product",
        left=op(
            "reduce",
            op(
                "cell",
                X,
                W,
                expr=MULTIPLY,
                labels=attr("cell_labels"),
                dims=attr("cell_dims"),
                dtype=attr("cell_dtype"),
            ).only_here(),
            monoid="sum",
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=op(
            "contract", X, W, labels=attr("cell_labels"), output=lambda m: _product_names(m, m["output"])
        ),
        when=_is_sum_of_products,
        doc="""
        A sum of products is a contraction.

        sum_k (x[m, k] w[k, n])  ->  x w
        Where every dimension of the product is named by an operand, and nobody else reads it. Not for
        saturation, which would undo every `expand_contract`.
        """,
        source="definition of a contraction",
        example=_product_example,
        domain="real",
    ),
)
