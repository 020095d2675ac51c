"""Updates of an optimizer as one block: a parameter, its gradient and its moments are read and written once."""

from __future__ import annotations

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import all_above, fuse
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, op
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Graph


def _has_same_shape(edited: TrackedGraph, block: Block, root: Block) -> bool:
    """Return whether a cell produces a tensor of the same shape as the root."""
    return edited.tensors[block.outputs[0]].shape == edited.tensors[root.outputs[0]].shape


STATE = all_above(ends=("cell",), most=0, takes=_has_same_shape)


def _is_update(m: Match) -> bool:
    """Return whether sinks read several of the values, and are the only readers of all but the last.

    Most of them are carried state.
    """
    inside, (root,) = {b.site for b in m.blocks}, m.roots
    readers = {
        b.site: [r for t in b.outputs for r, _ in m.edited.readers[t] if r.site not in inside]
        for b in m.blocks
    }
    seen = [site for site, found in readers.items() if any(r.operator == "sink" for r in found)]
    others = [r for site, found in readers.items() if site != root.site for r in found]
    return len(seen) > 1 and all(r.operator == "sink" for r in others)


def _example(size: ExampleSizes) -> Graph:
    """Build an example: Adam without its corrections, and a step whose length depends on its direction.

    Adam has two moments and the parameter.
    """
    b = ExampleBuilder("fuse_update")
    shape = (size(4), size(3))
    p, g, m, v = (b.tensor(name, *shape) for name in "pgmv")
    both = {m: "rc", g: "rc"}
    first = b.cell(("add", ("mul", ("const", 0.5), ("input", 0)), ("input", 1)), both, site="first")
    second = b.cell(
        ("add", ("mul", ("const", 0.25), ("input", 0)), ("square", ("input", 1))),
        {v: "rc", g: "rc"},
        site="second",
    )
    step = ("div", ("input", 1), ("add", ("sqrt", ("abs", ("input", 2))), ("const", 1.0)))
    new = b.cell(("sub", ("input", 0), step), {p: "rc", first: "rc", second: "rc"}, site="new")
    g2, m2, v2 = (b.tensor(f"{name}2", *shape) for name in "gmv")
    moments = [b.cell(("max", INPUT, ("input", 1)), {t: "rc", g2: "rc"}, site=f"new_{t}") for t in (m2, v2)]
    direction = b.cell(("mul", INPUT, ("input", 1)), {moments[0]: "rc", moments[1]: "rc"}, site="direction")
    length = b.op("reduce", direction, monoid="max", labels=("r", "c"), output=())
    return b.result(
        new, first, second, *moments, b.cell(("mul", INPUT, ("input", 1)), {direction: "rc", length: ""})
    )


UPDATE_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_update",
        left=op("cell", STATE),
        right=fuse(),
        when=_is_update,
        doc="""
        A parameter's new value and its new moments come out of one block.

        m = cell[f](m, g), v = cell[h](v, g), p = cell[u](p, m, v)  ->  fused(p, g, m, v), with three results
        Where sinks see several of the values, and others at most the last one: the direction of a step whose length is
        still to be found. The same steps on the same numbers; parameter, gradient and moments go through memory once.
        """,
        source="multi-tensor optimizer kernels (Apex FusedAdam); loop fusion (Kennedy and McKinley, 1993)",
        example=_example,
    ),
)
