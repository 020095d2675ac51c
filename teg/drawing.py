"""Drawing of graphs: as an SVG picture, or as DOT text for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators import catalog
from tapestry.teg.svg import MAX_BLOCKS, svg

SHAPES = {"source": "ellipse", "sink": "doubleoctagon", "sequence_point": "diamond"}


def to_svg(graph: Graph, max_blocks: int = MAX_BLOCKS) -> str:
    """Draw a graph as an SVG picture: a box per block with site, operator and result, an arrow per read tensor.

    Views are dashed, `after` is a dotted arrow. Beyond `max_blocks`, equal layers in a row are drawn once.
    """
    return svg(graph.name, graph.blocks, graph.tensors, max_blocks)


def to_dot(graph: Graph, max_blocks: int = 500) -> str:
    """Convert a graph to the DOT language: a node per block, an edge per read tensor labeled with its type.

    Of a larger graph the first `max_blocks` blocks are drawn and a note counts the rest. Views are dashed,
    an index range or a device is printed under the operator's name, `after` is a dotted edge.
    """
    shown = graph.blocks[:max_blocks]
    names = {b.site: f"b{k}" for k, b in enumerate(shown)}
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        "  rankdir=TB;",
        '  node [shape=box, fontname="Helvetica"];',
    ]
    lines += [f"  {names[b.site]} [{_style(b)}];" for b in shown]
    for b in shown:
        lines += _edges(graph, b, names)
    left = len(graph.blocks) - len(shown)
    if left:
        lines.append(f"  rest [shape=note, label={_quoted(f'{left} more blocks are not drawn')}];")
    return "\n".join([*lines, "}", ""])


def _style(block: Block) -> str:
    text = [block.site] if block.operator in SHAPES else [block.site, block.operator]
    text += [] if block.index is None else [str(block.index)]
    text += [] if block.device is None else [f"device {block.device}"]
    costs = block.definition.costs
    text += [] if costs is None else [f"costs {', '.join(r.resource for r in costs.resources)}"]
    style = [f"label={_quoted(chr(10).join(text))}"]
    if block.operator in SHAPES:
        style.append(f"shape={SHAPES[block.operator]}")
    known = catalog().get(block.operator)
    if known is not None and known.view:
        style.append("style=dashed")
    return ", ".join(style)


def _edges(graph: Graph, block: Block, names: dict[str, str]) -> Iterator[str]:
    for t in block.inputs:
        producer, tensor = graph.producers.get(t), graph.tensors.get(t)
        if producer is not None and producer.site in names:
            label = f"{tensor.dtype}[{tensor.dims_text}]" if tensor is not None else "?"
            yield f"  {names[producer.site]} -> {names[block.site]} [label={_quoted(label)}];"
    for site in block.after:
        if site in names:
            yield f"  {names[site]} -> {names[block.site]} [style=dotted];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
