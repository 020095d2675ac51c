"""Matching of left sides: terms are unified with blocks of a DAG; guards are not evaluated here.

Several roots are matched in program order, each further one among the readers of a tensor that is bound
already. The order of the matches is a function of the graph and the rule. This is the innermost loop of all
rewriting: lists, not generators, since most match attempts end at the first term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import Any

from tapestry.rewrites.index import BOUNDARY, MOST_KNOWN, is_row, required_producers
from tapestry.rewrites.regions import Above
from tapestry.rewrites.rule import ALIGNED, Attribute, Match, Op, Rest, Rule, TensorPattern, Term, terms
from tapestry.rewrites.subgraph_patterns import blocks_above
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Definition

# Ways in which further roots fit beside the first that are distinguished: what many share is merged in steps.
MOST_OTHERS = 32

# Names to values, and the rule's applications to the blocks they match.
Bound = dict[Any, Any]


def names_of(term: Term) -> Iterator[str]:
    """Yield the names of tensors in a term."""
    return (
        t.name for t in terms(term) if isinstance(t, TensorPattern | Rest) or (isinstance(t, Op) and t.name)
    )


def ways(tracked: TrackedGraph, rule: Rule, place: str) -> list[Match]:
    """Find every match of the left side with its first root at `place`, before guards and checks for cycles."""
    block = tracked.blocks_at.get(place)
    if block is None:
        return []
    roots = rule.roots
    bounds = ways_of(tracked, roots[0], block, {})
    if bounds and len(roots) > 1:
        bounds = [b for bound in bounds for b in _others(tracked, roots[1:], (block,), bound)]
    if not bounds:
        return []
    found, private = [], _private_terms(rule)
    for bound in bounds:
        blocks = tuple(dict.fromkeys([v for v in bound.values() if v.__class__ is Block]))
        if not private or _respects_readers(tracked, private, bound, blocks):
            found.append(Match(tracked, bound, tuple([bound[term] for term in roots]), blocks))
    return found


def _others(tracked: TrackedGraph, roots: Sequence[Op], done: tuple[Block, ...], bound: Bound) -> list[Bound]:
    """Find every match of further roots after those that are done."""
    if not roots:
        return [bound]
    start = tracked.position(done[-1].site)
    result: list[Bound] = []
    for block in candidates_for(tracked, roots[0], bound):
        if tracked.position(block.site) > start:
            for found in ways_of(tracked, roots[0], block, bound):
                result += _others(tracked, roots[1:], (*done, block), found)
            if len(result) >= MOST_OTHERS:
                break
    return result


def candidates_for(tracked: TrackedGraph, term: Op, bound: Bound) -> Iterable[Block]:
    """Find the blocks a root may match, in program order: readers of a bound tensor, or equals of a block."""
    linked = _linked(tracked, term, bound)
    if linked is not None:
        return linked
    wanted = dict(term.attributes).get("definition")
    is_bare = all(isinstance(o, Rest) and bound.get(o.name) == () for o in term.operands)
    if isinstance(wanted, Attribute) and wanted.name in bound and is_bare:
        return tracked.alike(bound[wanted.name])
    return [b for b in tracked.ordered(tracked.blocks) if term.operator in (None, b.operator)]


def _linked(tracked: TrackedGraph, term: Op, bound: Bound) -> list[Block] | None:
    """Find the blocks that a term may match next to bound tensors; None if none of its tensors are bound."""
    if term.name and term.name in bound:
        return [tracked.producers[bound[term.name]]]
    sites: list[str] = []
    for operand in term.operands:
        if isinstance(operand, (TensorPattern, Rest)) and operand.name in bound:
            found = bound[operand.name]
            sites += (found,) if isinstance(found, str) else found
    if sites:
        # Whichever is chosen, the same blocks fit in the end: the lengths of the others need not be noted.
        readers = tracked.program.readers
        least = min(sites, key=lambda t: len(readers[t]))
        return list(dict.fromkeys([b for b, _ in tracked.readers[least]]))
    for operand in term.operands:
        producers = _linked(tracked, operand, bound) if isinstance(operand, Op) else None
        if producers is not None:
            return tracked.ordered({b.site for m in producers for b, _ in tracked.readers[m.outputs[0]]})
    return None


def ways_of(tracked: TrackedGraph, term: Op, block: Block, bound: Bound) -> list[Bound]:
    """Find every match of a block with a term, in addition to the existing bindings."""
    if term.operator != block.operator and (term.operator is not None or block.operator in BOUNDARY):
        return []
    if term in bound:
        return [dict(bound)] if bound[term] is block else []
    if block.site in tracked.held or not block.outputs:
        return []
    if not term.is_commutative:
        return _in_this_order(tracked, term, block, None, bound)
    result: list[Bound] = []
    for order in permutations(range(len(block.inputs))):
        result += [b for b in _in_this_order(tracked, term, block, order, bound) if b not in result]
    return result


def _in_this_order(
    tracked: TrackedGraph, term: Op, block: Block, order: tuple[int, ...] | None, bound: Bound
) -> list[Bound]:
    new = _bound_by(term, block.definition, order)
    if new is None:
        return []
    if bound:
        for name, value in new.items():
            if name in bound and bound[name] != value:
                return []
    start = {**bound, **new, term: block}
    if term.name:
        start[term.name] = block.outputs[0]
    sites = block.inputs if order is None else tuple([block.inputs[k] for k in order])
    if term.inside is None:
        return _operands(tracked, term.operands, sites, start)
    result: list[Bound] = []
    for way in term.inside.ways(block.definition, [tracked.program.tensors[t].type for t in block.inputs]):
        inside = {**start, **way}
        given = tuple([sites[k] for k in inside[term.places]]) if term.places else sites
        result += _operands(tracked, term.operands, given, inside)
    return result


def _has_makers(tracked: TrackedGraph, term: Op, block: Block) -> bool:
    """Return whether operands that must come from certain operators do: the cheapest reason not to match."""
    wanted = required_producers(term)
    return not wanted or wanted <= {tracked.producers[t].operator for t in block.inputs}


@lru_cache(maxsize=MOST_KNOWN)
def _bound_by(term: Op, definition: Definition, order: tuple[int, ...] | None) -> Bound | None:
    """Return what the attributes of a definition bind, for an order of operands; None if they do not match."""
    new: Bound = {}
    for name, wanted in term.attributes:
        value: Any = definition if name == "definition" else definition.get(name)
        if order is not None and name in ALIGNED[definition.operator]:
            value = tuple(value[k] for k in order)
        if not isinstance(wanted, Attribute):
            if value != wanted:
                return None
        elif new.setdefault(wanted.name, value) != value:
            return None
    return new


def _operands(
    tracked: TrackedGraph, terms: Sequence[Term], sites: tuple[str, ...], bound: Bound
) -> list[Bound]:
    """Find every match of tensors with the terms; `bound` is modified by the callee."""
    for k, term in enumerate(terms):
        if not isinstance(term, TensorPattern):
            return _further(tracked, term, terms[k + 1 :], sites[k:], bound)
        if k >= len(sites) or bound.setdefault(term.name, sites[k]) != sites[k]:
            return []
    return [bound] if len(terms) == len(sites) else []


def _further(
    tracked: TrackedGraph, first: Term, others: Sequence[Term], sites: tuple[str, ...], bound: Bound
) -> list[Bound]:
    """Find matches like `_operands`, for a first term that is no plain tensor."""
    if isinstance(first, Rest):
        if others:
            return _behind(tracked, first, others, sites, bound)
        return [bound] if bound.setdefault(first.name, sites) == sites else []
    if isinstance(first, Above) and first.all_operands:
        return [] if others else _above(tracked, first, sites, bound)
    if not sites:
        return []
    if isinstance(first, Above):
        found = _above(tracked, first, sites[:1], bound)
    else:
        found = _operand(tracked, first, sites[0], bound) if isinstance(first, Op) else []
    return [b for way in found for b in _operands(tracked, others, sites[1:], way)]


def _behind(
    tracked: TrackedGraph, first: Rest, others: Sequence[Term], sites: tuple[str, ...], bound: Bound
) -> list[Bound]:
    """Match any number of operands, and others after them."""
    least = sum(not is_row(t) for t in others)
    producer = others[0].operator if isinstance(others[0], Op) else None
    result: list[Bound] = []
    for count in range(len(sites) - least + 1):
        if producer is not None and tracked.producers[sites[count]].operator != producer:
            continue
        if bound.get(first.name, sites[:count]) == sites[:count]:
            result += _operands(tracked, others, sites[count:], {**bound, first.name: sites[:count]})
    return result


def _operand(tracked: TrackedGraph, term: Op, site: str, bound: Bound) -> list[Bound]:
    block = tracked.producers[site]
    if term.operator not in (None, block.operator) or block.outputs[0] != site:
        return []
    return ways_of(tracked, term, block, bound) if _has_makers(tracked, term, block) else []


def _above(tracked: TrackedGraph, term: Above, sites: tuple[str, ...], bound: Bound) -> list[Bound]:
    """Extend the match by the blocks of the term; the same term object twice requires the same tensors."""
    known = bound.get(term)
    if known is None:
        found = blocks_above(tracked, term, sites, [b for b in bound.values() if isinstance(b, Block)])
        return [] if found is None else [{**bound, **found}]
    return [bound] if known == (sites if term.all_operands else sites[0]) else []


@cache
def _private_terms(rule: Rule) -> tuple[Op, ...]:
    """List the terms of the pattern that must be private to the match."""
    return tuple(t for root in rule.roots for t in terms(root) if isinstance(t, Op) and t.is_only_here)


def _respects_readers(
    tracked: TrackedGraph, private: Sequence[Op], bound: Bound, blocks: Sequence[Block]
) -> bool:
    """Return whether results that must be private to the match are read by matched blocks only."""
    return all(tracked.is_private(t, blocks) for term in private for t in bound[term].outputs)
