"""Fusions of cells: a cell is inlined into the next, and one tensor less goes through memory."""

from __future__ import annotations

import math

from tapestry.rewrites.cell_form import ADD, CellForm, any_cell, bound_cell, cell, flops_of
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.patterns import reads_of, size_of
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, rest
from tapestry.teg.graph import Graph

SOURCE = "loop fusion (Kennedy and McKinley, Maximizing Loop Parallelism and Improving Data Locality, 1993)"

# Flops per element below which computing again is cheaper than reading again, in any machine we know.
CHEAP_FLOPS = 4.0

# The same where what the cell is made of is read anyway: devices do more than this while they read a number.
SHARED_READS_FLOPS = 16.0

# Parts of an expression, repeated ones counted as often as they occur: no kernel computes more in one go.
MOST_PARTS = 256

# Flops in all that a device does in the microsecond or more that starting a kernel takes.
LAUNCH_FLOPS = 1e6

INNER = any_cell(rest("ys"), prefix="inner_").named("y")
GENERATOR = any_cell(prefix="inner_").named("y")


def _fused(m: Match) -> CellForm:
    """Inline the inner cell into the root cell in place of its reads of `y`."""
    ys = m.bindings.get("ys", ())
    dtypes = [m.edited.tensors[t].dtype for t in ys]
    form = bound_cell(m, (*m["before"], m["y"], *m["after"]))
    return form.inlined(m["y"], bound_cell(m, ys, "inner_"), dtypes)


def _is_first_read(m: Match) -> bool:
    """Return whether this is the first read of `y`; a cell that reads it twice is matched only there."""
    return m["y"] not in m["before"]


def _may_be_one(m: Match) -> bool:
    """Return whether this is the first read, and the fused cell is no larger than the limit of a kernel."""
    if not _is_first_read(m):
        return False
    own, inner = m.roots[0], m.edited.producers[m["y"]].definition
    reads = sum(reads_of(own.definition).get(k, 0) for k, t in enumerate(own.inputs) if t == m["y"])
    return size_of(own.definition) + reads * size_of(inner) <= MOST_PARTS


def _points(m: Match, prefix: str = "") -> int:
    return math.prod(size for _, size in m[prefix + "dims"])


def _is_repeated(m: Match) -> bool:
    """Return whether the inner cell is computed for more points than before."""
    return _points(m) > _points(m, "inner_")


def _is_cheap(m: Match) -> bool:
    return _inner_flops(m) <= CHEAP_FLOPS


def _is_below_launch(m: Match) -> bool:
    """Return whether computing the inner cell at every point of the root takes less than starting a kernel."""
    return _points(m) * _inner_flops(m) <= LAUNCH_FLOPS


def _inner_flops(m: Match) -> float:
    return flops_of(m.edited.producers[m["y"]].definition)


def _shares_reads(m: Match) -> bool:
    """Return whether the root reads all inputs of the inner cell, so that fusion saves one read."""
    own = {*m["before"], *m["after"]}
    return own.issuperset(m["ys"]) and not _is_repeated(m) and _inner_flops(m) <= SHARED_READS_FLOPS


def _is_shared(m: Match) -> bool:
    """Return whether the inner cell has inputs, and another reader than the root."""
    return bool(m["ys"]) and not m.edited.is_private(m["y"], m.roots)


def _chain_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("fuse_cells")
    x = b.tensor("x", size(3), size(4))
    y = b.cell(("mul", ("tanh", ("input", 0)), ("const", 0.5)), {x: "rc"}, dtype="float64")
    z = b.tensor("z", b.shape(x)[1], b.shape(x)[0])
    return b.result(b.cell(("add", ("mul", ("input", 0), ("input", 0)), ("input", 1)), {y: "cr", z: "rc"}))


def _broadcast_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("fuse_broadcast_cell")
    x = b.tensor("x", size(3, least=2), size(4))
    shift = b.cell(("neg", ("input", 0)), {b.tensor("v", 1, b.shape(x)[1]): "rc"})
    return b.result(b.cell(ADD, {x: "rc", shift: "-c"}))


def _shared_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("fuse_shared_cell")
    x, y = b.tensor("x", size(3)), b.tensor("y", size(4))
    apart = b.cell(("sub", ("input", 0), ("input", 1)), {x: "r", y: "c"})
    squares = b.op("reduce", apart, monoid="sum", labels=("r", "c"), output=("r",))
    bent = b.cell(("tanh", ("input", 0)), {x: "r"})
    gate, slope = ("mul", ("input", 0), ("input", 1)), ("sub", ("const", 1.0), ("square", ("input", 0)))
    forward, backward = b.cell(gate, {x: "r", bent: "r"}), b.cell(slope, {bent: "r"})
    return b.result(b.cell(("relu", ("input", 0)), {apart: "rc"}), squares, forward, backward)


def _generator_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("fuse_generator")
    rows = size(3)
    x = b.tensor("x", size(2), rows, rows)
    mask = ("where", ("ge", ("index", "r"), ("index", "c")), ("const", 0.0), ("const", -1e9))
    dims = (("r", rows), ("c", rows))
    shared = b.op("cell", site="mask", expr=mask, labels=(), dims=dims, dtype="float32")
    return b.result(b.cell(ADD, {x: "bqk", shared: "qk"}), b.cell(ADD, {x: "bqk", shared: "kq"}))


def _twice_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("merge_reads")
    x = b.tensor("x", size(3))
    two = ("mul", ("input", 0), ("input", 1))
    dims = (("r", b.shape(x)[0]),)
    return b.result(b.op("cell", x, x, expr=two, labels=(("r",), ("r",)), dims=dims, dtype="float32"))


CELL_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_cells",
        left=any_cell(rest("before"), INNER.only_here(), rest("after")),
        right=cell(_fused),
        when=lambda m: _may_be_one(m) and not _is_repeated(m),
        doc="""
        A cell is computed inside the only cell that reads it.

        cell[g](cell[f](x), z)  ->  cell[g o f](x, z)
        Where both have the same number of index points, so nothing is computed twice. The inner rounding stays
        as a cast, so every bit stays.
        """,
        source=SOURCE,
        example=_chain_example,
        saturating=True,
    ),
    Rule(
        name="fuse_broadcast_cell",
        left=any_cell(rest("before"), INNER.only_here(), rest("after")),
        right=cell(_fused),
        when=lambda m: _may_be_one(m) and _is_repeated(m) and _is_cheap(m),
        doc="""
        A cheap cell is computed inside the only cell that reads it, once per element there.

        cell[g](cell[f](x) broadcast, z)  ->  cell[g o f](x broadcast, z)
        Where the inner one costs few flops per element. Not for saturation: work is repeated to save memory and
        a launch, so the search decides.
        """,
        source=SOURCE,
        example=_broadcast_example,
    ),
    Rule(
        name="fuse_shared_cell",
        left=any_cell(rest("before"), INNER, rest("after")),
        right=cell(_fused),
        when=lambda m: (
            _may_be_one(m) and _is_shared(m) and (_is_cheap(m) or _shares_reads(m) or _is_below_launch(m))
        ),
        doc="""
        A cheap cell that others read too is computed again inside one of its readers.

        y = cell[f](x), cell[g](y, z), h(y)  ->  cell[g o f](x, z), h(y)
        Where it costs few flops per element and reads something, a few more where the reader reads the same (so a
        training step's activations are named, whose parts the backward pass reads), or less in all than starting a
        kernel takes. Not for saturation: it pays where what it reads is smaller than what it makes, or all its
        readers take it in; the search decides.
        """,
        source="rematerialization (Briggs, Cooper and Torczon, 1992)",
        duplicates=True,
        example=_shared_example,
    ),
    Rule(
        name="fuse_generator",
        left=any_cell(rest("before"), GENERATOR, rest("after")),
        right=cell(_fused),
        when=lambda m: _may_be_one(m) and _is_cheap(m),
        doc="""
        A cheap function of the coordinates alone is computed where it is read.

        cell[g](cell[f](), z)  ->  cell[g o f](z)
        Where it costs few flops per element: a mask is cheaper to make than to read, by every reader.
        """,
        source="rematerialization (Briggs, Cooper and Torczon, 1992)",
        duplicates=True,
        example=_generator_example,
        saturating=True,
    ),
    Rule(
        name="merge_reads",
        left=any_cell(rest("xs")),
        right=cell(lambda m: bound_cell(m, m["xs"]).normal()),
        when=lambda m: not bound_cell(m, m["xs"]).is_normal(),
        doc="""
        A cell reads each tensor once, and uses all that it reads.

        cell[f(x, y)](x, x, z)  ->  cell[f(x, x)](x)
        Where two operands are the same tensor read by the same names, or one is not used.
        """,
        source="common subexpression elimination (Cocke, 1970)",
        example=_twice_example,
        saturating=True,
    ),
)
