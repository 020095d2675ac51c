"""Rules as equations between programs: both sides are ordinary expressions over tensors with named dimensions.

    equation(
        "factor_contracts",
        left=lambda x, w, v: x.contract(w, "k") + x.contract(v, "k"),
        right=lambda x, w, v: x.contract(w + v, "k"),
        tensors={"x": "b m k", "w": "b k n", "v": "b k n"},
        ...
    )

Each name stands for any number of dimensions: those that occur in the same tensors, are summed by the same
blocks and are whole for the same blocks. A number of the left side stands for any number where `numbers` says so
(`numbers={"eps": 1e-5}`, and a parameter `eps` of both sides); the others must be those that the left side has
for the sizes and element types of the place. The left side matches up to the bracketing and order of sums and
products (order only where the domain is "exact"), and its last cell may be a part of a larger one. Intermediate
values of the left side may have no other readers. The right side is traced with the sizes, element types and
numbers of the place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tapestry.rewrites.cell_form import element_type
from tapestry.rewrites.dimensions import Reading, labeled, occurrences, unified
from tapestry.rewrites.equation_sides import EquationSide, Traced, traced_side
from tapestry.rewrites.equation_terms import Matched, terms_of
from tapestry.rewrites.instances import HOLE, Form, Instance, InstanceMatch, numbers_of
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, RuleError, attr, computed, op, tensor
from tapestry.teg.graph import Block, Graph
from tapestry.teg.plugins import once

# How far numbers may lie apart that are meant to be the same (exports write them in single precision).
CLOSE = 1e-6

# The sizes of dimensions in a trace where the size does not matter.
SIZES = (3, 4, 5, 6, 7, 8, 9, 10)

Lambda = Callable[..., Any]


def equation(
    name: str,
    left: Lambda,
    right: Lambda,
    tensors: Mapping[str, str],
    *,
    doc: str,
    source: str,
    dtypes: Mapping[str, str] | None = None,
    numbers: Mapping[str, float] | None = None,
    when: Callable[[Match], bool] | None = None,
    choices: Callable[[Match], Sequence[str]] | None = None,
    kind: str = "optimization",
    domain: str = "real",
    saturating: bool = False,
    context_depth: int = 0,
) -> Rule:
    """Build the rule that replaces `left` by `right`; several results are a tuple on both sides.

    `tensors` gives every variable its dimensions, `dtypes` its element type in the example (float32; others than
    floats must match exactly), `numbers` those that are variables, with the example's values. The parameters of
    both functions are names of tensors and numbers; the right one may also take `choice`. Guards and choices read
    the sizes of the dimensions as `m["sizes"]["k"]`, numbers as `m["eps"]`, tensors as in any rule; `context_depth`
    is the number of blocks further up that they read.

    The left side is traced when the `roots` of the rule are first requested, the right one when the left one first
    matches; a RuleError reports where a side cannot be traced, or has an operator that equations do not know.
    """
    law = _Law(name, left, right, tensors, dtypes or {}, numbers or {}, brackets=domain == "real")
    return Rule(
        name=name,
        left=once(law.pattern),
        right=computed(law.terms),
        doc=doc,
        source=source,
        example=law.example,
        where=law.bound,
        when=when,
        choices=choices,
        kind=kind,
        domain=domain,
        saturating=saturating,
        context_depth=context_depth,
    )


class _Law:
    """An equation: its left side as a pattern, the bindings of a match of it, its right side as terms."""

    def __init__(
        self,
        name: str,
        left: Lambda,
        right: Lambda,
        tensors: Mapping[str, str],
        dtypes: Mapping[str, str],
        numbers: Mapping[str, float],
        brackets: bool,
    ) -> None:
        self.name, self.brackets, self.numbers = name, brackets, dict(numbers)
        self.names = {t: tuple(dims.split()) for t, dims in tensors.items()}
        self.letters = tuple(dict.fromkeys(n for dims in self.names.values() for n in dims))
        self.dtypes = {t: dtypes.get(t, "float32") for t in tensors}
        self.left, self.right = (EquationSide(name, f, self.names, tuple(numbers)) for f in (left, right))

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the example."""
        return dict(zip(self.letters, SIZES, strict=False))

    def trace(
        self,
        side: EquationSide,
        sizes: Mapping[str, int],
        dtypes: Mapping[str, str],
        numbers: Mapping[str, float],
        choice: str = "",
    ) -> Traced:
        """Trace a side for these sizes, element types and numbers; each is traced once."""
        return traced_side(side, tuple(sizes.items()), tuple(dtypes.items()), tuple(numbers.items()), choice)

    def example(self, size: ExampleSizes) -> Graph:
        """Build the left side as an example program."""
        sizes = {n: size(s, least=2) for n, s in self.sizes().items()}
        return self.trace(self.left, sizes, self.dtypes, self.numbers).graph

    @cached_property
    def sample(self) -> Traced:
        """The left side with the example's sizes."""
        return self.trace(self.left, self.sizes(), self.dtypes, self.numbers)

    def pattern(self) -> tuple[Op, ...]:
        """Build the left side as terms, if it can be traced and every name is distinct in its occurrences."""
        _ = self.classes
        return tuple(self.ops[k] for k in self.sample.results)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The steps of the left side as terms; step k is bound to its block."""
        results = {self.sample.steps[k].site for k in self.sample.results}
        ops: list[Op] = []
        for k, step in enumerate(self.sample.steps):
            operands = [tensor(v) if isinstance(v, str) else ops[v] for v in step.operands]
            term = self._term(k, step.block, operands, step.site in results)
            ops.append(term if step.site in results else term.only_here())
        return tuple(ops)

    def _term(self, k: int, block: Block, operands: Sequence[Any], is_result: bool) -> Op:
        names = [a for a, _ in block.definition.attributes]
        if block.operator == "cell":
            form = Form(block.definition["expr"], len(operands), is_result, self.brackets)
            found = InstanceMatch(form, f"step{k}")
            return op("cell", *operands, inside=found).at(f"step{k}.places").named(f"step{k}.value")
        wanted: dict[str, Any] = {a: attr(f"step{k}.{a}") for a in names}
        if block.operator == "reduce":
            wanted.update({"monoid": block.definition["monoid"], "scale": attr(f"step{k}.scale")})
        term = op(block.operator, *operands, **wanted).named(f"step{k}.value")
        return term.commutative() if block.operator == "contract" and len(operands) > 1 else term

    @cached_property
    def classes(self) -> dict[frozenset[tuple[int, int]], str]:
        """The name of each dimension class, by its occurrences."""
        readings = [step.reading for step in self.sample.steps]
        classes = unified(readings)
        found = occurrences(readings, classes)
        named = {classes.find((t, k)): name for t, dims in self.names.items() for k, name in enumerate(dims)}
        result: dict[frozenset[tuple[int, int]], str] = {}
        for place, seen in found.items():
            if place not in named:
                raise RuleError(self.name, "a dimension of the left side is no dimension of its tensors")
            if seen in result:
                raise RuleError(
                    self.name,
                    f"{result[seen]!r} and {named[place]!r} do the same everywhere: let them be one name",
                )
            result[seen] = named[place]
        return result

    @cached_property
    def summed(self) -> frozenset[str]:
        """The names whose sizes matter: those that a block of either side sums over, or needs whole."""
        sample = self.trace(self.right, self.sizes(), self.dtypes, self.numbers)
        return frozenset(
            name for side in (self.sample, sample) for step in side.steps for name in side.summed(step)
        )

    def bound(self, m: Match) -> Mapping[str, Any] | None:
        """Compute the bindings of a match of the pattern; None if dimensions, types or numbers do not agree."""
        blocks = [m.block(term) for term in self.ops]
        readings = [self._reading(m, k, block) for k, block in enumerate(blocks)]
        if any(r is None for r in readings):
            return None
        sure = [r for r in readings if r is not None]
        classes = unified(sure)
        groups: dict[str, list[tuple[str, int]]] = {name: [] for name in self.letters}
        for place, seen in occurrences(sure, classes).items():
            name = self.classes.get(seen)
            if name is None:
                return None
            groups[name].append(place)
        sizes = {n: math.prod(m.edited.tensors[t].shape[k] for t, k in g) for n, g in groups.items()}
        numbers = self._numbers(m, blocks)
        if numbers is None or any(sizes[n] < 2 for n in self.summed):
            return None
        dtypes = {t: m.dtype(t) for t in self.names}
        traced = self.trace(self.left, self._shown(sizes), dtypes, numbers)
        matched = Matched(m, classes, {n: tuple(g) for n, g in groups.items()}, dtypes)
        if not self._agrees(m, blocks, traced):
            return None
        return {"sizes": sizes, "law": matched, "numbers": numbers, **numbers}

    def _shown(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes for a trace: irrelevant ones are as in the example, so that equal layers share one."""
        return {n: sizes[n] if n in self.summed else s for n, s in self.sizes().items()}

    def _reading(self, m: Match, k: int, block: Block) -> Reading | None:
        labels = labeled(block.definition, [len(m.edited.tensors[t].shape) for t in block.inputs])
        if labels is None:
            return None
        operands, reads = block.inputs, labels.reads
        wanted = [m.bindings[t.name] for t in self.ops[k].operands if hasattr(t, "name")]
        way: Instance | None = m.bindings.get(f"step{k}")
        if way is not None:
            operands = tuple(block.inputs[p] for p in way.inputs)
            reads = tuple(labels.reads[p] for p in way.inputs)
            if way.around != HOLE:
                own = {n for part in reads for n in part}
                labels = labels._replace(written=tuple(n if n in own else "" for n in labels.written))
        elif operands != tuple(wanted):
            order = _order(operands, wanted)
            operands, reads = tuple(operands[p] for p in order), tuple(reads[p] for p in order)
        return Reading(operands, block.outputs[0], labels._replace(reads=reads))

    def _numbers(self, m: Match, blocks: Sequence[Block]) -> dict[str, float] | None:
        """Find the values of the numbers that are variables; None if one would have two values."""
        values: dict[str, float] = {}
        for k, step in enumerate(self.sample.steps):
            for here, there in _pairs(step.block, blocks[k], m.bindings.get(f"step{k}")):
                for name, shown in self.numbers.items():
                    if here == shown and not _close(values.setdefault(name, there), there):
                        return None
        return values if values.keys() == self.numbers.keys() else None

    def _agrees(self, m: Match, blocks: Sequence[Block], traced: Traced) -> bool:
        """Return whether element types and numbers are those of the left side at this place."""
        if len(traced.steps) != len(blocks):
            return False
        for k, (step, block) in enumerate(zip(traced.steps, blocks, strict=True)):
            if step.block.operator != block.operator:
                return False
            way: Instance | None = m.bindings.get(f"step{k}")
            dtype = m.edited.tensors[block.outputs[0]].dtype
            if way is not None and way.around != HOLE:
                dtype = element_type(way.found, [m.edited.tensors[t].dtype for t in block.inputs])
            if step.dtype != dtype:
                return False
            if not all(_close(a, b) for a, b in _pairs(step.block, block, way)):
                return False
        return True

    def terms(self, m: Match) -> Sequence[Any]:
        """Build the right side as terms for the results."""
        matched: Matched = m["law"]
        traced = self.trace(self.right, self._shown(m["sizes"]), matched.dtypes, m["numbers"], m.choice)
        ways = [m.bindings.get(f"step{k}") for k in self.sample.results]
        return terms_of(traced, matched, m.roots, ways)


def _order(operands: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Find the operand that each wanted one is, by number; equal ones in their order."""
    left = list(range(len(operands)))
    result = []
    for site in wanted:
        place = next(p for p in left if operands[p] == site)
        left.remove(place)
        result.append(place)
    return result


def _pairs(pattern: Block, block: Block, way: Instance | None) -> list[tuple[float, float]]:
    """Pair the numbers of a pattern's block with those of the matched one."""
    if way is not None:
        return list(zip(numbers_of(pattern.definition["expr"]), way.numbers, strict=True))
    found = []
    for name in ("scale", "eps"):
        here, there = pattern.definition.get(name), block.definition.get(name)
        if here is not None or there is not None:
            found.append((1.0 if here is None else here, 1.0 if there is None else there))
    return found


def _close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= CLOSE * max(abs(a), abs(b))
