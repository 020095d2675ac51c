"""Strategies of application beyond the single move: saturation by rules that end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rewrites.apply import carry_out
from rewrites.canonical import canonical
from rewrites.draft import Draft
from rewrites.laws import tree_size
from rewrites.match import Changes, Index, alternatives, in_order, index_of, near
from rewrites.move import Move
from rewrites.rule import Rule, RuleError
from teg.graph import Block, Graph
from teg.operators.expressions import cell_flops


class Saturated(NamedTuple):
    """The graph in which no rule fits any more, and the moves that lead there."""

    graph: Graph
    moves: list[Move]


def saturate(graph: Graph, rules: Sequence[Rule], limit: int = 100_000) -> Saturated:
    """Apply the rules wherever they fit, in program order, first rule first, until none does.

    Raises:
        ValueError: a rule is not declared to end.
        RuleError: it did not end within `limit` moves; the rule that fired most is named.
    """
    endless = [r.name for r in rules if not r.saturating]
    if endless:
        raise ValueError(
            f"rules {endless} are not saturating: applying them may never end; let a search choose"
        )
    draft, moves = Draft(graph), list[Move]()
    index = index_of(tuple(rules))
    places = set(draft.blocks)
    while places:
        for block in in_order(draft, places & draft.blocks.keys()):
            while (move := _first(draft, index, block.site)) is not None:
                moves.append(move)
                if len(moves) > limit:
                    name, count = Counter(m.rule for m in moves).most_common(1)[0]
                    raise RuleError(name, f"saturation did not end: it fired {count} times in {limit} moves")
        changes = Changes(frozenset(draft.changed), frozenset(draft.reread))
        draft.changed, draft.reread = set(), set()
        places = near(draft, rules, changes)[1]
    return Saturated(draft.graph(), moves)


def _first(draft: Draft, index: Index, place: str) -> Move | None:
    """Carry out the first move there is at a place, and return it."""
    block = draft.blocks.get(place)
    if block is None:
        return None
    for rule in index.rules_at(draft, block):
        for move, match in alternatives(draft, rule, place):
            carry_out(draft, rule, match, move)
            return move
    return None


def measure(graph: Graph) -> tuple[float, ...]:
    """What falls, in this order, with every move of a saturating rule; hence saturation ends.

    Blocks; reads; flops per element of all expressions; their sizes; how far from the sources things are
    read; expressions that are not in canonical form.
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
    )


def _is_canonical(graph: Graph, block: Block) -> bool:
    expr = block.definition["expr"]
    return repr(canonical(expr, [t.dtype for t in graph.input_types(block)])) == repr(expr)
