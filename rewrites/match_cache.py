"""Match attempts of rules at one place: their candidate moves, and the tracked reads these depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import NamedTuple

from tapestry.rewrites.context_cache import MatchContext, Question
from tapestry.rewrites.index import Index
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.move import SEVERAL, Move
from tapestry.rewrites.rule import Rule, RuleError
from tapestry.rewrites.ties import Candidate, Kind, offer, renewed
from tapestry.rewrites.tracked_graph import Key, TrackedGraph
from tapestry.teg.graph import Block

# Attempts at a place that are made again without a look whether the place is now like another one.
FEW_ATTEMPTS = 4


class RuleFailure(NamedTuple):
    """A rule that raised an error while it was matched, and the error message."""

    rule: str
    message: str


class MatchAttempt(NamedTuple):
    """The match attempt of a rule at a place: it stays valid as long as nothing that it has `seen` changes."""

    rule: Rule
    offers: tuple[Candidate, ...]
    failures: tuple[RuleFailure, ...]
    seen: tuple[Key, ...]


class Place:
    """The candidate moves whose first root is a certain block, in the order of the rules.

    `rules` are all that were tried; those with neither a candidate move nor tracked reads there have no match attempt.
    `watched` is what may change the match attempts, or the kinds of their candidate moves. A place that was recognized
    has its `stencil`, and the context by which it was recognized.
    """

    __slots__ = ("_attempts", "moves", "offers", "rules", "scene", "stencil", "watched")

    def __init__(
        self,
        rules: tuple[Rule, ...],
        offers: tuple[Candidate, ...],
        watched: frozenset[Key],
        attempts: tuple[MatchAttempt, ...] | None = None,
        stencil: MatchTemplate | None = None,
        scene: MatchContext | None = None,
    ) -> None:
        self.rules, self.offers, self.watched = rules, offers, watched
        self.moves = tuple([o.move for o in offers])
        self.stencil, self.scene, self._attempts = stencil, scene, attempts

    @property
    def attempts(self) -> tuple[MatchAttempt, ...]:
        """The match attempts of the rules that have candidate moves, failures or tracked reads."""
        if self._attempts is None:
            assert self.stencil is not None and self.scene is not None
            self._attempts = tuple(self.stencil.attempts_at(self.scene, self.offers))
        return self._attempts

    @property
    def failures(self) -> tuple[RuleFailure, ...]:
        """The failures of the rules that fail here."""
        return () if self.stencil is not None else tuple(f for a in self.attempts for f in a.failures)


def tried(
    sight: TrackedGraph,
    index: Index,
    block: Block,
    before: Place | None = None,
    changed: Set[Key] = frozenset(),
) -> Place:
    """Try the rules at a block. Match attempts made `before` are reused if they read nothing in `changed`."""
    rules = index.rules_at(sight.program, block)
    if before is not None and rules is before.rules and _are_few(before.attempts, changed):
        return _place(rules, tuple(_attempts(sight, index, block, rules, before, changed)))
    visit = index.scenes.visit(rules, MatchContext(sight, block))
    stencil: MatchTemplate | None = None if visit.leaf is None else visit.leaf.stencil
    if stencil is not None:
        visit.scene.close()
        return stencil.at(visit.scene, rules)
    attempts = tuple(_attempts(sight, index, block, rules, before, changed))
    if visit.leaf is None:
        index.scenes.learn(visit, _in_order(attempts), CachedAttempts(visit.scene, attempts))
    visit.scene.close()
    return _place(rules, attempts)


def _are_few(attempts: Sequence[MatchAttempt], changed: Set[Key]) -> bool:
    """Return whether so few match attempts must be repeated that looking up an equal context takes longer."""
    return sum(not changed.isdisjoint(a.seen) for a in attempts) <= FEW_ATTEMPTS


def _place(rules: tuple[Rule, ...], attempts: tuple[MatchAttempt, ...]) -> Place:
    offers = tuple([o for a in attempts for o in a.offers])
    watched = {t for o in offers for t in o.reads}.union(*[a.seen for a in attempts])
    return Place(rules, offers, frozenset(watched), attempts)


class CachedAttempts:
    """Match attempts in a context, and, once it occurs again, their stencil: None if they cannot have one."""

    def __init__(self, scene: MatchContext, attempts: tuple[MatchAttempt, ...]) -> None:
        self.scene, self.attempts = scene, attempts

    @cached_property
    def stencil(self) -> MatchTemplate | None:
        """The match attempts with numbers instead of names."""
        return MatchTemplate.of(self.scene, self.attempts)


def _attempts(
    sight: TrackedGraph,
    index: Index,
    block: Block,
    rules: Sequence[Rule],
    before: Place | None,
    changed: Set[Key],
) -> Iterator[MatchAttempt]:
    barren = index.barren(sight.program, block)
    known = {} if before is None else {a.rule: a for a in before.attempts}
    others = () if before is None else before.rules
    for rule in rules:
        attempt = known.get(rule)
        if attempt is not None and changed.isdisjoint(attempt.seen):
            yield _renewed(attempt, sight, changed)
        elif attempt is not None or not (rule in barren or (rules is others or rule in others)):
            attempt = _attempt(sight, rule, block)
            if attempt.offers or attempt.failures or attempt.seen:
                yield attempt
            else:
                barren.add(rule)


def _in_order(attempts: Sequence[MatchAttempt]) -> list[Key]:
    """List the reads of match attempts in order, then the tensors that their matches read, for their producers."""
    found: list[Key] = []
    known: set[Key] = set()
    for attempt in attempts:
        new = [key for key in attempt.seen if key not in known]
        known.update(new)
        found += dict.fromkeys(new)
    found += dict.fromkeys(t for a in attempts for o in a.offers for t in o.reads if t not in known)
    return found


def _attempt(sight: TrackedGraph, rule: Rule, block: Block) -> MatchAttempt:
    sight.forget()
    try:
        offers = tuple([offer(*found, rule) for found in alternatives(sight, rule, block.site)])
    except RuleError as error:
        return MatchAttempt(rule, (), (RuleFailure(rule.name, error.reason),), sight.seen())
    return MatchAttempt(rule, offers, (), sight.seen())


def _renewed(attempt: MatchAttempt, sight: TrackedGraph, changed: Set[Key]) -> MatchAttempt:
    """Update a match attempt where at most the producers of tensors that its matches read have changed."""
    if all(changed.isdisjoint(o.reads) for o in attempt.offers):
        return attempt
    return attempt._replace(offers=tuple([renewed(o, sight.program) for o in attempt.offers]))


class _Offered(NamedTuple):
    """A candidate move whose blocks and tensors are numbers in a context."""

    rule: str
    roots: tuple[int, ...]
    choice: str
    kind: Kind
    uses: tuple[int, ...]
    reads: tuple[int, ...]


class MatchTemplate(NamedTuple):
    """A place with numbers for blocks and tensors.

    `attempts` are rules, the number of their candidate moves, and their tracked reads.
    """

    attempts: tuple[tuple[Rule, int, tuple[Question, ...]], ...]
    offers: tuple[_Offered, ...]
    watched: tuple[Question, ...]

    @staticmethod
    def of(scene: MatchContext, attempts: Sequence[MatchAttempt]) -> MatchTemplate | None:
        """Build the stencil of match attempts in a context; None if they refer to more than it, or to names."""
        tensors, blocks = scene.tensor_numbers, scene.block_numbers
        choices = "\0".join([o.move.choice for a in attempts for o in a.offers])
        if any(name in choices for name in (*blocks, *tensors)):
            return None
        offers, trials = [], []
        for attempt in attempts:
            if attempt.failures:
                return None
            questions = tuple([q for q in map(scene.question, attempt.seen) if q is not None])
            trials.append((attempt.rule, len(attempt.offers), questions))
            for move, kind, uses, reads in attempt.offers:
                roots = move.places[0].split(SEVERAL)
                if not all(s in blocks for s in (*roots, *uses)) or not all(t in tensors for t in reads):
                    return None
                numbers = tuple(blocks[s] for s in roots), tuple(blocks[s] for s in uses)
                found = tuple(tensors[t] for t in reads)
                offers.append(_Offered(move.rule, numbers[0], move.choice, kind, numbers[1], found))
        watched = {q for _, _, seen in trials for q in seen}
        makers = map(scene.question, {t for a in attempts for o in a.offers for t in o.reads})
        watched.update(q for q in makers if q is not None)
        return MatchTemplate(tuple(trials), tuple(offers), tuple(watched))

    def at(self, scene: MatchContext, rules: tuple[Rule, ...]) -> Place:
        """Instantiate the place for a context."""
        tensors, sites = scene.tensors, scene.blocks
        offers = [
            Candidate(
                Move(o.rule, SEVERAL.join([sites[k] for k in o.roots]), o.choice),
                o.kind,
                frozenset([sites[k] for k in o.uses]),
                tuple([tensors[t] for t in o.reads]),
            )
            for o in self.offers
        ]
        return Place(rules, tuple(offers), frozenset(map(scene.key, self.watched)), None, self, scene)

    def attempts_at(self, scene: MatchContext, offers: Sequence[Candidate]) -> Iterator[MatchAttempt]:
        """Yield the match attempts of the place for a context, whose candidate moves are `offers`."""
        start = 0
        for rule, count, seen in self.attempts:
            yield MatchAttempt(rule, tuple(offers[start : start + count]), (), tuple(map(scene.key, seen)))
            start += count
