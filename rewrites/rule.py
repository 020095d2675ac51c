"""The language of rules: two sides written as expressions over the same variables, a guard, choices.

    x = tensor("x")
    Rule(
        name="transpose_twice",
        left=op("view", op("view", x, map=attr("inner"), ...), map=attr("outer"), ...),
        right=op("view", x, given=composed),
        ...
    )

On the left a `tensor` stands for any tensor, `rest` for any number of operands, `attr` for any value of an
attribute; the same name (or the same term object) twice requires the same value twice. Attributes that are
not mentioned may be anything. On the right are the same terms, plus `pick` (operands computed from the
match), `parts` (as many new operands as the match needs) and attributes that are functions of
the match. A side of several terms has several results. `above` stands for all blocks that compute a tensor
from certain blocks, in any form; the right side `fuse()` makes one fused block of all matched blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import cleandoc
from typing import Any, Protocol

import numpy as np

from tapestry.rewrites.regions import Above, ExpandFused, Fuse, PutWaypoint, Repeat
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Definition, Graph, TensorType

# Under this name a match of a rule that takes several matches together binds them.
TOGETHER = "together"

KINDS = ("semantic", "optimization")
DOMAINS = ("exact", "real")

# What a rule's sides are made into, where the left one is a function when one of these is first asked for.
MADE = ("roots", "results", "depth")

# Per operator the attributes that hold one entry per operand: they move along when operands are exchanged.
ALIGNED: Mapping[str, tuple[str, ...]] = {"contract": ("labels",)}


class RuleError(ValueError):
    """Error raised when a rule does not keep its promise: `rule` is its name, `reason` what it does instead."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"rule {rule!r}: {reason}")
        self.rule, self.reason = rule, reason


@dataclass(frozen=True, eq=False)
class TensorPattern:
    """A term for any tensor, by the rule's name for it."""

    name: str


@dataclass(frozen=True, eq=False)
class Rest:
    """A term for any number of operands in a row, possibly none."""

    name: str


@dataclass(frozen=True, eq=False)
class Pick:
    """A right-side term: operands computed from the match."""

    sites: Callable[[Match], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Parts:
    """A right-side term: operands built for the match, as many terms as it needs."""

    terms: Callable[[Match], Sequence[Term]]


@dataclass(frozen=True, eq=False)
class Case:
    """A right-side term: one of two terms, depending on the match."""

    condition: Callable[[Match], bool]
    yes: TensorPattern | Op
    no: TensorPattern | Op


@dataclass(frozen=True, eq=False)
class Computed:
    """A right side: the terms of all results at once, computed from the match when it is replaced."""

    terms: Callable[[Match], Sequence[Result]]


@dataclass(frozen=True, eq=False)
class NoOperand:
    """A right side: the result is not needed any more."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """A pattern for any value of an attribute, by the rule's name for it."""

    name: str


class AttributePattern(Protocol):
    """A left-side pattern inside the attributes of a block, which may match in several ways.

    For a cell it may name as `heads` functions, one of which the expression must have: others are not tested.
    """

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """Return the bindings of each match; empty if it does not match."""


@dataclass(frozen=True, eq=False)
class Op:
    """An application of an operator (None: of any) to operands."""

    operator: str | None
    operands: tuple[Term, ...]
    attributes: tuple[tuple[str, Any], ...]
    given: Callable[[Match], Mapping[str, Any]] | None = None
    inside: AttributePattern | None = None
    name: str = ""
    is_only_here: bool = False
    is_commutative: bool = False
    places: str = ""
    data: Callable[[Match], np.ndarray] | None = None

    def named(self, name: str) -> Op:
        """Name the term. On the left, `m[name]` is the output; on the right, the new block's role, part of its site."""
        return replace(self, name=name)

    def only_here(self) -> Op:
        """Require, on the left side, that only matched blocks read the output: nothing is computed twice."""
        return replace(self, is_only_here=True)

    def at(self, places: str) -> Op:
        """Match, on the left side, the operands whose positions `inside` binds to this name; others are free."""
        return replace(self, places=places)

    def holding(self, data: Callable[[Match], np.ndarray]) -> Op:
        """Set, on the right side, a source's values, which are supplied with the program from now on."""
        return replace(self, data=data)

    def commutative(self) -> Op:
        """Let the operands match in any order on the left side, their aligned attributes with them."""
        if self.operator not in ALIGNED or any(isinstance(o, Rest) for o in self.operands):
            raise ValueError(f"operands of {self.operator!r} cannot be exchanged by a pattern")
        return replace(self, is_commutative=True)


Term = TensorPattern | Rest | Pick | Parts | Op | Case | Above
Result = TensorPattern | Op | Case | NoOperand
# A left side: its terms, or a function that makes them, asked when they are first needed.
LeftSide = Op | tuple[Op, ...] | Callable[[], tuple[Op, ...]]
# Right sides that make all results at once.
WholeSide = Computed | Fuse | ExpandFused | Repeat | PutWaypoint


def tensor(name: str) -> TensorPattern:
    """Build a term for any tensor; `m[name]` is its site."""
    return TensorPattern(name)


def rest(name: str) -> Rest:
    """Build a term for any number of operands; `m[name]` is the tuple of their sites."""
    return Rest(name)


def attr(name: str) -> Attribute:
    """Build a pattern for any value; `m[name]` is the value (None: the attribute is absent)."""
    return Attribute(name)


def pick(sites: Callable[[Match], Sequence[str]]) -> Pick:
    """Build operands computed from the match, out of the sites it binds."""
    return Pick(sites)


def parts(terms: Callable[[Match], Sequence[Term]]) -> Parts:
    """Build operands made for the match, e.g. one view per part of a concatenation.

    Several results that name the same `Parts` share the operands that it builds.
    """
    return Parts(terms)


def case(condition: Callable[[Match], bool], yes: TensorPattern | Op, no: TensorPattern | Op) -> Case:
    """Build the term `yes` if the condition holds for the match, else `no`."""
    return Case(condition, yes, no)


def computed(terms: Callable[[Match], Sequence[Result]]) -> Computed:
    """Build a whole right side that is a function of the match: one result per root."""
    return Computed(terms)


NOTHING = NoOperand()


def op(
    operator: str | None,
    *operands: Term,
    given: Callable[[Match], Mapping[str, Any]] | None = None,
    inside: AttributePattern | None = None,
    **attributes: Any,
) -> Op:
    """Build an application. Right side: `given(match)` adds attributes that belong together."""
    return Op(operator, operands, tuple(attributes.items()), given, inside)


@dataclass(eq=False, slots=True)
class Match:
    """The bindings of a rule's variables at one place. Guards, choices and attributes are functions of it."""

    edited: TrackedGraph
    bindings: Mapping[Any, Any]
    roots: tuple[Block, ...]
    blocks: tuple[Block, ...]
    choice: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.bindings[name]

    def block(self, term: Op) -> Block:
        """Return the block that an application of the left side matched."""
        found: Block = self.bindings[term]
        return found

    def type(self, name: str) -> TensorType:
        """Return the shape and element type of the tensor called `name`."""
        return self.edited.tensors[self.bindings[name]].type

    def types(self, name: str) -> tuple[TensorType, ...]:
        """Return the shapes and element types of the operands called `name`."""
        return tuple(self.edited.tensors[t].type for t in self.bindings[name])

    def shape(self, name: str) -> tuple[int, ...]:
        return self.type(name).shape

    def dtype(self, name: str) -> str:
        return self.type(name).dtype

    def result(self, k: int = 0) -> TensorType:
        """Return the type of the k-th result that is replaced."""
        return self.edited.tensors[self.roots[k].outputs[0]].type

    def value(self, name: str) -> np.ndarray | None:
        """Return the data of the tensor called `name`; None if it is not supplied with the program."""
        return self.edited.data.get(self.bindings[name])

    @property
    def together(self) -> tuple[Match, ...]:
        """The single matches of a rule that takes all of them together, in program order of their last roots."""
        found: tuple[Match, ...] = self.bindings[TOGETHER]
        return found

    def is_unread(self) -> bool:
        """Return whether no output of the first root has readers."""
        return not any(self.edited.readers[t] for t in self.roots[0].outputs)


class ExampleSizes:
    """The sizes of an example: the default ones, or random ones from 1 (or `least`) to `most`."""

    def __init__(self, rng: np.random.Generator | None = None, most: int = 5) -> None:
        self.rng = rng
        self.most = most

    def __call__(self, default: int, least: int = 1) -> int:
        """Return one size; `default` in the fixed example."""
        return default if self.rng is None else int(self.rng.integers(least, max(least, self.most) + 1))


@dataclass(frozen=True, eq=False)
class Rule:
    """A law of equivalence between programs.

    `doc`: first line the change; then before -> after; then when it is allowed and why it preserves
    meaning. `source` names its origin. `where` adds conditions and binds more names (None: the
    rule does not match here); `when` is the guard, evaluated after it; `choices` lists the alternatives of one
    match as short texts (`m.choice` on the right side); `further` says of another text whether it is one, too, which
    nobody lists. `kind`: "semantic" rules say what an operator means,
    "optimization" rules how to do it better. `domain`: "exact" keeps every bit (up to the sign of zero),
    "real" holds for real numbers and so up to rounding. `saturating`: applying it wherever it matches ends
    (`rewrites.measure` falls). `example` builds a small graph in which the rule fires. `together`: with two or more
    roots, all blocks that match as the last one beside the same others, with the same choice, are taken at once
    if there are several; `m.together` are the single matches, and the right side is a `computed` one.

    Guards, choices and `where` are functions of what they read through the match, up to names: the matched blocks,
    their inputs, and whatever else they request from `m.edited`; where these tracked reads change, and only there, the
    rule is tried again. A saturating rule declares with `context_depth` how many blocks above the matched it reads.

    Shared values are not computed twice: if other blocks read results of matched blocks, so that these stay, the
    right side does not recompute them, unless `duplicates` says so. `only_here` restricts a pattern to values that
    are not shared; `rewrites.testing` checks it.

    A left side that is costly to build may be a function, called when the rule is first matched: code that only names
    rules does not wait for it. It returns the same terms whenever it is called. `roots`, `results` and `depth` then
    raise what would else be raised at once, a RuleError if the sides do not fit together.
    """

    name: str
    left: LeftSide
    right: Result | WholeSide | tuple[Result, ...]
    doc: str
    source: str
    example: Callable[[ExampleSizes], Graph]
    where: Callable[[Match], Mapping[str, Any] | None] | None = None
    when: Callable[[Match], bool] | None = None
    choices: Callable[[Match], Sequence[str]] | None = None
    further: Callable[[Match, str], bool] | None = None
    kind: str = "optimization"
    domain: str = "exact"
    saturating: bool = False
    context_depth: int = 0
    together: bool = False
    duplicates: bool = False
    roots: tuple[Op, ...] = field(init=False)
    results: tuple[Result | WholeSide, ...] = field(init=False)
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doc", cleandoc(self.doc))
        for name, known in (("kind", KINDS), ("domain", DOMAINS)):
            if (came := getattr(self, name)) not in known:
                raise RuleError(self.name, f"{name} is one of {', '.join(known)}, not {came!r}")
        if isinstance(self.right, Repeat | PutWaypoint) or (
            isinstance(self.right, Fuse) and self.right.recomputes
        ):
            object.__setattr__(self, "duplicates", True)
        if not callable(self.left):
            self._make()

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there yet. No lock: threads that make the sides at once make the same.
        if name not in MADE:
            raise AttributeError(f"a rule has no {name!r}")
        self._make()
        return object.__getattribute__(self, name)

    def _make(self) -> None:
        left = self.left() if callable(self.left) else self.left
        roots = left if isinstance(left, tuple) else (left,)
        results = self._results(roots)
        self._check(roots, results)
        for name, value in zip(
            MADE, (roots, results, self.context_depth + max(map(_depth, roots))), strict=True
        ):
            object.__setattr__(self, name, value)

    def _results(self, roots: tuple[Op, ...]) -> tuple[Result | WholeSide, ...]:
        if isinstance(self.right, WholeSide):
            return (self.right,) * len(roots)
        return self.right if isinstance(self.right, tuple) else (self.right,)

    def _check(self, roots: tuple[Op, ...], results: tuple[Result | WholeSide, ...]) -> None:
        """Check that the sides fit together; raise a RuleError otherwise."""
        if len(roots) != len(results):
            raise RuleError(self.name, f"{len(roots)} roots on the left, {len(results)} results on the right")
        bound = {t.name for root in roots for t in terms(root) if isinstance(t, TensorPattern | Rest | Op)}
        unbound = [
            t.name
            for result in results
            if not isinstance(result, NoOperand | WholeSide)
            for t in terms(result)
            if isinstance(t, TensorPattern | Rest) and t.name not in bound
        ]
        if unbound:
            raise RuleError(self.name, f"the right side reads {unbound}, which the left side does not bind")
        inner = [t for root in roots for o in root.operands for t in terms(o) if isinstance(t, Op)]
        made = [t for r in results if isinstance(r, Op) for t in terms(r)]
        again = [t for t in inner if not t.is_only_here and any(t is other for other in made)]
        if again and not self.duplicates:
            raise RuleError(
                self.name,
                f"the right side computes {again[0].name or again[0].operator!r} again, which others may read: mark it "
                "only_here(), read it by its name, or say that the rule duplicates",
            )


def terms(term: Term) -> Iterator[Term]:
    """Yield the term and all terms inside it."""
    yield term
    for part in _inner(term):
        yield from terms(part)


def _inner(term: Term) -> Sequence[Term]:
    if isinstance(term, Op):
        return term.operands
    return (term.yes, term.no) if isinstance(term, Case) else ()


def _depth(term: Term) -> int:
    """Count the blocks on the longest path into the term."""
    own = 1 if isinstance(term, Op) else term.most + 3 if isinstance(term, Above) else 0
    return own + max((_depth(o) for o in _inner(term)), default=0)
