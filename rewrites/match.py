"""Matching of a rule at one place: its pattern fits, its guard allows it, no cycle arises; its choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tapestry.rewrites.fused_form import region
from tapestry.rewrites.move import SEVERAL, Move
from tapestry.rewrites.regions import Fuse
from tapestry.rewrites.rule import TOGETHER, Match, Rule, RuleError
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.rewrites.unify import names_of, ways
from tapestry.teg.graph import Block

Allowed = tuple[Match, Sequence[str]]


def alternatives(tracked: TrackedGraph, rule: Rule, place: str) -> list[tuple[Move, Match]]:
    """Find every match and choice of a rule at a place.

    Raises:
        RuleError: the guard or the choices fail.
    """
    found = _allowed(tracked, rule, place)
    if not found:
        return []
    seen: dict[tuple[str, str], int] = {}
    result = []
    for match, choices in _together(tracked, rule, found) if rule.together else found:
        where = SEVERAL.join([b.site for b in match.roots])
        for choice in choices:
            count = seen[where, choice] = seen.get((where, choice), -1) + 1
            move = Move(rule.name, where, f"{choice}@{count}" if count else choice)
            result.append((move, replace(match, choice=choice) if choice else match))
    return result


def _allowed(tracked: TrackedGraph, rule: Rule, place: str) -> list[Allowed]:
    """Find the matches that the guard allows, each with its choices."""
    try:
        found = ways(tracked, rule, place)
    except Exception as error:
        raise RuleError(rule.name, f"its left side fails at {place!r}: {error!r}") from error
    result = []
    for fitting in found:
        try:
            match = fitting if rule.where is None else _with_more(rule.where(fitting), fitting)
            if match is None or (rule.when is not None and not rule.when(match)):
                continue
            choices = ("",) if rule.choices is None else _texts(rule.choices(match))
        except RuleError:
            raise
        except Exception as error:
            raise RuleError(rule.name, f"its guard or choices fail at {place!r}: {error!r}") from error
        if _has_room(tracked, rule, match):
            result.append((match, choices))
    return result


def _texts(choices: Any) -> Sequence[str]:
    """Convert choices to a tuple; they must be texts in order, as moves are printed, stored and read again."""
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise TypeError(f"choices are a list or tuple of texts, not {choices!r}")
    wrong = [choice for choice in choices if not isinstance(choice, str)]
    if wrong:
        raise TypeError(f"choices are texts, not {wrong[0]!r}")
    return tuple(choices)


def _together(tracked: TrackedGraph, rule: Rule, found: Iterable[Allowed]) -> Iterator[Allowed]:
    """Merge matches that differ in their last root only, for each choice; those that cause a cycle are omitted."""
    first = [*names_of(rule.roots[0])]
    groups: dict[tuple[Any, ...], list[Match]] = {}
    for match, choices in found:
        for choice in choices:
            groups.setdefault((choice, *(match.bindings[n] for n in first)), []).append(match)
    for (choice, *_), matches in groups.items():
        joined, taken = matches[0], matches[:1]
        for other in matches[1:]:
            wider = replace(
                joined,
                roots=(*joined.roots, other.roots[-1]),
                blocks=tuple(dict.fromkeys((*joined.blocks, *other.blocks))),
            )
            if other.roots[-1] not in joined.roots and _has_room(tracked, rule, wider):
                joined = wider
                taken.append(other)
        if len(taken) > 1:
            yield replace(joined, bindings={**joined.bindings, TOGETHER: tuple(taken)}), (choice,)


def _with_more(more: Mapping[str, Any] | None, match: Match) -> Match | None:
    """Add the bindings of the rule's `where` to the match; None if there are none."""
    return None if more is None else replace(match, bindings={**match.bindings, **more})


def _has_room(tracked: TrackedGraph, rule: Rule, match: Match) -> bool:
    """Return whether there is a place in program order for the right side, so that no cycle arises."""
    roots, blocks = match.roots, match.blocks
    if isinstance(rule.right, Fuse):
        return region(tracked, roots, blocks, rule.right.recomputes, rule.right.joined).is_possible()
    return len(roots) == 1 or late_blocks(match) is not None


def late_blocks(match: Match) -> list[Block] | None:
    """Find the blocks that must move before the first root, where the new blocks are put, or None."""
    return match.edited.late(match.roots, [t for b in match.blocks for t in b.inputs])
