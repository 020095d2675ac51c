"""The measure by which saturation ends: it falls with every move of a saturating rule."""

from __future__ import annotations

from rewrites.algebra.canonical import canonical
from rewrites.patterns import tree_size
from teg.graph import Block, Graph
from teg.operators.expressions import cell_flops


def measure(graph: Graph) -> tuple[float, ...]:
    """What falls, in this order, with every move of a saturating rule; hence saturation ends.

    Blocks; reads; flops per element of all expressions; their sizes; how far from the sources things are
    read; expressions that are not in canonical form; reshapes.
    """
    cells = [b for b in graph.blocks if b.operator == "cell"]
    depths: dict[str, int] = {}
    for b in graph.blocks:
        depths.update(dict.fromkeys(b.outputs, 1 + max((depths[t] for t in b.inputs), default=0)))
    return (
        len(graph.blocks),
        sum(len(b.inputs) for b in graph.blocks),
        sum(cell_flops(b.definition["expr"]) for b in cells),
        sum(tree_size(b.definition["expr"]) for b in cells),
        sum(depths[t] for b in graph.blocks for t in b.inputs),
        sum(not _is_canonical(graph, b) for b in cells),
        sum(b.operator == "reshape" for b in graph.blocks),
    )


def _is_canonical(graph: Graph, block: Block) -> bool:
    expr = block.definition["expr"]
    return repr(canonical(expr, [t.dtype for t in graph.input_types(block)])) == repr(expr)
