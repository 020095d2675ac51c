"""The right side of an equation at a place: its traced steps as terms over the dimensions of that place.

Imported by `rewrites.equations`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapestry.rewrites.cell_form import CellForm, CellRead
from tapestry.rewrites.dimensions import Classes, Labels, labeled
from tapestry.rewrites.equation_sides import Traced, TracedStep
from tapestry.rewrites.instances import HOLE, Instance
from tapestry.rewrites.rule import Match, Op, RuleError, Term, op, pick
from tapestry.teg.graph import Block
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import view_attributes
from tapestry.teg.views import ViewDim, ViewMap

Class = tuple[str, int]


@dataclass(frozen=True)
class Matched:
    """A match of a left side: the classes of dimensions at the place, and those that each name stands for."""

    match: Match
    classes: Classes
    groups: Mapping[str, tuple[Class, ...]]
    dtypes: Mapping[str, str]

    def size(self, name: str) -> int:
        """Return the size of a class by its label."""
        tensor, position = _class(name)
        return self.match.edited.tensors[tensor].shape[position]


class TermValue(NamedTuple):
    """A term and the label of each of its dimensions ("": of size 1, of no class)."""

    term: Term
    labels: Labels
    dtype: str


def _label(place: Class) -> str:
    return f"{place[0]}#{place[1]}"


def _class(label: str) -> Class:
    tensor, _, position = label.rpartition("#")
    return tensor, int(position)


def terms_of(
    traced: Traced, matched: Matched, roots: Sequence[Block], ways: Sequence[Instance | None]
) -> list[Op]:
    """Convert the traced right side to terms, one per root, with the expression around a cell's instance."""
    build = _Terms(traced, matched)
    return [build.root(k, root, way) for k, root, way in zip(traced.results, roots, ways, strict=True)]


class _Terms:
    def __init__(self, traced: Traced, matched: Matched) -> None:
        self.traced, self.matched = traced, matched
        self.known: dict[int, TermValue] = {}

    def root(self, k: int, block: Block, way: Instance | None) -> Op:
        """Build the term of a result, in the shape of the root that it replaces."""
        edited = self.matched.match.edited
        old = edited.tensors[block.outputs[0]].type
        written = self._labels_of_root(block, way)
        step = self.traced.steps[k]
        if way is not None and (way.around != HOLE or step.dtype != old.dtype):
            return self._surrounded(self.value(k), block, way)
        if step.block.operator == "cell":
            return self._cell(step, written, old.shape)
        found = self.value(k) if "" in written else self._made(step, written)
        assert isinstance(found.term, Op)
        return found.term if found.labels == written else _arranged(found, written, old.shape)

    def _labels_of_root(self, block: Block, way: Instance | None) -> Labels:
        edited, classes = self.matched.match.edited, self.matched.classes
        labels = labeled(block.definition, [len(edited.tensors[t].shape) for t in block.inputs])
        assert labels is not None
        result = block.outputs[0]
        return tuple(
            _label(classes.find((result, k))) if name else "" for k, name in enumerate(labels.written)
        )

    def _surrounded(self, value: TermValue, block: Block, way: Instance) -> Op:
        """Build the root's cell with the value in the place of the instance."""
        classes = self.matched.classes
        own: dict[str, str] = {}
        reads = [
            CellRead(t, names) for t, names in zip(block.inputs, block.definition["labels"], strict=True)
        ]
        for t, names in zip(block.inputs, block.definition["labels"], strict=True):
            own.update({_label(classes.find((t, k))): n for k, n in enumerate(names) if n})
        labels = tuple(own[n] if n else "" for n in value.labels)
        expr = _filled(way.around, ("input", len(reads)))
        form = CellForm(
            (*reads, CellRead("", labels)), expr, block.definition["dims"], block.definition["dtype"]
        )
        form = form.normal()
        operands: list[Term] = [value.term if r.site == "" else _site(r.site) for r in form.reads]
        return op("cell", *operands, **form.attributes)

    def value(self, k: str | int) -> TermValue:
        """Return the value of a variable, or the result of a step."""
        if isinstance(k, str):
            return self._variable(k)
        if k not in self.known:
            self.known[k] = self._made(self.traced.steps[k])
        return self.known[k]

    def _variable(self, name: str) -> TermValue:
        match, classes = self.matched.match, self.matched.classes
        site = match[name]
        ours = {place for group in self.matched.groups.values() for place in group}
        labels = []
        for k, size in enumerate(match.edited.tensors[site].shape):
            place = classes.find((site, k))
            if place not in ours and size != 1:
                raise RuleError("equation", f"dimension {k} of {site!r} takes no part in the left side")
            labels.append(_label(place) if place in ours else "")
        return TermValue(_site(site), tuple(labels), match.edited.tensors[site].dtype)

    def expanded(self, letters: Labels) -> Labels:
        """Expand names to the labels that they stand for."""
        return tuple(_label(p) for name in letters for p in self.matched.groups[name])

    def _made(self, step: TracedStep, wanted: Labels = ()) -> TermValue:
        """Build the value of a step, its dimensions as `wanted` if the operator leaves that free."""
        name = step.block.operator
        if name == "view":
            return self.value(step.operands[0])
        if name == "cell":
            labels = self._as_read(step, self.expanded(self.traced.letters(step.site)))
            return TermValue(self._cell(step, labels, ()), labels, step.dtype)
        if name == "contract":
            return self._contract(step, wanted)
        if name == "reduce":
            return self._reduce(step, wanted)
        return self._normalization(step)

    def _cell(self, step: TracedStep, written: Labels, shape: Sequence[int]) -> Op:
        values = [self.value(k) for k in step.operands]
        fill = [name or f"one{k}" for k, name in enumerate(written)]
        sizes = shape or [self.matched.size(n) for n in written]
        return op(
            "cell",
            *(v.term for v in values),
            expr=step.block.definition["expr"],
            labels=tuple(v.labels for v in values),
            dims=tuple(zip(fill, sizes, strict=True)),
            dtype=step.dtype,
        )

    def _as_read(self, step: TracedStep, labels: Labels) -> Labels:
        """Order the labels as in an operand that has all of them, if there is one: nothing is transposed."""
        operands = (self.value(k).labels for k in step.operands)
        return next((own for own in operands if sorted(own) == sorted(labels)), labels)

    def _contract(self, step: TracedStep, wanted: Labels) -> TermValue:
        values = [self.value(k) for k in step.operands]
        labels = tuple(_filled_labels(v.labels, k) for k, v in enumerate(values))
        output = wanted or self.expanded(self.traced.letters(step.site))
        term = op("contract", *(v.term for v in values), labels=labels, output=output)
        return TermValue(term, output, step.dtype)

    def _reduce(self, step: TracedStep, wanted: Labels) -> TermValue:
        value = self.value(step.operands[0])
        output = wanted or self.expanded(self.traced.letters(step.site))
        given = step.block.definition
        term = op(
            "reduce",
            value.term,
            monoid=given["monoid"],
            labels=_filled_labels(value.labels, 0),
            output=output,
            scale=given.get("scale", 1.0),
        )
        return TermValue(term, output, step.dtype)

    def _normalization(self, step: TracedStep) -> TermValue:
        """Build a softmax or layer norm: axes by position; a layer norm's are last, in the order of its scale."""
        value = self.value(step.operands[0])
        whole = self.expanded(self.traced.whole(step))
        order = value.labels
        if step.block.operator == "layer_norm":
            order = (*(n for n in order if n not in whole), *whole)
            value = self._reordered(value, order)
        others = [self._reordered(self.value(k), whole) for k in step.operands[1:]]
        attributes: dict[str, Any] = {"axes": tuple(k for k, n in enumerate(order) if n in whole)}
        if step.block.operator == "layer_norm":
            attributes["eps"] = step.block.definition["eps"]
        term = op(step.block.operator, value.term, *(v.term for v in others), **attributes)
        return TermValue(term, order, step.dtype)

    def _reordered(self, value: TermValue, order: Labels) -> TermValue:
        if value.labels == order:
            return value
        shape = [self.matched.size(n) if n else 1 for n in order]
        return TermValue(_arranged(value, order, shape), order, value.dtype)


def _arranged(value: TermValue, wanted: Labels, shape: Sequence[int]) -> Op:
    """Build a view of a value with its dimensions in another order; those of size 1 are added or dropped."""
    named = {n: k for k, n in enumerate(wanted) if n}
    dims = tuple(ViewDim(named[n], 1, 0) if n else ViewDim(-1, 0, 0) for n in value.labels)
    return op("view", value.term, **dict(view_attributes(ViewMap(dims, tuple(shape)))))


def _site(site: str) -> Term:
    return pick(lambda _: (site,))


def _filled_labels(labels: Labels, number: int) -> Labels:
    """Name the dimensions of size 1 and no class, over which one element is summed."""
    return tuple(n or f"one{number}.{k}" for k, n in enumerate(labels))


def _filled(around: Expression, value: Expression) -> Expression:
    if around == HOLE:
        return value
    return tuple(_filled(p, value) if isinstance(p, tuple) else p for p in around)
