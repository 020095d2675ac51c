"""Saturation in egglog: the program's terms and our rules as egglog's, run until nothing is new or a limit is met.

Each pass runs the rules that find over which kinds a pattern fits, lets `Laws` compute the new right sides, and runs
the rules that add them. Rules with several roots run in the first passes only: each of their passes
may square the number of applications (as in tensat, whose limit this is).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from egglog.bindings import EGraph, FrozenEGraph

from benchmarks.egraphs.kinds import ENodeKind, Kinds, Ref, constructor_of
from benchmarks.egraphs.laws import Laws, Pattern, Template, kind_of, patterns
from tapestry.rewrites import Rule
from tapestry.teg.graph import Definition, Graph

ROOT = Definition("outputs", (), None)
RESULT = "result"

# Most matches in one pass, as a multiple of the limit on e-nodes: what they would add cannot be known before.
MATCHES_PER_NODE = 2
PIECE = 64


@dataclass(frozen=True)
class SaturationLimits:
    """The limits of saturation: passes, passes of rules with several roots, e-nodes (as in tensat), CPU seconds."""

    passes: int = 15
    several: int = 2
    nodes: int = 50_000
    seconds: float = 120.0


@dataclass
class Report:
    """Statistics of a saturation.

    CPU seconds: `egglog_s` runs rules (egglog itself), `laws_s` computes the right sides of rules over kinds,
    `loading_s` loads terms, rules and facts into egglog. `applied` counts per rule the kinds over which it has a
    right side, `skipped` those where it failed.
    """

    stopped: str = ""
    passes: int = 0
    nodes: int = 0
    matches: int = 0
    egglog_s: float = 0.0
    laws_s: float = 0.0
    loading_s: float = 0.0
    applied: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        """All CPU seconds of saturation."""
        return self.egglog_s + self.laws_s + self.loading_s


class Saturation:
    """An e-graph that holds a program, and our rules in it."""

    def __init__(self, rules: Sequence[Rule], kinds: Kinds, laws: Laws) -> None:
        self.rules, self.kinds, self.laws = tuple(rules), kinds, laws
        self.egraph = EGraph()
        self.report = Report()
        self.root = ""
        self._arities: dict[str, set[int]] = {}
        self._constructors: set[str] = set()
        self._patterns: dict[Pattern, int] = {}
        self._templates: dict[tuple[Any, ...], int] = {}
        self._named: set[str] = set()
        self._wants: set[int] = set()
        self._new = True
        self._load("(sort T) (ruleset forget)", *(f"(ruleset {r})" for r in RULESETS))

    def _load(self, *lines: str) -> list[Any]:
        """Load declarations, rules and facts in pieces: a command keeps the whole text that it came in."""
        began = time.process_time()
        result: list[Any] = []
        for k in range(0, len(lines), PIECE):
            text = "\n".join(lines[k : k + PIECE])
            result += self.egraph.run_program(*self.egraph.parse_program(text))
        self.report.loading_s += time.process_time() - began
        return result

    def _pass(self, *rulesets: str) -> int:
        """Run rulesets once each; return the number of matches."""
        commands = self.egraph.parse_program(" ".join(f"(run {r} 1)" for r in rulesets))
        began = time.process_time()
        done: list[Any] = list(self.egraph.run_program(*commands))
        self.report.egglog_s += time.process_time() - began
        return sum(int(n) for d in done for n in d.report.num_matches_per_rule.values())

    def insert(self, graph: Graph, same: Graph | None = None) -> None:
        """Insert a program, and optionally another of the same sources and sinks with equal results."""
        roots = [self._terms(g, f"{prefix}") for g, prefix in ((graph, "a"), (same, "b")) if g is not None]
        inputs = tuple(graph.tensors[s.inputs[0]].type for s in graph.sinks)
        number = self.kinds.number(ENodeKind(ROOT, inputs, ()))
        names = []
        for k, results in enumerate(roots):
            names.append(f"$root{k}x")
            self._load(*self._declared(number), f"(let {names[k]} {self._call(number, results)})")
        if len(names) > 1:
            self._load(
                *(f"(union {x} {y})" for x, y in zip(*roots, strict=True)), f"(union {names[0]} {names[1]})"
            )
        self.root = names[0]

    def _terms(self, graph: Graph, prefix: str) -> list[str]:
        """Insert the program's blocks as terms; return those of its sinks, in order of their sites."""
        self.laws.allow(graph)
        names: dict[str, str] = {}
        lines: list[str] = []
        for block in graph.blocks:
            if block.operator == "sink":
                continue
            if block.index is not None or block.device is not None or block.after:
                raise ValueError(
                    f"block {block.site!r} is a part of a block, pinned or ordered: no e-graph holds that"
                )
            number = self.kinds.number(kind_of(graph, block.site))
            lines += self._declared(number)
            name = f"${prefix}{len(names)}x"
            lines.append(f"(let {name} {self._call(number, [names[t] for t in block.inputs])})")
            names[block.outputs[0]] = name
            if len(block.outputs) > 1:
                for k, t in enumerate(block.outputs):
                    of = graph.tensors[t].type
                    part = self.kinds.number(
                        ENodeKind(Definition(RESULT, (("place", k),), None), (of,), (of,))
                    )
                    lines += self._declared(part)
                    names[t] = f"{name}{k}p"
                    lines.append(f"(let {names[t]} {self._call(part, [name])})")
        self._load(*lines)
        return [names[s.inputs[0]] for s in sorted(graph.sinks, key=lambda s: s.site)]

    def _call(self, number: int, operands: Iterable[str]) -> str:
        return f"({self.kinds[number].constructor} {number} {' '.join(operands)})"

    def _declared(self, number: int) -> list[str]:
        """Return the declaration of a kind's constructor if it is new; empty otherwise."""
        kind = self.kinds[number]
        if kind.constructor in self._constructors:
            return []
        self._constructors.add(kind.constructor)
        if len(kind.outputs) == 1 and kind.definition.operator not in (RESULT, "source"):
            self._arities.setdefault(kind.definition.operator, set()).add(len(kind.inputs))
            self._new = True
        return [f"(constructor {kind.constructor} (i64 {'T ' * len(kind.inputs)}) T)"]

    def saturate(self, limits: SaturationLimits) -> Report:
        """Run the rules until nothing is new or a limit is met."""
        report = self.report
        while not report.stopped:
            several = report.passes < limits.several
            self._add_patterns()
            found = self._pass("ask", *(("ask_several",) if several else ()))
            report.matches += found
            if found > MATCHES_PER_NODE * limits.nodes:
                report.stopped = "nodes"
                break
            is_complete = self._answer(limits.seconds - report.cpu_s)
            before = self._size()
            self._pass("add", *(("add_several",) if several else ()))
            report.nodes = self._size()
            report.passes += 1
            if report.nodes == before and not found:
                report.stopped = "saturated"
            elif report.nodes > limits.nodes:
                report.stopped = "nodes"
            elif not is_complete or report.cpu_s > limits.seconds:
                report.stopped = "seconds"
            elif report.passes >= limits.passes:
                report.stopped = "passes"
        report.skipped = dict(self.laws.skipped)
        return report

    def _size(self) -> int:
        (sizes,) = self._load("(print-size)")
        return sum(n for name, n in sizes.sizes if name in self._constructors)

    def _add_patterns(self) -> None:
        """Add rules that find over which kinds a pattern fits, for the shapes of applications that are new."""
        if not self._new:
            return
        self._new = False
        began = time.process_time()
        lines = []
        for rule in self.rules:
            for pattern in patterns(rule, self._arities, self.laws.most):
                if pattern not in self._patterns:
                    self._patterns[pattern] = len(self._patterns)
                    lines += self._asking(pattern)
        self.report.laws_s += time.process_time() - began
        self._load(*lines)

    def _asking(self, pattern: Pattern) -> list[str]:
        count = len(pattern.nodes)
        lines = []
        if count not in self._wants:
            self._wants.add(count)
            kinds = " ".join(f"k{k}x" for k in range(count))
            lines.append(f"(relation want{count}x (i64 {'i64 ' * count}))")
            lines.append(
                f"(rule ((want{count}x p {kinds})) ((delete (want{count}x p {kinds}))) :ruleset forget)"
            )
        kinds = " ".join(f"k{k}x" for k in range(count))
        want = f"(want{count}x {self._patterns[pattern]} {kinds})"
        return [*lines, f"(rule ({_query(pattern)}) ({want}) :ruleset ask{_suffix(pattern)})"]

    def _answer(self, seconds: float) -> bool:
        """Compute right sides of the patterns that fit; add them as facts and rules; return False if time ran out."""
        known = list(self._patterns)
        requested: list[tuple[int, ...]] = []
        for count in sorted(self._wants):
            (printed,) = self._load(f"(print-function want{count}x 1000000)")
            dag = printed.termdag
            requested += [
                tuple(dag.get(a).value.value for a in dag.get(term).args) for term, _ in printed.terms
            ]
        self._load("(run forget 1)")
        began = time.process_time()
        lines = []
        is_complete = True
        for row in sorted(requested):
            if time.process_time() - began > seconds:
                is_complete = False
                break
            pattern = known[row[0]]
            for template in self.laws.templates(pattern, row[1:]):
                lines += self._adding(row, pattern, template)
                self.report.applied[pattern.rule.name] = 1 + self.report.applied.get(pattern.rule.name, 0)
        self.report.laws_s += time.process_time() - began
        self._load(*lines)
        return is_complete

    def _adding(self, row: tuple[int, ...], pattern: Pattern, template: Template) -> list[str]:
        """Emit the commands that add a right side: a fact per tuple of kinds, and a rule per form of the right side."""
        constructors = tuple(self.kinds[n].constructor for n in template.kinds)
        lines = [line for n in template.kinds for line in self._declared(n)]
        form = (row[0], constructors, template.operands, template.results)
        name = f"use{self._templates.setdefault(form, len(self._templates))}x"
        if name not in self._named:
            self._named.add(name)
            given = " ".join(f"k{k}x" for k in range(len(pattern.nodes)))
            made = " ".join(f"e{k}x" for k in range(len(template.kinds)))
            lines.append(f"(relation {name} ({'i64 ' * (len(pattern.nodes) + len(template.kinds))}))")
            body = f"({name} {given} {made}) {_query(pattern)}"
            lets = [
                f"(let made{k}x ({c} e{k}x {' '.join(map(_variable, refs))}))"
                for k, (c, refs) in enumerate(zip(constructors, template.operands, strict=True))
            ]
            unions = [
                f"(union node{root}x {_variable(ref)})"
                for root, ref in zip(pattern.roots, template.results, strict=True)
            ]
            lines.append(f"(rule ({body}) ({' '.join([*lets, *unions])}) :ruleset add{_suffix(pattern)})")
        numbers = " ".join(map(str, (*row[1:], *template.kinds)))
        return [*lines, f"({name} {numbers})"]

    def frozen(self) -> FrozenEGraph:
        """Return everything in the e-graph, by constructor."""
        return self.egraph.freeze()


RULESETS = ("ask", "ask_several", "add", "add_several")


def _suffix(pattern: Pattern) -> str:
    return "_several" if len(pattern.roots) > 1 else ""


def _variable(ref: Ref) -> str:
    return f"{ref[0]}{ref[1]}x"


def _query(pattern: Pattern) -> str:
    """Write the pattern as egglog's facts: kinds `k0x`, ..., e-classes `node0x`, ... and `leaf0x`, ..."""
    facts = []
    for k, node in enumerate(pattern.nodes):
        constructor = constructor_of(node.operator, len(node.operands))
        facts.append(f"(= node{k}x ({constructor} k{k}x {' '.join(map(_variable, node.operands))}))")
    roots = pattern.roots
    facts += [f"(!= node{a}x node{b}x)" for i, a in enumerate(roots) for b in roots[i + 1 :]]
    return " ".join(facts)
