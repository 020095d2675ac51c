"""Our rules as an e-graph's: left sides become patterns; the rule itself computes the right side over matched kinds.

A pattern fixes how many operands each application has, in which order, and which operands are the same. egglog
finds where it fits; whether the guard holds there, and what the right side is, depends on the matched kinds
alone. So it is worked out once per tuple of kinds, by the rule itself, on the smallest program in which it fits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

from benchmarks.egraphs.kinds import ENodeKind, Kinds, Ref, program
from tapestry.rewrites import Move, Rule, StaleMove, apply_all, saturate
from tapestry.rewrites.index import index_of
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.rule import Op, Rest, RuleError, TensorPattern, Term
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Graph

# Per operator the most operands that an e-node may have, unless the program has more: laws that flatten would
# go on for ever.
MOST_OPERANDS: Mapping[str, int] = {"contract": 3, "concat": 8, "cell": 24}

FLATTENING = ("flatten_contract", "concat_of_concat", "fuse_cells", "fuse_broadcast_cell", "fuse_generator")

# Rules that ask whether two of their operands are the same tensor.
ASK_FOR_REPEATS = ("merge_reads",)


class PatternNode(NamedTuple):
    """An application in a pattern: operator and operands, `("leaf", k)` or `("node", k)`."""

    operator: str
    operands: tuple[Ref, ...]


class Pattern(NamedTuple):
    """A left side with its numbers of operands fixed; operands come before readers, `roots` index into `nodes`."""

    rule: Rule
    nodes: tuple[PatternNode, ...]
    roots: tuple[int, ...]


class Template(NamedTuple):
    """A right side: kinds by number with their operands, and the result that replaces each root."""

    kinds: tuple[int, ...]
    operands: tuple[tuple[Ref, ...], ...]
    results: tuple[Ref, ...]


class Partial(NamedTuple):
    """A partially built pattern: the bindings of names (and terms), the applications, the number of leaves so far."""

    bound: Mapping[object, tuple[Ref, ...]]
    nodes: tuple[PatternNode, ...]
    leaves: int

    def with_leaves(self, name: str, count: int) -> Partial:
        """Bind a name to `count` new leaves."""
        refs = tuple(("leaf", self.leaves + k) for k in range(count))
        return Partial({**self.bound, name: refs}, self.nodes, self.leaves + count)


def patterns(
    rule: Rule, arities: Mapping[str, Collection[int]], most: Mapping[str, int] = MOST_OPERANDS
) -> list[Pattern]:
    """Return all patterns of a rule over applications with these numbers of operands, each once."""
    found = dict.fromkeys(
        Pattern(rule, part.nodes, tuple(ref[1] for root in rule.roots for ref in part.bound[root]))
        for part in _terms(rule.roots, Partial({}, (), 0), arities)
    )
    distinct = [p for p in found if len(set(p.roots)) == len(p.roots) and not _is_too_long(p, most)]
    if rule.name not in ASK_FOR_REPEATS:
        return distinct
    return [*distinct, *dict.fromkeys(q for p in distinct for q in _with_repeats(p))]


def _is_too_long(pattern: Pattern, most: Mapping[str, int]) -> bool:
    """Return whether the right side, which puts all leaves into one application, would have too many operands."""
    root = pattern.nodes[pattern.roots[0]].operator
    leaves = {r for n in pattern.nodes for r in n.operands if r[0] == "leaf"}
    return pattern.rule.name in FLATTENING and len(leaves) > most[root]


def _with_repeats(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the pattern with two of its leaves identified, for every two."""
    leaves = 1 + max((r[1] for n in pattern.nodes for r in n.operands if r[0] == "leaf"), default=-1)
    for one, two in combinations(range(leaves), 2):
        same = {("leaf", k): ("leaf", one if k == two else k - (k > two)) for k in range(leaves)}
        nodes = tuple(
            PatternNode(n.operator, tuple(same.get(r, r) for r in n.operands)) for n in pattern.nodes
        )
        yield Pattern(pattern.rule, nodes, pattern.roots)


def _terms(terms: Sequence[Term], part: Partial, arities: Mapping[str, Collection[int]]) -> Iterator[Partial]:
    """Yield the partial patterns that match the terms one after the other."""
    if not terms:
        yield part
        return
    for after in _term(terms[0], part, arities):
        yield from _terms(terms[1:], after, arities)


def _term(term: Term, part: Partial, arities: Mapping[str, Collection[int]]) -> Iterator[Partial]:
    if isinstance(term, TensorPattern):
        yield part if term.name in part.bound else part.with_leaves(term.name, 1)
    elif isinstance(term, Rest):
        if term.name in part.bound:
            yield part
        else:
            most = max((n for of in arities.values() for n in of), default=0)
            for count in range(most + 1):
                yield part.with_leaves(term.name, count)
    elif isinstance(term, Op):
        if term in part.bound:
            yield part
        elif term.operator is not None:
            yield from _application(term, term.operator, part, arities)


def _application(
    term: Op, operator: str, part: Partial, arities: Mapping[str, Collection[int]]
) -> Iterator[Partial]:
    orders = permutations(term.operands) if term.is_commutative else (term.operands,)
    for order in orders:
        for after in _terms(order, part, arities):
            operands = tuple(
                ref
                for o in order
                for ref in after.bound[o.name if isinstance(o, TensorPattern | Rest) else o]
            )
            if len(operands) in arities.get(operator, ()):
                ref = ("node", len(after.nodes))
                bound = {**after.bound, term: (ref,)}
                yield Partial(bound, (*after.nodes, PatternNode(operator, operands)), after.leaves)


class Laws:
    """The right sides of patterns over kinds, computed when first requested.

    `normal` are rules for single applications: the result of a right side is normalized by them at once, as our search
    does after every move.
    """

    def __init__(self, kinds: Kinds, normal: Sequence[Rule]) -> None:
        self.kinds = kinds
        self.normal = tuple(normal)
        self.skipped: dict[str, int] = {}
        self.most = dict(MOST_OPERANDS)

    def allow(self, graph: Graph) -> None:
        """Raise the limit on an operator's operands to the longest of its applications in a program."""
        for block in graph.blocks:
            if block.operator in self.most:
                self.most[block.operator] = max(self.most[block.operator], len(block.inputs))

    def templates(self, pattern: Pattern, numbers: Sequence[int]) -> list[Template]:
        """Return a pattern's right sides over these kinds, one per match and choice; none where a guard forbids it."""
        kinds = [self.kinds[n] for n in numbers]
        leaves = {
            ref[1]: of
            for kind, node in zip(kinds, pattern.nodes, strict=True)
            for of, ref in zip(kind.inputs, node.operands, strict=True)
            if ref[0] == "leaf"
        }
        types = [leaves[k] for k in range(len(leaves))]
        graph = program(kinds, [n.operands for n in pattern.nodes], types, pattern.roots)
        first = graph.by_site[f"node{pattern.roots[0]}"]
        if pattern.rule not in index_of((pattern.rule,)).rules_at(graph, first):
            return []
        try:
            fits = list(alternatives(TrackedGraph(graph), pattern.rule, first.site))
        except RuleError:
            return self._skip(pattern)
        wanted = [f"node{k}" for k in pattern.roots]
        moves = [
            move
            for move, match in fits
            if [b.site for b in match.roots] == wanted and len(match.blocks) == len(pattern.nodes)
        ]
        found = dict.fromkeys(t for move in moves for t in self._right_side(pattern, graph, move))
        return list(found)

    def _right_side(self, pattern: Pattern, graph: Graph, move: Move) -> list[Template]:
        try:
            applied = apply_all(graph, [move], {pattern.rule.name: pattern.rule})
            result = saturate(applied.graph, self.normal, changes=applied.changes).graph
        except (StaleMove, RuleError):
            return self._skip(pattern)
        template = self._template(result, pattern.roots)
        return [] if template is None else [template]

    def _template(self, graph: Graph, roots: Sequence[int]) -> Template | None:
        refs: dict[str, Ref] = {}
        numbers: list[int] = []
        operands: list[tuple[Ref, ...]] = []
        for block in graph.blocks:
            if block.operator == "source":
                refs[block.outputs[0]] = ("leaf", int(block.site.removeprefix("leaf")))
            elif block.operator != "sink":
                if len(block.inputs) > self.most.get(block.operator, len(block.inputs)):
                    return None
                refs[block.outputs[0]] = ("made", len(numbers))
                numbers.append(self.kinds.number(kind_of(graph, block.site)))
                operands.append(tuple(refs[t] for t in block.inputs))
        results = tuple(refs[graph.by_site[f"out{k}"].inputs[0]] for k in roots)
        return Template(tuple(numbers), tuple(operands), results)

    def _skip(self, pattern: Pattern) -> list[Template]:
        name = pattern.rule.name
        self.skipped[name] = self.skipped.get(name, 0) + 1
        return []


def kind_of(graph: Graph, site: str) -> ENodeKind:
    """Return the kind of a block; sources are distinguished by their sites."""
    block = graph.by_site[site]
    own = site if block.operator == "source" else ""
    return ENodeKind(block.definition, graph.input_types(block), graph.output_types(block), own)
