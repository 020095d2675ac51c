"""Rules drawn: the example of each before and after its move, with what changes and what that saves or costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites import Move, Provenance, Rule, catalog, find
from tapestry.rewrites.rule import ExampleSizes
from tapestry.service.program_changes import changes_document
from tapestry.teg.graph import Block, Graph

BOUNDARY = ("source", "sink")


def rule_drawing(name: str) -> dict[str, Any] | None:
    """Draw a structural rule by its own example, the smallest one of its tests; None if no such rule is installed.

    `before` and `after` are drawings as of programs. Their `changed` are the numbers of the blocks that the move takes
    away and makes; `cost` counts blocks that compute, flops, and bytes that blocks read and write. The example is
    small, so its costs say in which direction the rule goes, and not how far. `blocks` are the rows that both sides
    have together, as in the changes of a program: who draws them gives what stayed one place.
    """
    rule = catalog().get(name)
    if rule is None:
        return None
    before = rule.example(ExampleSizes())
    move = _move(before, rule)
    reported = Provenance(before, [move], {name: rule})
    after, changes = reported.graph, changes_document(before, reported.graph, reported)
    sides = (_side(before, after, changes["before"]), _side(after, before, changes["after"]))
    if not any(side["changed"] for side in sides):  # only the order of blocks changes
        for graph, side in zip((before, after), sides, strict=True):
            side["changed"] = [k for k, block in enumerate(graph.blocks) if block.site in move.places]
    return {
        "rule": name,
        "place": list(move.places),
        "choice": move.choice,
        "choices": [m.choice for m in find(before, [rule]) if m.places == move.places and m.choice],
        "before": sides[0],
        "after": sides[1],
        "blocks": changes["blocks"],
    }


def _move(graph: Graph, rule: Rule) -> Move:
    """Return the move of a rule on its example that is named first."""
    return min(find(graph, [rule]), key=lambda move: (move.places, move.choice))


def _side(graph: Graph, other: Graph, document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {_identity(block) for block in other.blocks}
    columns = document["blocks"]
    computing = [
        k for k, b in enumerate(graph.blocks) if b.operator not in BOUNDARY and not b.definition.is_view
    ]
    return {
        **document,
        "changed": [k for k, block in enumerate(graph.blocks) if _identity(block) not in kept],
        "cost": {"blocks": len(computing), "flops": sum(columns["flops"]), "bytes": sum(columns["bytes"])},
    }


def _identity(block: Block) -> tuple[Any, ...]:
    """Return what makes a block the same one in two programs; what a sink reads may have another name."""
    return block.site, block.definition, block.inputs if block.operator != "sink" else ()
