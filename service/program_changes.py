"""Programs before and after rewriting: both drawings, which blocks are the same, and what changed about them.

The rows of `blocks` are the blocks of both programs together, those that correspond in one row: whoever draws them
places the rows once, and shows them on both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapestry.rewrites.correspondence import Correspondence, correspondence
from tapestry.rewrites.provenance import PLACED, Provenance
from tapestry.service.drawings import drawing_document
from tapestry.teg.drawn_groups import NO_GROUP, DrawnGroups, groups_of
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators.expressions import CASTS
from tapestry.teg.svg import label_of

NO_BLOCK = -1
SHORT = 48  # characters of a value that is stated
DIGITS = 7  # of constants, as many as float32 has
INFIX = {
    "add": " + ", "sub": " - ", "mul": " * ", "div": " / ",
    "eq": " == ", "ne": " != ", "lt": " < ", "le": " <= ", "gt": " > ", "ge": " >= ",
}  # fmt: skip
KEPT, CHANGED, REMOVED, MADE = "kept", "changed", "removed", "made"
# What of a block may change.
NAME, OPERATOR, ATTRIBUTES, RESULT, INPUTS, REPETITION = (
    *("name", "operator", "attributes", "result", "inputs"),
    "repetition",
)


def changes_document(given: Graph, result: Graph, reported: Provenance) -> dict[str, Any]:
    """Convert two programs to their drawings, and to the rows of what they have together.

    `reported` is the provenance of the moves from `given`. Columns of `blocks`: the numbers of the block `before` and
    `after` (-1 where it is not), its `change` (kept, changed, removed, made), `what` of it changed, the short
    `attributes` that did (name, value before, value after; empty where there is none), the `rules` whose moves changed
    it, as numbers of `rules`, and its `group`. O(blocks, edges, and the histories of changed blocks).
    """
    same = correspondence(given, result, reported)
    rows = _rows(given, result, same)
    before = {b.site: k for k, b in enumerate(given.blocks)}
    after = {b.site: k for k, b in enumerate(result.blocks)}
    rules, applied = _rules(reported)
    own = groups_of(given)
    groups = _groups(own, result, same)
    row_of_result = {new: k for k, (_, new) in enumerate(rows) if new is not None}
    row_of_given = {old: k for k, (old, _) in enumerate(rows) if old is not None}
    changes, what, moved = list[str](), list[list[str]](), list[list[int]]()
    attributes = list[list[list[str]]]()
    for old, new in rows:
        differing = (
            []
            if old is None or new is None
            else _differences(
                *((given, given.by_site[old], row_of_given), (result, result.by_site[new], row_of_result))
            )
        )
        what.append(differing)
        both = (given.by_site[old], result.by_site[new]) if ATTRIBUTES in differing and old and new else None
        attributes.append([] if both is None else list(_changed_attributes(*both)))
        changes.append(MADE if old is None else REMOVED if new is None else CHANGED if differing else KEPT)
        sites = dict.fromkeys(site for site in (old, new) if site is not None)
        moved.append([] if changes[-1] == KEPT else sorted({r for s in sites for r in applied.get(s, ())}))
    return {
        "before": drawing_document(given, own),
        "after": drawing_document(result),
        "blocks": {
            "before": [NO_BLOCK if old is None else before[old] for old, _ in rows],
            "after": [NO_BLOCK if new is None else after[new] for _, new in rows],
            "change": changes,
            "what": what,
            "attributes": attributes,
            "rules": moved,
            "group": [groups.of_block.get(_key(old, new), NO_GROUP) for old, new in rows],
        },
        "groups": {"name": groups.names, "parent": groups.parents},
        "rules": rules,
        "moves": len(reported.moves),
        "counts": {kind: changes.count(kind) for kind in (KEPT, CHANGED, REMOVED, MADE)},
    }


Row = tuple[str | None, str | None]


def _rows(given: Graph, result: Graph, same: Correspondence) -> list[Row]:
    """Return the sites of the blocks of both programs: in the order of the later one, removed ones where they were."""
    numbers = {b.site: k for k, b in enumerate(given.blocks)}
    kept = set(same.before.values())
    removed = [b.site for b in given.blocks if b.site not in kept]
    rows: list[Row] = []
    done = 0
    for block in result.blocks:
        old = same.before.get(block.site)
        while old is not None and done < len(removed) and numbers[removed[done]] < numbers[old]:
            rows.append((removed[done], None))
            done += 1
        rows.append((old, block.site))
    return [*rows, *((site, None) for site in removed[done:])]


def _key(old: str | None, new: str | None) -> str:
    """Return the key of a row among the groups: a made block may have the site of an original one."""
    return f"before {old}" if old is not None else f"made {new}"


def _groups(own: DrawnGroups, result: Graph, same: Correspondence) -> DrawnGroups:
    """Group the rows as the original program is grouped; made blocks are where the blocks are that they stem from.

    Those that stem from none are where all their readers are.
    """
    groups = DrawnGroups(own.names, own.parents)
    places = {_key(site, None): group for site, group in own.of_block.items()}
    late = []
    for block in result.blocks:
        if block.site in same.origins:
            origins = same.origins[block.site]
            key = _key(None, block.site)
            if origins:
                places[key] = groups.common([own.of_block.get(o, NO_GROUP) for o in origins])
            else:
                late.append(block)
    for block in reversed(late):
        readers = [r for t in block.outputs for r, _ in result.readers[t]]
        around = [places.get(_key(same.before.get(r.site), r.site), NO_GROUP) for r in readers]
        places[_key(None, block.site)] = groups.common(around)
    groups.of_block = places
    return groups


def _rules(reported: Provenance) -> tuple[list[str], Mapping[str, list[int]]]:
    """Return the rules of the structural moves, and the numbers of those that changed each block."""
    names: dict[str, int] = {}
    found: dict[str, list[int]] = defaultdict(list)
    for event in reported.events:
        if event.effect != PLACED:
            found[event.site].append(names.setdefault(event.move.rule, len(names)))
    return list(names), found


Side = tuple[Graph, Block, Mapping[str, int]]


def _differences(one: Side, other: Side) -> list[str]:
    """Return what differs between a block and the one it corresponds to."""
    (given, old, _), (result, new, _) = one, other
    is_same_operator = label_of(old) == label_of(new)
    facts = (
        (NAME, old.site != new.site),
        (OPERATOR, not is_same_operator),
        (ATTRIBUTES, is_same_operator and (old.definition, old.index) != (new.definition, new.index)),
        (RESULT, _types(given, old) != _types(result, new)),
        (INPUTS, _reads(*one) != _reads(*other)),
        (REPETITION, old.repetition != new.repetition),
    )
    return [name for name, differs in facts if differs]


def _changed_attributes(old: Block, new: Block) -> Iterator[list[str]]:
    """Yield the names of the attributes that differ, with their values as texts; not those of which one is long."""
    before, after = (dict(block.definition.attributes) for block in (old, new))
    for name in dict.fromkeys((*before, *after)):
        texts = [attribute_text(name, values[name]) if name in values else "" for values in (before, after)]
        if before.get(name) != after.get(name) and max(map(len, texts)) <= SHORT:
            yield [name, *texts]


def attribute_text(name: str, value: Any) -> str:
    """Return the value of an attribute as readers write it: `relu(x0)`, `[m, k], [k, n]`."""
    if name == "expr":
        return _expression_text(value)
    if name == "labels":
        return ", ".join(
            f"[{', '.join(map(_value_text, one))}]" if isinstance(one, tuple) else str(one) for one in value
        )
    return _value_text(value)


def _expression_text(expr: Any) -> str:
    """Return an expression of cells in infix notation; `x0` is the first input."""
    function, *parts = expr
    if function in ("input", "index"):
        return f"x{parts[0]}" if function == "input" else str(parts[0])
    if function == "const":
        return f"{parts[0]:.{DIGITS}g}" if isinstance(parts[0], float) else str(parts[0])
    if function in CASTS:
        inner = _expression_text(parts[1])
        return f"{parts[0]}({inner})" if function == "cast" else f"{function}({inner}, {parts[0]})"
    texts = [_expression_text(part) for part in parts]
    if function not in INFIX:
        return f"{function}({', '.join(texts)})"
    return INFIX[function].join(
        f"({text})" if part[0] in INFIX else text for part, text in zip(parts, texts, strict=True)
    )


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value_text, value))})"
    return str(value)


def _types(graph: Graph, block: Block) -> Sequence[Any]:
    return [graph.tensors[t].type for t in (block.outputs or block.inputs)]


def _reads(graph: Graph, block: Block, rows: Mapping[str, int]) -> Sequence[tuple[int, int]]:
    """Return what a block reads and what it waits for: rows of the blocks that make it, and which of their results."""
    made = [graph.producers[t] for t in block.inputs]
    read = [(rows[p.site], p.outputs.index(t)) for p, t in zip(made, block.inputs, strict=True)]
    return [*read, *((rows[site], -1) for site in block.after)]
