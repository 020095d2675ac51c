"""Where rules fit: patterns against a DAG, indexed by the operator of the root, again near a change only.

Several roots are matched in program order, each further one among the readers of a tensor that is bound
already. The order of everything found is a function of the graph and the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from rewrites.draft import Draft
from rewrites.move import SEVERAL, Move
from rewrites.rule import ALIGNED, Attribute, Match, Op, Rest, Rule, RuleError, Tensor, Term
from teg.graph import Block, Definition, Graph, TensorType

# Names to values, and the rule's applications to the blocks they match.
Bound = dict[Any, Any]

BOUNDARY = ("source", "sink")

# A tensor with more readers than any pattern has blocks cannot become private by losing one.
FEW_READERS = 8


# Definitions whose rules are remembered, per catalogue: a long search meets new ones without end.
MOST_KNOWN = 1 << 15


class Changes(NamedTuple):
    """What a rewrite changed: blocks that are new or read something else, tensors whose readers changed."""

    blocks: frozenset[str]
    tensors: frozenset[str]


def find(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, in program order of their places.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    return list(_moves(Draft(graph), rules, graph.blocks))


def find_near(graph: Graph, rules: Sequence[Rule], changes: Changes) -> list[Move]:
    """The moves at places that a rewrite may have affected."""
    draft = Draft(graph)
    single, several = near(draft, rules, changes)
    return list(_moves(draft, rules, in_order(draft, several), single))


def update(moves: Iterable[Move], graph: Graph, rules: Sequence[Rule], changes: Changes) -> list[Move]:
    """All moves of the rewritten graph, from those of the graph before: equal to `find(graph, rules)`."""
    draft = Draft(graph)
    single, several = near(draft, rules, changes)
    paired = {r.name for r in rules if len(r.roots) > 1}
    rank = {r.name: k for k, r in enumerate(rules)}
    groups: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        root = first_root(draft, move)
        if root is not None and root not in (several if move.rule in paired else single):
            groups.setdefault((root, move.rule), []).append(move)
    for move in _moves(draft, rules, in_order(draft, several), single):
        groups.setdefault((first_root(draft, move) or "", move.rule), []).append(move)
    order = sorted(groups, key=lambda g: (draft.position(g[0]), rank[g[1]]))
    return [move for key in order for move in groups[key]]


def first_root(draft: Draft, move: Move) -> str | None:
    """The block whose site begins the place of a move at one place; None where it is gone."""
    place = move.places[0]
    if place in draft.blocks:
        return place
    ends = (k for k, letter in enumerate(place) if letter == SEVERAL)
    return next((place[:k] for k in ends if place[:k] in draft.blocks), None)


def near(draft: Draft, rules: Sequence[Rule], changes: Changes) -> tuple[set[str], set[str]]:
    """The places whose matches may have changed: of rules with one root, and of all rules."""
    single = {s for s in changes.blocks if s in draft.blocks}
    for t in changes.tensors:
        if t in draft.producers and len(draft.readers[t]) <= FEW_READERS:
            single.add(draft.producers[t].site)
    edge = single
    for _ in range(max((r.depth for r in rules), default=0)):
        edge = {b.site for s in edge for t in draft.blocks[s].outputs for b, _ in draft.readers[t]} - single
        single |= edge
    several = set(single)
    if any(len(r.roots) > 1 for r in rules):
        shared = {t for s in single for t in draft.blocks[s].inputs}
        shared.update(t for t in changes.tensors if t in draft.readers)
        several.update(b.site for t in shared for b, _ in draft.readers[t])
        for s in changes.blocks & single:
            if not draft.blocks[s].inputs:
                several.update(b.site for b in draft.alike(draft.blocks[s].definition))
    return single, several


def in_order(draft: Draft, sites: Iterable[str]) -> list[Block]:
    """The blocks at these sites, in program order."""
    return [draft.blocks[s] for s in sorted(sites, key=draft.position)]


def _moves(
    draft: Draft, rules: Sequence[Rule], blocks: Iterable[Block], single: Collection[str] | None = None
) -> Iterator[Move]:
    index = index_of(tuple(rules))
    for block in blocks:
        for rule in index.rules_at(draft, block):
            if single is None or len(rule.roots) > 1 or block.site in single:
                for move, _ in alternatives(draft, rule, block.site):
                    yield move


class Index:
    """The rules by what their root asks of a block alone, without its surroundings."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._plausible: dict[tuple[Any, ...], tuple[Rule, ...]] = {}

    def rules_at(self, draft: Draft, block: Block) -> tuple[Rule, ...]:
        """The rules whose root may be this block; worked out once per definition and input types."""
        key = (block.definition, *(draft.tensors[t].dtype for t in block.inputs))
        found = self._plausible.get(key)
        if found is None:
            types = [draft.tensors[t].type for t in block.inputs]
            found = tuple(r for r in self.rules if _plausible(r.roots[0], block.definition, types))
            if len(self._plausible) >= MOST_KNOWN:
                self._plausible.clear()
            self._plausible[key] = found
        return found


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
    least = sum(not isinstance(t, Rest) for t in term.operands)
    if not term.places and (len(types) < least or (len(types) > least and least == len(term.operands))):
        return False
    aligned = ALIGNED.get(definition.operator, ()) if term.is_commutative else ()
    for name, wanted in term.attributes:
        if not isinstance(wanted, Attribute) and name not in aligned and definition.get(name) != wanted:
            return False
    return term.inside is None or bool(term.inside.ways(definition, types))


def alternatives(draft: Draft, rule: Rule, place: str) -> Iterator[tuple[Move, Match]]:
    """Every way and choice of a rule at a place.

    Raises:
        RuleError: the guard or the choices fail.
    """
    seen: dict[tuple[str, str], int] = {}
    for fitting in ways(draft, rule, place):
        try:
            match = _with_more(rule, fitting)
            if match is None or (rule.when is not None and not rule.when(match)):
                continue
            choices = ("",) if rule.choices is None else rule.choices(match)
        except Exception as error:
            raise RuleError(rule.name, f"its guard or choices fail at {place!r}: {error!r}") from error
        where = SEVERAL.join(b.site for b in match.roots)
        for choice in choices:
            count = seen[where, choice] = seen.get((where, choice), -1) + 1
            yield (
                Move(rule.name, where, f"{choice}@{count}" if count else choice),
                replace(match, choice=choice),
            )


def _with_more(rule: Rule, match: Match) -> Match | None:
    """The match with what the rule's `where` binds."""
    if rule.where is None:
        return match
    more = rule.where(match)
    return None if more is None else replace(match, bindings={**match.bindings, **more})


def ways(draft: Draft, rule: Rule, place: str) -> Iterator[Match]:
    """Every way in which the left side fits with its first root at `place`, guards apart."""
    block = draft.blocks.get(place)
    if block is None:
        return
    for bound in _roots(draft, rule.roots, (), (block,), {}):
        roots = tuple(bound[term] for term in rule.roots)
        blocks = tuple(dict.fromkeys(v for k, v in bound.items() if isinstance(k, Op)))
        if _respects_readers(draft, bound, blocks) and (
            len(roots) == 1 or late_blocks(draft, roots, blocks) is not None
        ):
            yield Match(draft, bound, roots, blocks)


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
    """The blocks a further root may be: readers of what it reads, or the like of what it must be."""
    for operand in term.operands:
        site = bound.get(operand.name) if isinstance(operand, Tensor | Rest) else None
        if site:
            first = site if isinstance(site, str) else site[0]
            return dict.fromkeys(b for b, _ in draft.readers[first])
    wanted = dict(term.attributes).get("definition")
    if isinstance(wanted, Attribute) and wanted.name in bound:
        return draft.alike(bound[wanted.name])
    return [b for b in in_order(draft, draft.blocks) if term.operator in (None, b.operator)]


def _block(draft: Draft, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    if term.operator != block.operator and (term.operator is not None or block.operator in BOUNDARY):
        return
    if term in bound:
        if bound[term] is block:
            yield bound
        return
    if not draft.is_free(block) or not block.outputs:
        return
    if not _has_makers(draft, term, block):
        return
    orders = permutations(range(len(block.inputs))) if term.is_commutative else (None,)
    seen: list[Bound] = []
    for order in orders:
        start = {**bound, term: block}
        if term.name:
            start[term.name] = block.outputs[0]
        if not _attributes(term, block, order, start):
            continue
        sites = block.inputs if order is None else tuple(block.inputs[k] for k in order)
        for inside in _inside(draft, term, block, start):
            given = tuple(sites[k] for k in inside[term.places]) if term.places else sites
            for found in _operands(draft, term.operands, given, inside):
                if order is None or found not in seen:
                    seen.append(found)
                    yield found


def _has_makers(draft: Draft, term: Op, block: Block) -> bool:
    """Whether operands that must come from certain operators do: the cheapest reason not to match."""
    wanted = [o.operator for o in term.operands if isinstance(o, Op) and o.operator is not None]
    return not wanted or set(wanted) <= {draft.producers[t].operator for t in block.inputs}


def _attributes(term: Op, block: Block, order: Sequence[int] | None, bound: Bound) -> bool:
    """Whether the attributes fit; variables are bound on the way."""
    for name, wanted in term.attributes:
        value: Any = block.definition if name == "definition" else block.definition.get(name)
        if order is not None and name in ALIGNED[block.operator]:
            value = tuple(value[k] for k in order)
        if isinstance(wanted, Attribute):
            if bound.setdefault(wanted.name, value) != value:
                return False
        elif value != wanted:
            return False
    return True


def _inside(draft: Draft, term: Op, block: Block, bound: Bound) -> Iterator[Bound]:
    if term.inside is None:
        yield bound
        return
    for way in term.inside.ways(block.definition, [draft.tensors[t].type for t in block.inputs]):
        yield {**bound, **way}


def _operands(draft: Draft, terms: Sequence[Term], sites: tuple[str, ...], bound: Bound) -> Iterator[Bound]:
    if not terms:
        if not sites:
            yield bound
        return
    first, others = terms[0], terms[1:]
    if isinstance(first, Rest):
        least = sum(not isinstance(t, Rest) for t in others)
        counts = range(len(sites) - least + 1) if others else (len(sites),)
        for count in counts:
            if bound.get(first.name, sites[:count]) == sites[:count]:
                yield from _operands(draft, others, sites[count:], {**bound, first.name: sites[:count]})
    elif sites and isinstance(first, Tensor | Op):
        for found in _operand(draft, first, sites[0], bound):
            yield from _operands(draft, others, sites[1:], found)


def _operand(draft: Draft, term: Tensor | Op, site: str, bound: Bound) -> Iterator[Bound]:
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
