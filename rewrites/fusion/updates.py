"""Updates of an optimizer as one block: a parameter, its gradient and its moments are read and written once."""

from __future__ import annotations

from rewrites.draft import Draft
from rewrites.regions import all_above, fuse
from rewrites.rule import Match, Rule, Sizes, op
from rewrites.sketch import Sketch
from teg.graph import Block, Graph


def _is_alongside(draft: Draft, block: Block, root: Block) -> bool:
    """Whether a cell makes a tensor of the shape that the root makes."""
    return draft.tensors[block.outputs[0]].shape == draft.tensors[root.outputs[0]].shape


STATE = all_above(ends=("cell",), most=0, takes=_is_alongside)


def _is_update(m: Match) -> bool:
    """Whether new values, and nothing else, leave the block: sinks see them, most of them as carried state."""
    inside = {b.site for b in m.blocks}
    readers = m.draft.readers
    outside = [r for b in m.blocks for t in b.outputs for r, _ in readers[t] if r.site not in inside]
    seen = [b for b in m.blocks if any(r.operator == "sink" for t in b.outputs for r, _ in readers[t])]
    return m.roots[0] in seen and len(seen) > 1 and all(r.operator == "sink" for r in outside)


def _example(size: Sizes) -> Graph:
    """Adam without its corrections: two moments and the parameter."""
    b = Sketch("fuse_update")
    shape = (size(4), size(3))
    p, g, m, v = (b.tensor(name, *shape) for name in "pgmv")
    both = {m: "rc", g: "rc"}
    first = b.cell(("add", ("mul", ("const", 0.5), ("input", 0)), ("input", 1)), both, site="first")
    second = b.cell(
        ("add", ("mul", ("const", 0.25), ("input", 0)), ("square", ("input", 1))),
        {v: "rc", g: "rc"},
        site="second",
    )
    step = ("div", ("input", 1), ("add", ("sqrt", ("input", 2)), ("const", 1.0)))
    new = b.cell(("sub", ("input", 0), step), {p: "rc", first: "rc", second: "rc"}, site="new")
    return b.result(new, first, second)


UPDATE_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_update",
        left=op("cell", STATE),
        right=fuse(),
        when=_is_update,
        doc="""
        A parameter's new value and its new moments come out of one block.

        m = cell[f](m, g), v = cell[h](v, g), p = cell[u](p, m, v)  ->  fused(p, g, m, v), with three results
        Where sinks see several of the values and nobody else reads them. The same steps on the same numbers;
        parameter, gradient and moments go through memory once.
        """,
        source="multi-tensor optimizer kernels (Apex FusedAdam); loop fusion (Kennedy and McKinley, 1993)",
        example=_example,
    ),
)
