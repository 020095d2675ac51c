"""The base of the emitters of all front ends: steps of named values, whose names the emitter generates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.teg.importers.program import Compute, Labels, Value
from tapestry.teg.importers.translate.linear import contract
from tapestry.teg.importers.translate.translation import Translation, plain_labels


class StepEmitter(ABC):
    """A base of emitters: each method emits a step to `translation` and returns its result."""

    translation: Translation

    @abstractmethod
    def fresh(self) -> str:
        """Return a new name for the next value."""

    @abstractmethod
    def relabel(self, value: Value, source: Labels, target: Labels, shape: Sequence[int]) -> Value:
        """Transpose, squeeze, unsqueeze or broadcast a value: see `Translation.relabel`."""

    @abstractmethod
    def slice(self, value: Value, ranges: Sequence[range]) -> Value:
        """Slice a value to the coordinates in `ranges`."""

    def value(self, name: str) -> Value:
        """Return the value called `name`."""
        return self.translation.value(name)

    def compute(
        self,
        operator: str,
        inputs: Sequence[Value],
        labels: Sequence[Labels],
        target: Labels,
        dtype: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        whole: frozenset[str] = frozenset(),
        sizes: Mapping[str, int] | None = None,
        positional: bool = False,
    ) -> Value:
        """Emit a step of any operator; sizes of labels come from the inputs, others from `sizes`."""
        found = dict(sizes or {})
        for value, own in zip(inputs, labels, strict=True):
            found.update((d, s) for d, s in zip(own, value.shape, strict=True) if d and d not in found)
        output = self.fresh()
        self.translation.declare(output, [found[d] for d in target], dtype or inputs[0].dtype)
        names = tuple(v.name for v in inputs)
        step = Compute(
            output, operator, names, output, tuple(labels), target, attributes or {}, whole, positional
        )
        return self.value(self.translation.emit(step))

    def permute(self, value: Value, order: Sequence[int]) -> Value:
        """Permute the dimensions of a value."""
        labels = plain_labels(len(value.shape))
        if list(order) == list(range(len(order))):
            return value
        return self.relabel(value, labels, tuple(labels[k] for k in order), [value.shape[k] for k in order])

    def part(self, value: Value, axis: int, span: range) -> Value:
        """Slice the coordinates `span` along one dimension."""
        return self.slice(value, [span if k == axis else range(s) for k, s in enumerate(value.shape)])

    def contract(self, values: Sequence[Value], labels: Sequence[Labels], target: Labels) -> Value:
        """Contract the values: sum their products over all labels that `target` lacks."""
        output = self.fresh()
        names = [v.name for v in values]
        return self.value(contract(self.translation, output, names, labels, output, target))
