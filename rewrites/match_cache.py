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
from tapestry.rewrites.ties import Candidate, Kind, candidate, renewed
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
    candidates: tuple[Candidate, ...]
    failures: tuple[RuleFailure, ...]
    seen: tuple[Key, ...]


class Place:
    """The candidate moves whose first root is a certain block, in the order of the rules.

    `rules` are all that were tried; those with neither a candidate move nor tracked reads there have no match attempt.
    `watched` is what may change the match attempts, or the kinds of their candidate moves. A place that was recognized
    has its `stencil`, and the context by which it was recognized.
    """

    __slots__ = ("_attempts", "candidates", "context", "moves", "rules", "stencil", "watched")

    def __init__(
        self,
        rules: tuple[Rule, ...],
        candidates: tuple[Candidate, ...],
        watched: frozenset[Key],
        attempts: tuple[MatchAttempt, ...] | None = None,
        stencil: MatchTemplate | None = None,
        context: MatchContext | None = None,
    ) -> None:
        self.rules, self.candidates, self.watched = rules, candidates, watched
        self.moves = tuple([o.move for o in candidates])
        self.stencil, self.context, self._attempts = stencil, context, attempts

    @property
    def attempts(self) -> tuple[MatchAttempt, ...]:
        """The match attempts of the rules that have candidate moves, failures or tracked reads."""
        if self._attempts is None:
            assert self.stencil is not None and self.context is not None
            self._attempts = tuple(self.stencil.attempts_at(self.context, self.candidates))
        return self._attempts

    @property
    def failures(self) -> tuple[RuleFailure, ...]:
        """The failures of the rules that fail here."""
        return () if self.stencil is not None else tuple(f for a in self.attempts for f in a.failures)


def tried(
    tracked: TrackedGraph,
    index: Index,
    block: Block,
    before: Place | None = None,
    changed: Set[Key] = frozenset(),
) -> Place:
    """Try the rules at a block. Match attempts made `before` are reused if they read nothing in `changed`."""
    rules = index.rules_at(tracked.program, block)
    if before is not None and rules is before.rules and _are_few(before.attempts, changed):
        return _place(rules, tuple(_attempts(tracked, index, block, rules, before, changed)))
    visit = index.contexts.visit(rules, MatchContext(tracked, block))
    stencil: MatchTemplate | None = None if visit.leaf is None else visit.leaf.stencil
    if stencil is not None:
        visit.context.close()
        return stencil.at(visit.context, rules)
    attempts = tuple(_attempts(tracked, index, block, rules, before, changed))
    if visit.leaf is None:
        index.contexts.learn(visit, _in_order(attempts), CachedAttempts(visit.context, attempts))
    visit.context.close()
    return _place(rules, attempts)


def _are_few(attempts: Sequence[MatchAttempt], changed: Set[Key]) -> bool:
    """Return whether so few match attempts must be repeated that looking up an equal context takes longer."""
    return sum(not changed.isdisjoint(a.seen) for a in attempts) <= FEW_ATTEMPTS


def _place(rules: tuple[Rule, ...], attempts: tuple[MatchAttempt, ...]) -> Place:
    candidates = tuple([o for a in attempts for o in a.candidates])
    watched = {t for o in candidates for t in o.reads}.union(*[a.seen for a in attempts])
    return Place(rules, candidates, frozenset(watched), attempts)


class CachedAttempts:
    """Match attempts in a context, and, once it occurs again, their stencil: None if they cannot have one."""

    def __init__(self, context: MatchContext, attempts: tuple[MatchAttempt, ...]) -> None:
        self.context, self.attempts = context, attempts

    @cached_property
    def stencil(self) -> MatchTemplate | None:
        """The match attempts with numbers instead of names."""
        return MatchTemplate.of(self.context, self.attempts)


def _attempts(
    tracked: TrackedGraph,
    index: Index,
    block: Block,
    rules: Sequence[Rule],
    before: Place | None,
    changed: Set[Key],
) -> Iterator[MatchAttempt]:
    unmatched = index.unmatched(tracked.program, block)
    known = {} if before is None else {a.rule: a for a in before.attempts}
    others = () if before is None else before.rules
    for rule in rules:
        attempt = known.get(rule)
        if attempt is not None and changed.isdisjoint(attempt.seen):
            yield _renewed(attempt, tracked, changed)
        elif attempt is not None or not (rule in unmatched or (rules is others or rule in others)):
            attempt = _attempt(tracked, rule, block)
            if attempt.candidates or attempt.failures or attempt.seen:
                yield attempt
            else:
                unmatched.add(rule)


def _in_order(attempts: Sequence[MatchAttempt]) -> list[Key]:
    """List the reads of match attempts in order, then the tensors that their matches read, for their producers."""
    found: list[Key] = []
    known: set[Key] = set()
    for attempt in attempts:
        new = [key for key in attempt.seen if key not in known]
        known.update(new)
        found += dict.fromkeys(new)
    found += dict.fromkeys(t for a in attempts for o in a.candidates for t in o.reads if t not in known)
    return found


def _attempt(tracked: TrackedGraph, rule: Rule, block: Block) -> MatchAttempt:
    tracked.clear_reads()
    try:
        candidates = tuple([candidate(*found, rule) for found in alternatives(tracked, rule, block.site)])
    except RuleError as error:
        return MatchAttempt(rule, (), (RuleFailure(rule.name, error.reason),), tracked.seen())
    return MatchAttempt(rule, candidates, (), tracked.seen())


def _renewed(attempt: MatchAttempt, tracked: TrackedGraph, changed: Set[Key]) -> MatchAttempt:
    """Update a match attempt where at most the producers of tensors that its matches read have changed."""
    if all(changed.isdisjoint(o.reads) for o in attempt.candidates):
        return attempt
    return attempt._replace(candidates=tuple([renewed(o, tracked.program) for o in attempt.candidates]))


class _CachedCandidate(NamedTuple):
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
    candidates: tuple[_CachedCandidate, ...]
    watched: tuple[Question, ...]

    @staticmethod
    def of(context: MatchContext, attempts: Sequence[MatchAttempt]) -> MatchTemplate | None:
        """Build the stencil of match attempts in a context; None if they refer to more than it, or to names."""
        tensors, blocks = context.tensor_numbers, context.block_numbers
        choices = "\0".join([o.move.choice for a in attempts for o in a.candidates])
        if any(name in choices for name in (*blocks, *tensors)):
            return None
        candidates, trials = [], []
        for attempt in attempts:
            if attempt.failures:
                return None
            questions = tuple([q for q in map(context.question, attempt.seen) if q is not None])
            trials.append((attempt.rule, len(attempt.candidates), questions))
            for move, kind, uses, reads in attempt.candidates:
                roots = move.places[0].split(SEVERAL)
                if not all(s in blocks for s in (*roots, *uses)) or not all(t in tensors for t in reads):
                    return None
                numbers = tuple(blocks[s] for s in roots), tuple(blocks[s] for s in uses)
                found = tuple(tensors[t] for t in reads)
                candidates.append(
                    _CachedCandidate(move.rule, numbers[0], move.choice, kind, numbers[1], found)
                )
        watched = {q for _, _, seen in trials for q in seen}
        producers = map(context.question, {t for a in attempts for o in a.candidates for t in o.reads})
        watched.update(q for q in producers if q is not None)
        return MatchTemplate(tuple(trials), tuple(candidates), tuple(watched))

    def at(self, context: MatchContext, rules: tuple[Rule, ...]) -> Place:
        """Instantiate the place for a context."""
        tensors, sites = context.tensors, context.blocks
        candidates = [
            Candidate(
                Move(o.rule, SEVERAL.join([sites[k] for k in o.roots]), o.choice),
                o.kind,
                frozenset([sites[k] for k in o.uses]),
                tuple([tensors[t] for t in o.reads]),
            )
            for o in self.candidates
        ]
        return Place(rules, tuple(candidates), frozenset(map(context.key, self.watched)), None, self, context)

    def attempts_at(self, context: MatchContext, candidates: Sequence[Candidate]) -> Iterator[MatchAttempt]:
        """Yield the match attempts of the place for a context, whose candidate moves are `candidates`."""
        start = 0
        for rule, count, seen in self.attempts:
            yield MatchAttempt(
                rule, tuple(candidates[start : start + count]), (), tuple(map(context.key, seen))
            )
            start += count
