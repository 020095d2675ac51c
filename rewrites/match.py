"""Where rules fit: patterns against a DAG, indexed by the operator of the root, again near a change only.

Several roots are matched in program order, each further one among the readers of a tensor that is bound
already. The order of everything found is a function of the graph and the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from rewrites.draft import Draft
from rewrites.fused_form import region
from rewrites.move import SEVERAL, Move
from rewrites.reach import blocks_above, roots_above
from rewrites.regions import Above, Fuse
from rewrites.rule import ALIGNED, TOGETHER, Attribute, Match, Op, Rest, Rule, RuleError, Tensor, Term, terms
from teg.graph import Block, Definition, Graph, TensorType

# Names to values, and the rule's applications to the blocks they match.
Bound = dict[Any, Any]

BOUNDARY = ("source", "sink")

# What stands for one operand on a left side.
TERMS = (Tensor, Op, Above)

# Patterns of more levels are looked for from the blocks inside them.
DEEP = 4

# Definitions whose rules are remembered, per catalogue: a long search meets new ones without end.
MOST_KNOWN = 1 << 15


class Changes(NamedTuple):
    """What a rewrite changed: blocks that are new, read something else or stand elsewhere, and tensors whose
    readers changed."""

    blocks: frozenset[str]
    tensors: frozenset[str]

    def __or__(self, other: Changes) -> Changes:
        """What both changed, one after the other."""
        return Changes(self.blocks | other.blocks, self.tensors | other.tensors)


def find(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, in program order of their places.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    return list(_moves(Draft(graph), rules, graph.blocks))


def find_near(graph: Graph, rules: Sequence[Rule], changes: Changes) -> list[Move]:
    """The moves at places that a rewrite may have affected."""
    draft = Draft(graph)
    affected = near(draft, rules, changes)
    return list(_moves(draft, rules, in_order(draft, affected.places), affected))


def first_root(draft: Draft, move: Move) -> str | None:
    """The block whose site begins the place of a move at one place; None where it is gone."""
    place = move.places[0]
    if place in draft.blocks:
        return place
    ends = (k for k, letter in enumerate(place) if letter == SEVERAL)
    return next((place[:k] for k in ends if place[:k] in draft.blocks), None)


class Near(NamedTuple):
    """The places whose matches may have changed.

    `distances`: how many blocks lie between a place and the nearest change below it; `apart`: by rule the places
    of those with several roots or deep patterns, for which distances do not count; `entangled`: places whose
    matches may need themselves by way of others, or no longer.
    """

    distances: Mapping[str, int]
    apart: Mapping[str, frozenset[str]]
    entangled: frozenset[str] = frozenset()

    def concerns(self, rule: Rule, site: str) -> bool:
        """Whether a rule may fit in another way than before with its first root at a place."""
        if site in self.entangled and can_loop(rule):
            return True
        if rule.name in self.apart:
            return site in self.apart[rule.name]
        return self.distances.get(site, rule.depth) < rule.depth

    @property
    def places(self) -> frozenset[str]:
        """All places that concern any rule, or whose surroundings have changed."""
        return self.entangled.union(self.distances, *self.apart.values())


def near(draft: Draft, rules: Sequence[Rule], changes: Changes) -> Near:
    """The places whose matches may have changed with a rewrite.

    Of deep patterns those that may be new: where one was, and is no more, only who knew it can tell.
    """
    index = index_of(tuple(rules))
    made = [draft.producers[t] for t in changes.tensors if t in draft.producers]
    edge = {s for s in changes.blocks if s in draft.blocks}
    # A tensor with more readers than any pattern has blocks cannot become private by losing one.
    edge.update(
        b.site for b in made if len({r for t in b.outputs for r, _ in draft.readers[t]}) <= index.largest
    )
    distances = dict.fromkeys(edge, 0)
    starts = {*edge, *(b.site for b in made)}
    for distance in range(1, index.depth + 1):
        edge = readers_of(draft, edge) - distances.keys()
        distances.update(dict.fromkeys(edge, distance))
    distances.update((b.site, 0) for b in made)
    deep = {r.roots: r for r in index.deep}
    above = {roots: frozenset(roots_above(draft, r, starts)) for roots, r in deep.items()}
    apart = {r.name: above[r.roots] for r in index.deep}
    for rule in index.paired:
        own = {site for site, distance in distances.items() if distance <= rule.depth}
        others = range(1, len(rule.roots))
        found = (_firsts(draft, rule, k, draft.blocks[site]) for site in own for k in others)
        apart[rule.name] = frozenset(own.union(*found))
    return Near(distances, apart)


def readers_of(draft: Draft, sites: Iterable[str]) -> set[str]:
    """The blocks that read what these blocks make."""
    return {b.site for s in sites for t in draft.blocks[s].outputs for b, _ in draft.readers[t]}


def _firsts(draft: Draft, rule: Rule, k: int, block: Block) -> Iterator[str]:
    """Where the first root may stand of a match whose root `k` is a block."""
    if k == 0:
        yield block.site
        return
    names = set(_names(rule.roots[k]))
    earlier = next((j for j in range(k) if names.intersection(_names(rule.roots[j]))), 0)
    for found in _block(draft, rule.roots[k], block, {}):
        for other in _candidates(draft, rule.roots[earlier], found):
            yield from _firsts(draft, rule, earlier, other)


def _names(term: Term) -> Iterator[str]:
    """The tensors that a term speaks of."""
    return (t.name for t in terms(term) if isinstance(t, Tensor | Rest) or (isinstance(t, Op) and t.name))


def in_order(draft: Draft, sites: Iterable[str]) -> list[Block]:
    """The blocks at these sites, in program order."""
    return [draft.blocks[s] for s in sorted(sites, key=draft.position)]


def _moves(
    draft: Draft, rules: Sequence[Rule], blocks: Iterable[Block], affected: Near | None = None
) -> Iterator[Move]:
    index = index_of(tuple(rules))
    for block in blocks:
        for rule in index.rules_at(draft, block):
            if affected is None or affected.concerns(rule, block.site):
                for move, _ in alternatives(draft, rule, block.site):
                    yield move


class Index:
    """The rules by what their root asks of a block and of what makes its inputs.

    `deep` are those with one root and a pattern that is looked for from within (`rewrites.reach`), `depth` is
    that of the deepest other one, `largest` the number of blocks in the largest, `paired` the rules with
    several roots.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self.deep = tuple(r for r in rules if len(r.roots) == 1 and _is_deep(r))
        self.depth = max((r.depth for r in rules if r not in self.deep), default=0)
        self.largest = max((sum(map(_size, r.roots)) for r in rules if r not in self.deep), default=0)
        self.paired = tuple(r for r in rules if len(r.roots) > 1)
        self._by_operator: dict[str, list[Rule]] = {}
        self._by_definition: dict[tuple[Any, ...], tuple[Rule, ...]] = {}
        self._by_makers: dict[tuple[Any, ...], tuple[Rule, ...]] = {}

    def rules_for(self, draft: Draft, block: Block) -> tuple[Rule, ...]:
        """The rules whose root may be this block, whatever is around it."""
        types = [draft.tensors[t].type for t in block.inputs]
        key = (block.definition, *(t.dtype for t in types))
        found = self._by_definition.get(key)
        if found is None:
            rules = self._with_root(block.operator)
            found = tuple(r for r in rules if _plausible(r.roots[0], block.definition, types))
            _remember(self._by_definition, key, found)
        return found

    def rules_at(self, draft: Draft, block: Block) -> tuple[Rule, ...]:
        """Those of them that what makes the block's inputs does not rule out."""
        producers = draft.producers
        makers = [producers[t].operator for t in block.inputs]
        key = (block.definition, *makers, *[draft.tensors[t].dtype for t in block.inputs])
        found = self._by_makers.get(key)
        if found is None:
            there = set(makers)
            rules = [r for r in self.rules_for(draft, block) if _wanted(r.roots[0]) <= there]
            found = tuple(r for r in rules if _may_begin(r.roots[0], there))
            _remember(self._by_makers, key, found)
        return found

    def _with_root(self, operator: str) -> list[Rule]:
        known = self._by_operator.get(operator)
        if known is None:
            known = [r for r in self.rules if r.roots[0].operator in (None, operator)]
            self._by_operator[operator] = known
        return known


def _is_deep(rule: Rule) -> bool:
    """Whether a pattern is looked for from the blocks inside it."""
    return rule.depth > DEEP or any(isinstance(o, Above) for o in rule.roots[0].operands)


def _may_begin(term: Op, makers: Collection[str]) -> bool:
    """Whether what stands for all that makes an operand may begin with blocks of these operators."""
    far = [o for o in term.operands if isinstance(o, Above)]
    return all(not {*o.operators, *o.ends}.isdisjoint(makers) for o in far)


def _remember(
    known: dict[tuple[Any, ...], tuple[Rule, ...]], key: tuple[Any, ...], rules: tuple[Rule, ...]
) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = rules


def _size(term: Term) -> int:
    """How many blocks a pattern has, shared ones counted as often as they occur."""
    if isinstance(term, Above):
        return term.most
    return 1 + sum(map(_size, term.operands)) if isinstance(term, Op) else 0


@lru_cache(maxsize=64)
def index_of(rules: tuple[Rule, ...]) -> Index:
    """The index of these rules."""
    return Index(rules)


def _plausible(term: Op, definition: Definition, types: Sequence[TensorType]) -> bool:
    """Whether a definition over inputs of these types can be what the term asks for."""
    if term.operator != definition.operator and (
        term.operator is not None or definition.operator in BOUNDARY
    ):
        return False
    least = sum(not _is_row(t) for t in term.operands)
    if not term.places and (len(types) < least or (len(types) > least and least == len(term.operands))):
        return False
    aligned = ALIGNED.get(definition.operator, ()) if term.is_commutative else ()
    for name, wanted in term.attributes:
        if not isinstance(wanted, Attribute) and name not in aligned and definition.get(name) != wanted:
            return False
    return term.inside is None or bool(term.inside.ways(definition, types))


def alternatives(
    draft: Draft, rule: Rule, place: str, reached: set[str] | None = None
) -> Iterator[tuple[Move, Match]]:
    """Every way and choice of a rule at a place.

    `reached` takes blocks between which a way may come or go, by which the match makes a cycle or no longer does.

    Raises:
        RuleError: the guard or the choices fail.
    """
    seen: dict[tuple[str, str], int] = {}
    found = _allowed(draft, rule, place, reached)
    for match, choices in _together(draft, rule, found) if rule.together else found:
        where = SEVERAL.join(b.site for b in match.roots)
        for choice in choices:
            count = seen[where, choice] = seen.get((where, choice), -1) + 1
            yield (
                Move(rule.name, where, f"{choice}@{count}" if count else choice),
                replace(match, choice=choice) if choice else match,
            )


def _allowed(
    draft: Draft, rule: Rule, place: str, reached: set[str] | None
) -> Iterator[tuple[Match, Sequence[str]]]:
    """The ways that the guard allows, each with its choices."""
    for fitting in ways(draft, rule, place):
        try:
            match = _with_more(rule, fitting)
            if match is None or (rule.when is not None and not rule.when(match)):
                continue
            choices = ("",) if rule.choices is None else rule.choices(match)
        except Exception as error:
            raise RuleError(rule.name, f"its guard or choices fail at {place!r}: {error!r}") from error
        if reached is not None:
            reached.update(_reached(draft, rule, match))
        if _has_room(draft, rule, match):
            yield match, choices


def _together(
    draft: Draft, rule: Rule, found: Iterable[tuple[Match, Sequence[str]]]
) -> Iterator[tuple[Match, Sequence[str]]]:
    """Matches that differ in their last root only as one, for each choice; those that make a cycle are left out."""
    first = [*_names(rule.roots[0])]
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
            if other.roots[-1] not in joined.roots and _has_room(draft, rule, wider):
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


def ways(draft: Draft, rule: Rule, place: str) -> Iterator[Match]:
    """Every way in which the left side fits with its first root at `place`, guards and cycles apart."""
    block = draft.blocks.get(place)
    if block is None:
        return
    for bound in _roots(draft, rule.roots, (), (block,), {}):
        blocks = tuple(dict.fromkeys([v for v in bound.values() if isinstance(v, Block)]))
        if not _has_private(rule) or _respects_readers(draft, bound, blocks):
            yield Match(draft, bound, tuple([bound[term] for term in rule.roots]), blocks)


def _reached(draft: Draft, rule: Rule, match: Match) -> Iterator[str]:
    """Blocks of a match between which a way through others may come or go: there, `_has_room` may change."""
    if len(match.roots) > 1:
        yield match.roots[-1].site
    elif isinstance(rule.right, Fuse):
        inside, end = set(match.blocks), draft.position(match.roots[0].site)
        for block in match.blocks:
            readers = (r for t in block.outputs for r, _ in draft.readers[t] if r not in inside)
            if block not in match.roots and any(draft.position(r.site) < end for r in readers):
                yield block.site


def can_loop(rule: Rule) -> bool:
    """Whether matches of a rule may need themselves by way of other blocks."""
    return len(rule.roots) > 1 or isinstance(rule.right, Fuse)


def _has_room(draft: Draft, rule: Rule, match: Match) -> bool:
    """Whether there is a place in program order for what the right side makes: no cycle arises."""
    roots, blocks = match.roots, match.blocks
    if isinstance(rule.right, Fuse):
        return region(draft, roots, blocks, rule.right.recomputes, rule.right.joined).is_possible()
    return len(roots) == 1 or late_blocks(draft, roots, blocks) is not None


def _roots(
    draft: Draft, terms: Sequence[Op], done: tuple[Block, ...], candidates: Iterable[Block], bound: Bound
) -> Iterator[Bound]:
    for block in candidates:
        if done and draft.position(block.site) <= draft.position(done[-1].site):
            continue
        for found in _block(draft, terms[0], block, bound):
            if len(terms) == 1:
                yield found
            else:
                further = _candidates(draft, terms[1], found)
                yield from _roots(draft, terms[1:], (*done, block), further, found)


def _candidates(draft: Draft, term: Op, bound: Bound) -> Iterable[Block]:
    """The blocks a root may be, in program order: what reads a tensor that is bound, or the like of a block."""
    linked = _linked(draft, term, bound)
    if linked is not None:
        return linked
    wanted = dict(term.attributes).get("definition")
    is_bare = all(isinstance(o, Rest) and bound.get(o.name) == () for o in term.operands)
    if isinstance(wanted, Attribute) and wanted.name in bound and is_bare:
        return draft.alike(bound[wanted.name])
    return [b for b in in_order(draft, draft.blocks) if term.operator in (None, b.operator)]


def _linked(draft: Draft, term: Op, bound: Bound) -> list[Block] | None:
    """The blocks that a term may stand for beside tensors that are bound; None where none of them are its."""
    if term.name and term.name in bound:
        return [draft.producers[bound[term.name]]]
    known = [bound[o.name] for o in term.operands if isinstance(o, (Tensor, Rest)) and o.name in bound]
    sites = [t for found in known for t in ((found,) if isinstance(found, str) else found)]
    if sites:
        least = min(sites, key=lambda t: len(draft.readers[t]))
        return list(dict.fromkeys(b for b, _ in draft.readers[least]))
    for operand in term.operands:
        makers = _linked(draft, operand, bound) if isinstance(operand, Op) else None
        if makers is not None:
            return in_order(draft, {b.site for m in makers for b, _ in draft.readers[m.outputs[0]]})
    return None


def _block(draft: Draft, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    if term.operator != block.operator and (term.operator is not None or block.operator in BOUNDARY):
        return
    if term in bound:
        if bound[term] is block:
            yield bound
        return
    if block.site in draft.held or not block.outputs or not _has_makers(draft, term, block):
        return
    if not term.is_commutative:
        yield from _in_this_order(draft, term, block, None, bound)
        return
    seen: list[Bound] = []
    for order in permutations(range(len(block.inputs))):
        for found in _in_this_order(draft, term, block, order, bound):
            if found not in seen:
                seen.append(found)
                yield found


def _is_row(term: Term) -> bool:
    """Whether a term stands for any number of operands."""
    return isinstance(term, Rest) or (isinstance(term, Above) and term.all_operands)


def _in_this_order(
    draft: Draft, term: Op, block: Block, order: Sequence[int] | None, bound: Bound
) -> Iterator[Bound]:
    new = _attributes(term, block, order, bound)
    if new is None:
        return
    new[term] = block
    if term.name:
        new[term.name] = block.outputs[0]
    start = {**bound, **new}
    sites = block.inputs if order is None else tuple([block.inputs[k] for k in order])
    for inside in _inside(draft, term, block, start) if term.inside is not None else (start,):
        given = tuple(sites[k] for k in inside[term.places]) if term.places else sites
        yield from _operands(draft, term.operands, given, inside)


def _has_makers(draft: Draft, term: Op, block: Block) -> bool:
    """Whether operands that must come from certain operators do: the cheapest reason not to match."""
    wanted = _wanted(term)
    return not wanted or wanted <= {draft.producers[t].operator for t in block.inputs}


@cache
def _wanted(term: Op) -> frozenset[str]:
    """The operators that operands of a term must come from."""
    return frozenset(o.operator for o in term.operands if isinstance(o, Op) and o.operator is not None)


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


def _inside(draft: Draft, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    assert term.inside is not None
    for way in term.inside.ways(block.definition, [draft.tensors[t].type for t in block.inputs]):
        yield {**bound, **way}


def _operands(draft: Draft, terms: Sequence[Term], sites: tuple[str, ...], bound: Bound) -> Iterator[Bound]:
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
        least = sum(not _is_row(t) for t in others)
        maker = others[0].operator if isinstance(others[0], Op) else None
        for count in range(len(sites) - least + 1):
            if maker is not None and draft.producers[sites[count]].operator != maker:
                continue
            if bound.get(first.name, sites[:count]) == sites[:count]:
                yield from _operands(draft, others, sites[count:], {**bound, first.name: sites[:count]})
    elif isinstance(first, Above) and first.all_operands:
        for found in _above(draft, first, sites, bound) if not others else ():
            yield found
    elif sites and isinstance(first, TERMS):
        for found in _operand(draft, first, sites[0], bound):
            yield from _operands(draft, others, sites[1:], found)


def _operand(draft: Draft, term: Tensor | Op | Above, site: str, bound: Bound) -> Iterator[Bound]:
    if isinstance(term, Above):
        yield from _above(draft, term, (site,), bound)
        return
    if isinstance(term, Tensor):
        known = bound.get(term.name)
        if known is None:
            yield {**bound, term.name: site}
        elif known == site:
            yield bound
        return
    block = draft.producers[site]
    if term.operator in (None, block.operator) and block.outputs[0] == site:
        yield from _block(draft, term, block, bound)


def _above(draft: Draft, term: Above, sites: tuple[str, ...], bound: Bound) -> Iterator[Bound]:
    """The match with what the term stands for; where the same term object stands twice, for the same tensors."""
    known = bound.get(term)
    if known is None:
        found = blocks_above(draft, term, sites, [b for b in bound.values() if isinstance(b, Block)])
        if found is not None:
            yield {**bound, **found}
    elif known == (sites if term.all_operands else sites[0]):
        yield bound


@cache
def _has_private(rule: Rule) -> bool:
    """Whether anything in the pattern must be private to the match."""
    return any(isinstance(t, Op) and t.is_only_here for root in rule.roots for t in terms(root))


def _respects_readers(draft: Draft, bound: Bound, blocks: Sequence[Block]) -> bool:
    """Whether what must be private to the match is read by matched blocks only."""
    for term, block in bound.items():
        if isinstance(term, Op) and term.is_only_here:
            for t in block.outputs:
                if any(reader not in blocks for reader, _ in draft.readers[t]):
                    return False
    return True


def late_blocks(draft: Draft, roots: Sequence[Block], blocks: Collection[Block]) -> list[Block] | None:
    """The blocks after the first root that the results need; None where one needs a root itself (a cycle).

    The new blocks stand where the first root stood, so these move in front of it.
    """
    start = draft.position(roots[0].site)
    waiting = [draft.producers[t] for b in blocks for t in b.inputs]
    late: dict[str, Block] = {}
    while waiting:
        block = waiting.pop()
        if block.site in late or draft.position(block.site) < start:
            continue
        if block in roots:
            return None
        late[block.site] = block
        waiting.extend(draft.producers[t] for t in block.inputs)
    return in_order(draft, late)
