"""An index of the rules that may match at a block, by their roots alone: computed once per definition.

Imported by the matcher, by what keeps moves current and by saturation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from math import inf
from typing import Any, Protocol

from tapestry.rewrites.context_cache import ContextCache
from tapestry.rewrites.patterns import functions_of
from tapestry.rewrites.regions import Above
from tapestry.rewrites.rule import ALIGNED, Attribute, Op, Rest, Rule, RuleError, Term
from tapestry.teg.graph import Block, Definition, Tensor, TensorType

BOUNDARY = ("source", "sink")

# Definitions whose rules are remembered, per catalog: a long search meets new ones without end.
MOST_KNOWN = 1 << 15


class ProducerMap(Protocol):
    """Tensors and their producers: a graph or a draft."""

    @property
    def tensors(self) -> Mapping[str, Tensor]: ...

    @property
    def producers(self) -> Mapping[str, Block]: ...


class Index:
    """An index of rules by the requirements of their root on a block and on the producers of its inputs.

    `broken` are the rules whose left side cannot be built or tested, each with the reason. `depth` is that of the
    deepest pattern, `largest` the number of blocks in the largest, `paired` the rules with several roots; `contexts` is
    the context cache: the contexts in which all of them were tried.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.broken: dict[str, RuleError] = {}
        self.rules = rules = tuple(rule for rule in rules if self._has_sides(rule))
        self.depth = max((r.depth for r in rules), default=0)
        self.largest = max((sum(map(_size, r.roots)) for r in rules), default=0)
        self.paired = tuple(r for r in rules if len(r.roots) > 1)
        self._by_operator: dict[str, list[tuple[Rule, frozenset[str]]]] = {}
        self._by_definition: dict[tuple[Any, ...], tuple[Rule, ...]] = {}
        self._by_makers: dict[tuple[Any, ...], tuple[Rule, ...]] = {}
        self.contexts: ContextCache[Any] = ContextCache()
        self._unmatched: dict[tuple[Any, ...], set[Rule]] = {}

    def check(self) -> None:
        """Raise an error for rules whose left side cannot be built or tested.

        Raises:
            RuleError: for the first of them.
        """
        for error in self.broken.values():
            raise error

    def _has_sides(self, rule: Rule) -> bool:
        try:
            _ = rule.roots, rule.depth  # made when they are first asked for
            return True
        except Exception as error:
            self._leave_out(rule, error)
            return False

    def _fits(self, rule: Rule, definition: Definition, types: Sequence[TensorType]) -> bool:
        try:
            return rule.name not in self.broken and fits_alone(rule.roots[0], definition, types)
        except Exception as error:
            self._leave_out(rule, error)
            return False

    def _leave_out(self, rule: Rule, error: Exception) -> None:
        if not isinstance(error, RuleError):
            error = RuleError(rule.name, f"its left side fails: {type(error).__name__}: {error}")
        self.broken.setdefault(rule.name, error)

    def rules_for(self, program: ProducerMap, block: Block) -> tuple[Rule, ...]:
        """Find the rules whose root may be this block, whatever is around it."""
        types = [program.tensors[t].type for t in block.inputs]
        key = (block.definition, *(t.dtype for t in types))
        found = self._by_definition.get(key)
        if found is None:
            there = functions_of(block.definition) if block.operator == "cell" else frozenset[str]()
            rules = [r for r, heads in self._with_root(block.operator) if not heads or heads & there]
            found = tuple(r for r in rules if self._fits(r, block.definition, types))
            _remember(self._by_definition, key, found)
        return found

    def rules_at(self, program: ProducerMap, block: Block) -> tuple[Rule, ...]:
        """Find those rules for the block that are compatible with the producers of its inputs."""
        producers = program.producers
        makers = [producers[t].operator for t in block.inputs]
        key = (block.definition, *makers, *[program.tensors[t].dtype for t in block.inputs])
        found = self._by_makers.get(key)
        if found is None:
            there = set(makers)
            rules = [r for r in self.rules_for(program, block) if required_producers(r.roots[0]) <= there]
            found = tuple(r for r in rules if _may_begin(r.roots[0], there))
            _remember(self._by_makers, key, found)
        return found

    def unmatched(self, program: ProducerMap, block: Block) -> set[Rule]:
        """Return the rules known to have no match at such a block, whatever is around it; callers may add to it."""
        inputs = block.inputs
        same = () if len(set(inputs)) == len(inputs) else tuple(map(inputs.index, inputs))
        key = (block.definition, same, *[program.tensors[t].type for t in inputs])
        found = self._unmatched.get(key)
        if found is None:
            if len(self._unmatched) >= MOST_KNOWN:
                self._unmatched.clear()
            found = self._unmatched[key] = set()
        return found

    def _with_root(self, operator: str) -> list[tuple[Rule, frozenset[str]]]:
        """List the rules for an operator, each with the functions of which a cell must have one (empty: any)."""
        known = self._by_operator.get(operator)
        if known is None:
            rules = [r for r in self.rules if r.roots[0].operator in (None, operator)]
            known = [(r, _heads(r)) for r in rules]
            self._by_operator[operator] = known
        return known


def _heads(rule: Rule) -> frozenset[str]:
    """Return the functions of which a cell must have one; empty: any."""
    heads = getattr(rule.roots[0].inside, "heads", None)
    return heads if isinstance(heads, frozenset) else frozenset()


def may_begin(rule: Rule, program: ProducerMap, block: Block) -> bool:
    """Return whether the producers of a block's inputs are compatible with the rule's first root."""
    root, there = rule.roots[0], {program.producers[t].operator for t in block.inputs}
    return required_producers(root) <= there and _may_begin(root, there)


def _may_begin(term: Op, makers: Collection[str]) -> bool:
    """Return whether the terms for subgraphs above operands can begin with blocks of these operators."""
    far = [o for o in term.operands if isinstance(o, Above)]
    return all(not {*o.operators, *o.ends}.isdisjoint(makers) for o in far)


def _remember(
    known: dict[tuple[Any, ...], tuple[Rule, ...]], key: tuple[Any, ...], rules: tuple[Rule, ...]
) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = rules


def _size(term: Term) -> int:
    """Count the blocks of a pattern, shared ones as often as they occur."""
    if isinstance(term, Above):
        return term.most
    return 1 + sum(map(_size, term.operands)) if isinstance(term, Op) else 0


@lru_cache(maxsize=64)
def index_of(rules: tuple[Rule, ...]) -> Index:
    """Return the index of these rules."""
    return Index(rules)


def fits_alone(term: Op, definition: Definition, types: Sequence[TensorType]) -> bool:
    """Return whether a definition over inputs of these types can match the term."""
    if term.operator != definition.operator and (
        term.operator is not None or definition.operator in BOUNDARY
    ):
        return False
    least, most = _room(term)
    if not term.places and not least <= len(types) <= most:
        return False
    aligned = ALIGNED.get(definition.operator, ()) if term.is_commutative else ()
    for name, wanted in term.attributes:
        if not isinstance(wanted, Attribute) and name not in aligned and definition.get(name) != wanted:
            return False
    return term.inside is None or bool(term.inside.ways(definition, types))


@cache
def _room(term: Op) -> tuple[int, float]:
    """Return the least and the largest possible number of operands."""
    least = sum(not is_row(t) for t in term.operands)
    return least, least if least == len(term.operands) else inf


def is_row(term: Term) -> bool:
    """Return whether a term stands for any number of operands."""
    return isinstance(term, Rest) or (isinstance(term, Above) and term.all_operands)


@cache
def required_producers(term: Op) -> frozenset[str]:
    """Return the operators required of the producers of a term's operands."""
    return frozenset(o.operator for o in term.operands if isinstance(o, Op) and o.operator is not None)
