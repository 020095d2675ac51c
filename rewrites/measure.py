"""A termination measure of saturation: it decreases with every move of a saturating rule."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites.algebra.canonical import canonical
from tapestry.rewrites.patterns import tree_size
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators.expressions import cell_flops


def measure(graph: Graph) -> tuple[float, ...]:
    """Compute the measure that decreases, in this order, with every saturating move; so saturation ends.

    Blocks; reads; flops per element of all expressions; their sizes; the distances of reads from the sources;
    expressions that are not in canonical form; reshapes.
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


def rises(gone: Sequence[Block], come: Sequence[Block]) -> bool | None:
    """Return whether replacing some blocks by others raises the measure; None if that is not decided here.

    It is not decided if the first parts of the measure do not change: the others depend on the whole program.
    """
    for part in (len, _reads, _flops, _sizes):
        before, after = part(gone), part(come)
        if before != after:
            return after > before
    return None


def _reads(blocks: Sequence[Block]) -> int:
    return sum(len(b.inputs) for b in blocks)


def _flops(blocks: Sequence[Block]) -> float:
    return sum(cell_flops(b.definition["expr"]) for b in blocks if b.operator == "cell")


def _sizes(blocks: Sequence[Block]) -> int:
    return sum(tree_size(b.definition["expr"]) for b in blocks if b.operator == "cell")


def _is_canonical(graph: Graph, block: Block) -> bool:
    expr = block.definition["expr"]
    return repr(canonical(expr, [t.dtype for t in graph.input_types(block)])) == repr(expr)
