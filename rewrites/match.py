"""Where one rule fits at one place: its pattern against a DAG, its guard, its choices.

Several roots are matched in program order, each further one among the readers of a tensor that is bound
already. The order of what is found is a function of the graph and the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import permutations
from typing import Any

from rewrites.fused_form import region
from rewrites.index import BOUNDARY, MOST_KNOWN, is_row, makers_wanted
from rewrites.move import SEVERAL, Move
from rewrites.reach import blocks_above
from rewrites.regions import Above, Fuse
from rewrites.rule import ALIGNED, TOGETHER, Attribute, Match, Op, Rest, Rule, RuleError, Tensor, Term, terms
from rewrites.sight import Sight
from teg.graph import Block, Definition

# Names to values, and the rule's applications to the blocks they match.
Bound = dict[Any, Any]

# What stands for one operand on a left side.
TERMS = (Tensor, Op, Above)


def names_of(term: Term) -> Iterator[str]:
    """The tensors that a term speaks of."""
    return (t.name for t in terms(term) if isinstance(t, Tensor | Rest) or (isinstance(t, Op) and t.name))


def alternatives(sight: Sight, rule: Rule, place: str) -> Iterator[tuple[Move, Match]]:
    """Every way and choice of a rule at a place.

    Raises:
        RuleError: the guard or the choices fail.
    """
    seen: dict[tuple[str, str], int] = {}
    found = _allowed(sight, rule, place)
    for match, choices in _together(sight, rule, found) if rule.together else found:
        where = SEVERAL.join(b.site for b in match.roots)
        for choice in choices:
            count = seen[where, choice] = seen.get((where, choice), -1) + 1
            yield (
                Move(rule.name, where, f"{choice}@{count}" if count else choice),
                replace(match, choice=choice) if choice else match,
            )


def _allowed(sight: Sight, rule: Rule, place: str) -> Iterator[tuple[Match, Sequence[str]]]:
    """The ways that the guard allows, each with its choices."""
    for fitting in ways(sight, rule, place):
        try:
            match = _with_more(rule, fitting)
            if match is None or (rule.when is not None and not rule.when(match)):
                continue
            choices = ("",) if rule.choices is None else _texts(rule.choices(match))
        except Exception as error:
            raise RuleError(rule.name, f"its guard or choices fail at {place!r}: {error!r}") from error
        if _has_room(sight, rule, match):
            yield match, choices


def _texts(choices: Sequence[Any]) -> Sequence[str]:
    """The choices of a rule, which must be texts: moves are printed, stored and read again."""
    wrong = [choice for choice in choices if not isinstance(choice, str)]
    if wrong:
        raise TypeError(f"choices are texts, not {wrong[0]!r}")
    return choices


def _together(
    sight: Sight, rule: Rule, found: Iterable[tuple[Match, Sequence[str]]]
) -> Iterator[tuple[Match, Sequence[str]]]:
    """Matches that differ in their last root only as one, for each choice; those that make a cycle are left out."""
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
            if other.roots[-1] not in joined.roots and _has_room(sight, rule, wider):
                joined = wider
                taken.append(other)
        if len(taken) > 1:
            yield replace(joined, bindings={**joined.bindings, TOGETHER: tuple(taken)}), (choice,)


def _with_more(rule: Rule, match: Match) -> Match | None:
    """The match with what the rule's `where` binds."""
    if rule.where is None:
        return match
    more = rule.where(match)
    return None if more is None else replace(match, bindings={**match.bindings, **more})


def ways(sight: Sight, rule: Rule, place: str) -> Iterator[Match]:
    """Every way in which the left side fits with its first root at `place`, guards and cycles apart."""
    block = sight.at_sites.get(place)
    if block is None:
        return
    for bound in _roots(sight, rule.roots, (), (block,), {}):
        blocks = tuple(dict.fromkeys([v for v in bound.values() if isinstance(v, Block)]))
        if not _has_private(rule) or _respects_readers(sight, bound, blocks):
            yield Match(sight, bound, tuple([bound[term] for term in rule.roots]), blocks)


def _has_room(sight: Sight, rule: Rule, match: Match) -> bool:
    """Whether there is a place in program order for what the right side makes: no cycle arises."""
    roots, blocks = match.roots, match.blocks
    if isinstance(rule.right, Fuse):
        return region(sight, roots, blocks, rule.right.recomputes, rule.right.joined).is_possible()
    return len(roots) == 1 or late_blocks(sight, roots, blocks) is not None


def _roots(
    sight: Sight, terms: Sequence[Op], done: tuple[Block, ...], candidates: Iterable[Block], bound: Bound
) -> Iterator[Bound]:
    for block in candidates:
        if done and sight.position(block.site) <= sight.position(done[-1].site):
            continue
        for found in ways_of(sight, terms[0], block, bound):
            if len(terms) == 1:
                yield found
            else:
                further = candidates_for(sight, terms[1], found)
                yield from _roots(sight, terms[1:], (*done, block), further, found)


def candidates_for(sight: Sight, term: Op, bound: Bound) -> Iterable[Block]:
    """The blocks a root may be, in program order: what reads a tensor that is bound, or the like of a block."""
    linked = _linked(sight, term, bound)
    if linked is not None:
        return linked
    wanted = dict(term.attributes).get("definition")
    is_bare = all(isinstance(o, Rest) and bound.get(o.name) == () for o in term.operands)
    if isinstance(wanted, Attribute) and wanted.name in bound and is_bare:
        return sight.alike(bound[wanted.name])
    return [b for b in sight.ordered(sight.blocks) if term.operator in (None, b.operator)]


def _linked(sight: Sight, term: Op, bound: Bound) -> list[Block] | None:
    """The blocks that a term may stand for beside tensors that are bound; None where none of them are its."""
    if term.name and term.name in bound:
        return [sight.producers[bound[term.name]]]
    known = [bound[o.name] for o in term.operands if isinstance(o, (Tensor, Rest)) and o.name in bound]
    sites = [t for found in known for t in ((found,) if isinstance(found, str) else found)]
    if sites:
        least = min(sites, key=lambda t: len(sight.readers[t]))
        return list(dict.fromkeys(b for b, _ in sight.readers[least]))
    for operand in term.operands:
        makers = _linked(sight, operand, bound) if isinstance(operand, Op) else None
        if makers is not None:
            return sight.ordered({b.site for m in makers for b, _ in sight.readers[m.outputs[0]]})
    return None


def ways_of(sight: Sight, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    """Every way in which a block is what a term asks for, beside what is bound already."""
    if term.operator != block.operator and (term.operator is not None or block.operator in BOUNDARY):
        return
    if term in bound:
        if bound[term] is block:
            yield bound
        return
    if block.site in sight.held or not block.outputs:
        return
    if not term.is_commutative:
        yield from _in_this_order(sight, term, block, None, bound)
        return
    seen: list[Bound] = []
    for order in permutations(range(len(block.inputs))):
        for found in _in_this_order(sight, term, block, order, bound):
            if found not in seen:
                seen.append(found)
                yield found


def _in_this_order(
    sight: Sight, term: Op, block: Block, order: Sequence[int] | None, bound: Bound
) -> Iterator[Bound]:
    new = _attributes(term, block, order, bound)
    if new is None:
        return
    new[term] = block
    if term.name:
        new[term.name] = block.outputs[0]
    start = {**bound, **new}
    sites = block.inputs if order is None else tuple([block.inputs[k] for k in order])
    for inside in _inside(sight, term, block, start) if term.inside is not None else (start,):
        given = tuple(sites[k] for k in inside[term.places]) if term.places else sites
        yield from _operands(sight, term.operands, given, inside)


def _has_makers(sight: Sight, term: Op, block: Block) -> bool:
    """Whether operands that must come from certain operators do: the cheapest reason not to match."""
    wanted = makers_wanted(term)
    return not wanted or wanted <= {sight.producers[t].operator for t in block.inputs}


def _attributes(term: Op, block: Block, order: Sequence[int] | None, bound: Bound) -> Bound | None:
    """What the attributes bind; None where they do not fit."""
    new = _bound_by(term, block.definition, None if order is None else tuple(order))
    if new is None or any(name in bound and bound[name] != value for name, value in new.items()):
        return None
    return dict(new)


@lru_cache(maxsize=MOST_KNOWN)
def _bound_by(term: Op, definition: Definition, order: tuple[int, ...] | None) -> Bound | None:
    """What the attributes of a definition bind by themselves, with the operands in an order."""
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


def _inside(sight: Sight, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    assert term.inside is not None
    for way in term.inside.ways(block.definition, [sight.tensors[t].type for t in block.inputs]):
        yield {**bound, **way}


def _operands(sight: Sight, terms: Sequence[Term], sites: tuple[str, ...], bound: Bound) -> Iterator[Bound]:
    if not terms:
        if not sites:
            yield bound
        return
    first, others = terms[0], terms[1:]
    if isinstance(first, Rest):
        if not others:
            if bound.get(first.name, sites) == sites:
                yield {**bound, first.name: sites}
            return
        least = sum(not is_row(t) for t in others)
        maker = others[0].operator if isinstance(others[0], Op) else None
        for count in range(len(sites) - least + 1):
            if maker is not None and sight.producers[sites[count]].operator != maker:
                continue
            if bound.get(first.name, sites[:count]) == sites[:count]:
                yield from _operands(sight, others, sites[count:], {**bound, first.name: sites[:count]})
    elif isinstance(first, Above) and first.all_operands:
        for found in _above(sight, first, sites, bound) if not others else ():
            yield found
    elif sites and isinstance(first, TERMS):
        for found in _operand(sight, first, sites[0], bound):
            yield from _operands(sight, others, sites[1:], found)


def _operand(sight: Sight, term: Tensor | Op | Above, site: str, bound: Bound) -> Iterator[Bound]:
    if isinstance(term, Above):
        yield from _above(sight, term, (site,), bound)
        return
    if isinstance(term, Tensor):
        known = bound.get(term.name)
        if known is None:
            yield {**bound, term.name: site}
        elif known == site:
            yield bound
        return
    block = sight.producers[site]
    if (
        term.operator in (None, block.operator)
        and block.outputs[0] == site
        and _has_makers(sight, term, block)
    ):
        yield from ways_of(sight, term, block, bound)


def _above(sight: Sight, term: Above, sites: tuple[str, ...], bound: Bound) -> Iterator[Bound]:
    """The match with what the term stands for; where the same term object stands twice, for the same tensors."""
    known = bound.get(term)
    if known is None:
        found = blocks_above(sight, term, sites, [b for b in bound.values() if isinstance(b, Block)])
        if found is not None:
            yield {**bound, **found}
    elif known == (sites if term.all_operands else sites[0]):
        yield bound


@cache
def _has_private(rule: Rule) -> bool:
    """Whether anything in the pattern must be private to the match."""
    return any(isinstance(t, Op) and t.is_only_here for root in rule.roots for t in terms(root))


def _respects_readers(sight: Sight, bound: Bound, blocks: Sequence[Block]) -> bool:
    """Whether what must be private to the match is read by matched blocks only."""
    for term, block in bound.items():
        if isinstance(term, Op) and term.is_only_here:
            for t in block.outputs:
                if any(reader not in blocks for reader, _ in sight.readers[t]):
                    return False
    return True


def late_blocks(sight: Sight, roots: Sequence[Block], blocks: Collection[Block]) -> list[Block] | None:
    """The blocks after the first root that the results need; None where one needs a root itself (a cycle).

    The new blocks stand where the first root stood, so these move in front of it.
    """
    start = sight.position(roots[0].site)
    waiting = [sight.producers[t] for b in blocks for t in b.inputs]
    late: dict[str, Block] = {}
    while waiting:
        block = waiting.pop()
        if block.site in late or sight.position(block.site) < start:
            continue
        if block in roots:
            return None
        late[block.site] = block
        waiting.extend(sight.producers[t] for t in block.inputs)
    return sight.ordered(late)
