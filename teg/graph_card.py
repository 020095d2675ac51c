"""The card of a program: its figures, its diagram with repeated layers folded, its operators and its interface.

It is of bounded size however large the program is: folded parts are one box, and what does not fold is counted.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from tapestry.teg.brief import brief, counted
from tapestry.teg.drawn_graph import BlockLike, GraphLike
from tapestry.teg.drawn_groups import DrawnGroups, groups_of
from tapestry.teg.folding import ClassOf, FoldedProgram, boxes, folded
from tapestry.teg.html_card import Html, card, figures, paragraph, table
from tapestry.teg.html_card import folded as folded_part
from tapestry.teg.html_card import picture as picture_part
from tapestry.teg.readable_html import quantity
from tapestry.teg.svg import label_of, picture

MOST_NODES = 40  # of a drawing
MOST_ROWS = 16  # of a table
PARAMETER = "parameter"


def graph_card(graph: GraphLike, flops: int | None = None) -> str:
    """Return the card of a program as HTML; `flops` are those of one execution, left out where they are not known."""
    roles = Counter(_role(block) for block in graph.blocks if block.operator == "source")
    sinks = [block for block in graph.blocks if block.operator == "sink"]
    computing = [block for block in graph.blocks if block.operator not in ("source", "sink")]
    return card(
        brief(graph.name),
        f"program of {counted(len(graph.blocks), 'block')}",
        (
            figures(
                (
                    ("blocks that compute", f"{len(computing):,}"),
                    ("parameters", _parameters(graph)),
                    ("inputs", f"{sum(roles.values()) - roles[PARAMETER]:,}"),
                    ("outputs", f"{len(sinks):,}"),
                    ("work", "" if flops is None else quantity(flops, "flop")),
                )
            ),
            *pictures(graph),
            _operators(computing),
            folded_part("Inputs and outputs", [_interface(graph)]),
        ),
    )


def _role(block: BlockLike) -> str:
    return str(block.definition.get("role"))


def _parameters(graph: GraphLike) -> str:
    """Return how many elements parameters have, and their bytes."""
    held = [
        graph.tensors[t]
        for block in graph.blocks
        if block.operator == "source" and _role(block) == PARAMETER
        for t in block.outputs
    ]
    if not held:
        return ""
    elements = sum(prod(tensor.shape) for tensor in held)
    return f"{quantity(elements, '')} in {quantity(sum(t.type.size_bytes for t in held), 'B')}"


def pictures(graph: GraphLike, class_of: ClassOf | None = None) -> list[Html]:
    """Draw the program: open where that is small, or else folded, and one of the layers that repeat most."""
    groups = groups_of(graph)
    whole = folded(graph, groups, range(len(groups.names)))
    if len(whole.nodes) <= MOST_NODES or not groups.names:
        return [_drawn(graph, groups, whole, "Diagram", class_of)]
    drawn = [_drawn(graph, groups, folded(graph, groups), "Diagram, layers that repeat folded", class_of)]
    sizes = Counter(groups.of_block.values())
    series = [g for g in dict.fromkeys(groups.parents) if g >= 0]
    largest = max(
        series, key=lambda g: sum(sizes[k] for k, parent in enumerate(groups.parents) if parent == g)
    )
    members = [k for k, parent in enumerate(groups.parents) if parent == largest]
    inside = folded(graph, groups, within=members[0])
    caption = f"{groups.names[members[0]]}, the first of {len(members):,}"
    return [*drawn, _drawn(graph, groups, inside, caption, class_of)]


def _drawn(
    graph: GraphLike, groups: DrawnGroups, program: FoldedProgram, caption: str, class_of: ClassOf | None
) -> Html:
    shown, arrows = boxes(graph, groups, program, MOST_NODES, class_of)
    return picture_part(picture(f"{graph.name}: {caption}", shown, arrows), caption)


def _operators(computing: list[BlockLike]) -> Html:
    found = Counter(map(label_of, computing)).most_common()
    rows = [(brief(name), f"{count:,}") for name, count in found[:MOST_ROWS]]
    more = len(found) - MOST_ROWS
    shown = table("Operators", ("operator", "blocks"), rows, (1,))
    note = paragraph(f"and {counted(more, 'other operator')}", True) if more > 0 else Html("")
    return folded_part(f"Operators: {len(found):,}", [shown, note])


def _interface(graph: GraphLike) -> Html:
    ends = [
        (
            "output" if block.operator == "sink" else _role(block),
            brief(block.site),
            brief(f"{tensor.dtype}[{tensor.dims_text}]"),
        )
        for block in graph.blocks
        if block.operator == "sink" or (block.operator == "source" and _role(block) != PARAMETER)
        for tensor in (graph.tensors[t] for t in (block.outputs or block.inputs))
    ]
    more = f" The first {MOST_ROWS} of {len(ends):,}." if len(ends) > MOST_ROWS else ""
    return table(f"Parameters are left out.{more}", ("what", "name", "type"), ends[:MOST_ROWS])
