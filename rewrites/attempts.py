"""What rules offer at one place, and what they looked at to say so."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from rewrites.index import Index
from rewrites.match import alternatives
from rewrites.move import Move
from rewrites.rule import Rule, RuleError
from rewrites.sight import NOTHING_SEEN, Key, Sight
from rewrites.ties import Offer, offer, renewed
from teg.graph import Block


class Failure(NamedTuple):
    """A rule that cannot say whether it fits, and what it said instead."""

    rule: str
    message: str


class Attempt(NamedTuple):
    """A rule tried at a place: as long as nothing that it has `seen` changes, it gives the same."""

    rule: Rule
    offers: tuple[Offer, ...]
    failures: tuple[Failure, ...]
    seen: frozenset[Key]


class Place(NamedTuple):
    """What is offered where the first root is a certain block, in the order of the rules.

    `rules` are all that were tried; of those that neither offer nor saw anything there is no attempt. `watched` is
    what may change the attempts, or the kinds of what they offer.
    """

    rules: tuple[Rule, ...]
    attempts: tuple[Attempt, ...]
    offers: tuple[Offer, ...]
    moves: tuple[Move, ...]
    watched: frozenset[Key]

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The rules that fail here."""
        return tuple(f for attempt in self.attempts for f in attempt.failures)


def tried(
    sight: Sight, index: Index, block: Block, before: Place | None = None, changed: Set[Key] = NOTHING_SEEN
) -> Place:
    """The rules tried at a block. Attempts made `before` at the same block hold where they saw nothing `changed`."""
    rules = index.rules_at(sight.program, block)
    barren = index.barren(sight.program, block)
    known = {} if before is None else {a.rule: a for a in before.attempts}
    others = () if before is None else before.rules
    attempts: list[Attempt] = []
    for rule in rules:
        attempt = known.get(rule)
        if attempt is not None and attempt.seen.isdisjoint(changed):
            attempts.append(_renewed(attempt, sight, changed))
        elif attempt is not None or not (rule in barren or (rules is others or rule in others)):
            attempt = _attempt(sight, rule, block)
            if attempt.offers or attempt.failures or attempt.seen:
                attempts.append(attempt)
            else:
                barren.add(rule)
    if before is not None and rules is others and _are_same(before.attempts, attempts):
        return before
    return _place(rules, tuple(attempts))


def _are_same(these: Sequence[Attempt], those: Sequence[Attempt]) -> bool:
    return len(these) == len(those) and all(a is b for a, b in zip(these, those, strict=True))


def _place(rules: tuple[Rule, ...], attempts: tuple[Attempt, ...]) -> Place:
    offers = tuple([o for a in attempts for o in a.offers])
    watched = NOTHING_SEEN.union(*[a.seen for a in attempts], *[o.reads for o in offers])
    return Place(rules, attempts, offers, tuple([o.move for o in offers]), watched)


def _attempt(sight: Sight, rule: Rule, block: Block) -> Attempt:
    sight.forget()
    try:
        offers = tuple([offer(*found, rule) for found in alternatives(sight, rule, block.site)])
    except RuleError as error:
        return Attempt(rule, (), (Failure(rule.name, error.reason),), sight.seen())
    return Attempt(rule, offers, (), sight.seen())


def _renewed(attempt: Attempt, sight: Sight, changed: Set[Key]) -> Attempt:
    """The attempt where nothing changed but, perhaps, what makes the tensors that its matches read."""
    if all(changed.isdisjoint(o.reads) for o in attempt.offers):
        return attempt
    return attempt._replace(offers=tuple([renewed(o, sight.program) for o in attempt.offers]))
