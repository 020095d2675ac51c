"""Views and concatenations: chains of selectors are merged, and readers read through them."""

from __future__ import annotations

from dataclasses import replace

from tapestry.rewrites.cell_form import INPUT, CellForm, CellRead, Labels, any_cell, bound_cell, cell
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at, sure
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, pick, rest
from tapestry.rewrites.selectors.viewing import X, any_view, given, relabeled, view_of
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import broadcast, permuted, sliced
from tapestry.teg.views import ViewDim, ViewMap, identity


def _through_view(m: Match) -> CellForm | None:
    """Build the cell that reads `x` instead of the view `v` of it; None if the view selects or steps."""
    form = bound_cell(m, (*m["before"], m["v"], *m["after"]))
    reads = []
    for read in form.reads:
        labels = relabeled(view_of(m), m.shape("x"), read.labels) if read.site == m["v"] else read.labels
        if labels is None:
            return None
        reads.append(CellRead(m["x"] if read.site == m["v"] else read.site, labels))
    return replace(form, reads=tuple(reads)).normal()


def _is_permutation(m: Match) -> bool:
    labels = relabeled(view_of(m), m.shape("x"), tuple(map(str, range(len(m["shape"])))))
    return labels is not None and "" not in labels and len(labels) == len(m["shape"])


def _permuted_labels(m: Match, labels: Labels) -> Labels:
    return sure(relabeled(view_of(m), m.shape("x"), labels))


def _part(m: Match) -> tuple[int, ViewMap] | None:
    """Find the part of the concatenation that contains the view, and the view of that part, or None."""
    types, view = m.types("parts"), view_of(m)
    axis = m["axis"] % len(types[0].shape)
    d = view.dims[axis]
    count = view.shape[d.dim] if d.dim >= 0 else 1
    ends = (d.offset, d.offset + d.stride * (count - 1))
    start = 0
    for k, (shape, _) in enumerate(types):
        if count and start <= min(ends) and max(ends) < start + shape[axis]:
            dims = (*view.dims[:axis], ViewDim(d.dim, d.stride, d.offset - start), *view.dims[axis + 1 :])
            return k, ViewMap(dims, view.shape)
        start += shape[axis]
    return None


def _joined(m: Match) -> ViewMap | None:
    """Merge two views of one tensor that meet along the axis into one view; None if they do not meet."""
    one, two = view_of(m), view_of(m, "other_")
    axis = m["axis"] % len(one.shape)
    dims = []
    for a, b in zip(one.dims, two.dims, strict=True):
        meets = ViewDim(a.dim, a.stride, a.offset + a.stride * one.shape[axis]) if a.dim == axis else a
        if b != meets:
            return None
        dims.append(a)
    if all(d.dim != axis for d in dims):
        return None
    return ViewMap(
        tuple(dims), (*one.shape[:axis], one.shape[axis] + two.shape[axis], *one.shape[axis + 1 :])
    )


def _rearranging(m: Match) -> ViewMap:
    """Convert the cell's labels to a view."""
    names = [name for name, _ in m["dims"]]
    dims = (ViewDim(names.index(n), 1, 0) if n else ViewDim(-1, 0, 0) for n in m["labels"][0])
    return ViewMap(tuple(dims), tuple(size for _, size in m["dims"]))


def _is_state(m: Match) -> bool:
    """Return whether a sink carries the result: it is the next value of a state."""
    return any(reader.definition.carries for reader, _ in m.edited.readers[m.roots[0].outputs[0]])


def _with_permuted(m: Match, position: int) -> tuple[Labels, ...]:
    labels: tuple[Labels, ...] = m["labels"]
    return replaced_at(labels, position, _permuted_labels(m, labels[position]))


def _view_of_view_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("view_of_view")
    x = b.tensor("x", size(3), size(6, least=3), size(4))
    v = b.view(x, permuted(b.shape(x), (2, 0, 1)))
    return b.result(b.view(v, sliced(b.shape(v), (0, 0, 1), b.shape(v), (1, 1, 2))))


def _identity_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("identity_view")
    x = b.tensor("x", size(3), size(4), dtype="int32")
    return b.result(b.view(x, identity(b.shape(x))))


def _copy_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("cell_to_view")
    x = b.tensor("x", size(4), 1)
    dims = (("row", size(3)), ("column", b.shape(x)[0]))
    return b.result(b.op("cell", x, expr=INPUT, labels=(("column", ""),), dims=dims, dtype="float32"))


def _state_copy_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("copy_of_state")
    x = b.tensor("x", size(4), role="parameter")
    new = b.cell(("exp", ("input", 0)), {x: "a"})
    return b.carried(b.cell(INPUT, {new: "a"}), x)


def _cell_through_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("view_into_cell")
    rows, columns = size(3), size(4)
    turned = b.view(b.tensor("x", columns, rows), permuted((columns, rows), (1, 0)))
    spread = b.view(b.tensor("b", columns), broadcast((columns,), (rows, columns)))
    return b.result(b.cell(("sub", ("input", 0), ("input", 1)), {turned: "rc", spread: "rc"}))


def _contract_through_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("view_into_contract")
    x = b.tensor("x", size(3), size(4))
    w = b.tensor("w", size(5), b.shape(x)[1], role="parameter")
    return b.result(b.contract("mk,kn->mn", x, b.view(w, permuted(b.shape(w), (1, 0)))))


def _reduce_through_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("view_into_reduce")
    x = b.tensor("x", size(3), size(4), size(2), dtype="int64")
    v = b.view(x, permuted(b.shape(x), (1, 2, 0)))
    return b.result(b.op("reduce", v, monoid="max", labels=("a", "b", "c"), output=("c", "a")))


def _slice_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("slice_of_concat")
    rows, one, two = size(3), size(4), size(5, least=2)
    whole = b.op("concat", *(b.tensor(f"x{k}", rows, n) for k, n in enumerate((one, two, 2))), axis=1)
    return b.result(b.view(whole, sliced(b.shape(whole), (0, one + 1), (rows, one + two))))


def _concat_concat_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("concat_of_concat")
    one, two, three = (b.tensor(f"x{k}", size(k + 2), 4) for k in range(3))
    return b.result(b.op("concat", one, b.op("concat", two, three, axis=0), axis=0))


def _single_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("concat_of_one")
    return b.result(b.op("concat", b.tensor("x", size(3), size(2)), axis=0))


def _joined_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("concat_of_slices")
    x = b.tensor("x", size(3), size(6, least=3))
    rows, columns = b.shape(x)
    left = b.view(x, sliced(b.shape(x), (0, 0), (rows, 2)))
    right = b.view(x, sliced(b.shape(x), (0, 2), (rows, columns)))
    return b.result(b.op("concat", x, left, right, axis=1))


VIEWS: tuple[Rule, ...] = (
    Rule(
        name="view_of_view",
        left=op("view", any_view().named("v"), map=attr("other_map"), shape=attr("other_shape")),
        right=op("view", X, given=lambda m: given(view_of(m).then(view_of(m, "other_")))),
        doc="""
        A view of a view is one view.

        outer(inner(x))  ->  (inner then outer)(x)
        Always: affine maps of single dimensions are closed under composition.
        """,
        source="composition of affine maps",
        example=_view_of_view_example,
        saturating=True,
    ),
    Rule(
        name="identity_view",
        left=op("view", X, map=attr("map"), shape=attr("shape")),
        right=X,
        when=lambda m: view_of(m) == identity(m.shape("x")),
        doc="""
        A view of everything in the same order disappears.

        identity(x)  ->  x
        Where every dimension runs along itself from 0 to its end.
        """,
        source="definition of the identity",
        example=_identity_example,
        saturating=True,
    ),
    Rule(
        name="cell_to_view",
        left=op("cell", X, expr=INPUT, labels=attr("labels"), dims=attr("dims"), dtype=attr("dtype")),
        right=op("view", X, given=lambda m: given(_rearranging(m))),
        when=lambda m: bool(m.dtype("x") == m["dtype"]) and not _is_state(m),
        doc="""
        A cell that only rearranges or repeats its input is a view of it.

        cell[x](x)  ->  view(x)
        Where the element type stays, and the result is not the next value of a state, which is stored.
        """,
        source="definition of a view",
        example=_copy_example,
        saturating=True,
    ),
    Rule(
        name="copy_of_state",
        left=op("cell", X, expr=INPUT, labels=attr("labels"), dims=attr("dims"), dtype=attr("dtype")),
        right=X,
        when=lambda m: (
            bool(m.dtype("x") == m["dtype"])
            and _rearranging(m) == identity(m.shape("x"))
            and _is_state(m)
            and not m.edited.producers[m["x"]].is_view
        ),
        doc="""
        A state takes the tensor of which its next value is a copy.

        cell[x](x)  ->  x
        Where the element type and the order stay, and x is no view of another tensor.
        """,
        source="definition of the identity",
        example=_state_copy_example,
        saturating=True,
        context_depth=1,
    ),
    Rule(
        name="view_into_cell",
        left=any_cell(rest("before"), any_view().named("v"), rest("after")),
        right=cell(lambda m: sure(_through_view(m))),
        when=lambda m: m["v"] not in m["before"] and _through_view(m) is not None,
        doc="""
        A cell reads through a permuted, squeezed or broadcast view.

        cell(view(x), ...)  ->  cell(x with other labels, ...)
        Where the view neither picks nor steps: labels name dimensions, so their order is free.
        """,
        source="labels of index spaces name dimensions",
        example=_cell_through_example,
        saturating=True,
    ),
    Rule(
        name="view_into_contract",
        left=op(
            "contract",
            rest("before"),
            any_view().named("v"),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "contract",
            rest("before"),
            X,
            rest("after"),
            labels=lambda m: _with_permuted(m, len(m["before"])),
            output=attr("output"),
        ),
        when=_is_permutation,
        doc="""
        A contraction reads through a transposed view.

        contract(permute(x), ...)  ->  contract(x with its labels permuted, ...)
        Where the view permutes all of its root.
        """,
        source="labels of index spaces name dimensions",
        example=_contract_through_example,
        domain="real",
        saturating=True,
    ),
    Rule(
        name="view_into_reduce",
        left=op(
            "reduce",
            any_view().named("v"),
            labels=attr("labels"),
            output=attr("output"),
            monoid=attr("monoid"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=op(
            "reduce",
            X,
            labels=lambda m: _permuted_labels(m, m["labels"]),
            output=attr("output"),
            monoid=attr("monoid"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        when=_is_permutation,
        doc="""
        A reduction reads through a transposed view.

        reduce(permute(x))  ->  reduce(x with its labels permuted)
        Where the view permutes all of its root.
        """,
        source="labels of index spaces name dimensions",
        example=_reduce_through_example,
        domain="real",
        saturating=True,
    ),
    Rule(
        name="slice_of_concat",
        left=op("view", op("concat", rest("parts"), axis=attr("axis")), map=attr("map"), shape=attr("shape")),
        right=op(
            "view", pick(lambda m: [m["parts"][sure(_part(m))[0]]]), given=lambda m: given(sure(_part(m))[1])
        ),
        when=lambda m: _part(m) is not None,
        doc="""
        A view of a concatenation that lies in one part is a view of that part.

        view(concat(x, y, z))  ->  view(y)
        Where all it reads along the axis lies between the part's ends.
        """,
        source="definition of concatenation",
        example=_slice_example,
        saturating=True,
    ),
    Rule(
        name="concat_of_concat",
        left=op(
            "concat",
            rest("before"),
            op("concat", rest("inner"), axis=attr("axis")).only_here(),
            rest("after"),
            axis=attr("axis"),
        ),
        right=op("concat", rest("before"), rest("inner"), rest("after"), axis=attr("axis")),
        doc="""
        A concatenation inside another along the same axis is spread out.

        concat(a, concat(b, c))  ->  concat(a, b, c)
        Where nobody else reads the inner one, which would be copied twice.
        """,
        source="concatenation is associative",
        example=_concat_concat_example,
        saturating=True,
    ),
    Rule(
        name="concat_of_one",
        left=op("concat", X),
        right=X,
        doc="""
        A concatenation of one tensor disappears.

        concat(x)  ->  x
        Always.
        """,
        source="definition of concatenation",
        example=_single_example,
        saturating=True,
    ),
    Rule(
        name="concat_of_slices",
        left=op(
            "concat",
            rest("before"),
            any_view().named("v").only_here(),
            any_view(prefix="other_").named("w").only_here(),
            rest("after"),
            axis=attr("axis"),
        ),
        right=op(
            "concat",
            rest("before"),
            op("view", X, given=lambda m: given(sure(_joined(m)))),
            rest("after"),
            axis=attr("axis"),
        ),
        when=lambda m: _joined(m) is not None,
        doc="""
        Neighboring slices of one tensor that are concatenated again are one slice.

        concat(x[:k], x[k:n])  ->  concat(x[:n])
        Where both views agree but along the axis, the second begins where the first ends, and nobody else reads
        them.
        """,
        source="definition of concatenation",
        example=_joined_example,
        saturating=True,
    ),
)
