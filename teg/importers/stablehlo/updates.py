"""Signs that a result is an optimizer's update of an input: the form of the term with the input, and other terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tapestry.teg.importers.program import Compute, Reshape, Step, StepProgram, inputs_of

LONGEST_SEARCH = 1000
LONGEST_STEP = 12


class UpdateTerm(NamedTuple):
    """An operand that is a term of a step's output.

    `strong`: in a form that only updates have; `moved`: changed by anything.
    """

    position: int
    strong: bool
    moved: bool


class UpdatePatterns:
    """A search for updates in one program; `reached` are the inputs that each value depends on."""

    def __init__(
        self, program: StepProgram, producers: Mapping[str, Step], reached: Mapping[str, frozenset[str]]
    ) -> None:
        self.program, self.producers, self.reached = program, producers, reached

    def of(self, value: str) -> dict[str, bool]:
        """Find the inputs that a value may be the next value of, and whether the signs are strong."""
        found: dict[str, bool] = {}
        seen, open_values = {(value, False, False)}, [(value, False, False)]
        while open_values and len(seen) < LONGEST_SEARCH:
            name, strong, moved = open_values.pop()
            if name in self.program.entries:
                if moved:
                    found[name] = strong or found.get(name, False)
                continue
            step = self.producers.get(name)
            for term in () if step is None else self._terms(step):
                assert isinstance(step, (Compute, Reshape))
                inner = step.inputs[term.position] if isinstance(step, Compute) else step.input
                following = (inner, strong or term.strong, moved or term.moved)
                if following not in seen:
                    seen.add(following)
                    open_values.append(following)
        return found

    def _terms(self, step: Step) -> Iterator[UpdateTerm]:
        if isinstance(step, Reshape):
            yield UpdateTerm(0, False, False)
        elif isinstance(step, Compute) and step.operator == "scatter":
            if step.attributes.get("monoid") == "last":
                yield UpdateTerm(0, True, True)
        elif isinstance(step, Compute) and step.operator == "cell":
            for term in self._terms_of(step, step.attributes["expr"], False, False):
                if step.input_labels[term.position] == step.output_labels:
                    yield term

    def _terms_of(self, step: Compute, expr: Any, strong: bool, moved: bool) -> Iterator[UpdateTerm]:
        name, *parts = expr
        if name == "input":
            yield UpdateTerm(parts[0], strong, moved)
        elif name in ("neg", "identity"):
            yield from self._terms_of(step, parts[0], strong, moved)
        elif name == "cast":
            yield from self._terms_of(step, parts[1], strong, moved)
        elif name in ("add", "sub"):
            for k, (one, other) in enumerate((parts, parts[::-1])):
                taken = self._varies(step, other) and (
                    (name == "sub" and k == 0) or self._is_scaled(step, other)
                )
                yield from self._terms_of(step, one, strong or taken, True)
        elif name in ("min", "max"):  # a clipping, or the largest so far: of AMSGrad beside other updates
            for one, other in (parts, parts[::-1]):
                yield from self._terms_of(step, one, strong, moved or self._varies(step, other))
        elif name == "where":
            chosen = self._sources(step, parts[0])
            for one, other in (parts[1:], parts[:0:-1]):
                own = self._sources(step, one)
                overwritten = bool(self._sources(step, other) - own) and not chosen & own
                yield from self._terms_of(step, one, strong or overwritten, moved or overwritten)
        elif name in ("mul", "div"):
            for one, other in (parts, parts[::-1])[: 2 if name == "mul" else 1]:
                if self._is_number(step, other):
                    # Scaled alone it may be any product; with something new added it is a running mean.
                    yield from self._terms_of(step, one, strong, True)

    def _sources(self, step: Compute, expr: Any) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for k in _inputs(expr):
            found |= self.reached[step.inputs[k]]
        return found

    def _varies(self, step: Compute, expr: Any) -> bool:
        """Return whether a part depends on inputs, element by element of the output: no mean over a dimension does."""
        return any(
            self.reached[step.inputs[k]]
            and step.input_labels[k] == step.output_labels
            and not self._is_broadcast(step.inputs[k])
            for k in _inputs(expr)
        )

    def _is_broadcast(self, name: str) -> bool:
        """Return whether a value repeats the elements of smaller ones."""
        producer = self.producers.get(name)
        size = self.program.values[name].size
        if producer is None or (isinstance(producer, Compute) and producer.operator != "cell"):
            return False
        return bool(inputs_of(producer)) and all(
            self.program.values[n].size < size for n in inputs_of(producer)
        )

    def _is_number(self, step: Compute, expr: Any) -> bool:
        """Return whether a part is one number for all elements, or known."""
        return all(
            step.inputs[k] in self.program.literals
            or not self.reached[step.inputs[k]]
            or self.program.values[step.inputs[k]].size == 1
            for k in _inputs(expr)
        )

    def _is_scaled(self, step: Compute, expr: Any, left: int = LONGEST_STEP) -> bool:
        """Return whether a part is a product with a number, or a negative."""
        name, *parts = expr
        if name == "neg":
            return True
        if left == 0:
            return False
        if name == "mul":
            return any(self._is_number(step, p) for p in parts)
        if name == "div":
            return self._is_number(step, parts[1])
        if name in ("cast", "identity", "where"):
            return any(self._is_scaled(step, p, left - 1) for p in parts if isinstance(p, tuple))
        if name != "input":
            return False
        producer = self.producers.get(step.inputs[parts[0]])
        if isinstance(producer, Compute) and producer.operator == "cell":
            return self._is_scaled(producer, producer.attributes["expr"], left - 1)
        return False


def _inputs(expr: Any) -> Iterator[int]:
    if expr[0] == "input":
        yield expr[1]
    else:
        for part in expr[1:]:
            if isinstance(part, tuple):
                yield from _inputs(part)
