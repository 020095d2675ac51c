"""Tracing of a side of an equation into steps, for specified sizes, element types and numbers.

Imported by `rewrites.equations` and `rewrites.equation_terms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any

from tapestry.rewrites.algebra.canonical import CANONICAL
from tapestry.rewrites.algebra.cleanup import CLEANUP
from tapestry.rewrites.dimensions import Labels, Reading, labeled, unified
from tapestry.rewrites.fusion.cells import CELL_FUSION
from tapestry.rewrites.rule import RuleError
from tapestry.rewrites.saturation import saturate
from tapestry.rewrites.selectors.views import VIEWS
from tapestry.teg.graph import Block, Graph
from tapestry.teg.programs.program import Program

# What brings a trace to the form in which programs are matched.
NORMALIZING = tuple(r for r in (*CLEANUP, *VIEWS, *CELL_FUSION, *CANONICAL) if r.saturating)


@dataclass(frozen=True, eq=False)
class EquationSide:
    """One side of the law `law`: a function of tensors and numbers; `names` are the dimensions of the tensors."""

    law: str
    function: Callable[..., Any]
    names: Mapping[str, Labels]
    numbers: tuple[str, ...]

    def __call__(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Compute the results for these values; values that the function does not take are left out."""
        result = self.function(**{p: values[p] for p in signature(self.function).parameters})
        return result if isinstance(result, tuple) else (result,)


@dataclass(frozen=True)
class TracedStep:
    """A block of a side: its operands (names of tensors, numbers of steps), its labels, its result's type."""

    block: Block
    operands: tuple[str | int, ...]
    reading: Reading
    dtype: str

    @property
    def site(self) -> str:
        return self.block.outputs[0]


@dataclass(frozen=True, eq=False)
class Traced:
    """A side traced as a program: its steps in order, and the steps (or tensors) that are its results."""

    graph: Graph
    steps: tuple[TracedStep, ...]
    results: tuple[int, ...]
    names: Mapping[tuple[str, int], str]

    def letters(self, tensor: str) -> Labels:
        """Return the names of a tensor's dimensions."""
        return tuple(self.names[tensor, k] for k in range(len(self.graph.tensors[tensor].shape)))

    def whole(self, step: TracedStep) -> Labels:
        """Return the names that a step needs whole, in the order of its first operand."""
        letters, labels = self.letters(step.reading.operands[0]), step.reading.labels
        return tuple(n for n, own in zip(letters, labels.reads[0], strict=True) if own in labels.whole)

    def summed(self, step: TracedStep) -> frozenset[str]:
        """Return the names that a step sums over, or needs whole."""
        read = {n for t in step.reading.operands for n in self.letters(t)}
        return frozenset(read - set(self.letters(step.site))).union(self.whole(step))


@lru_cache(maxsize=1 << 12)
def traced_side(
    side: EquationSide,
    sizes: tuple[tuple[str, int], ...],
    dtypes: tuple[tuple[str, str], ...],
    numbers: tuple[tuple[str, float], ...],
    choice: str,
) -> Traced:
    """Trace the side for dimensions of these sizes, tensors of these element types, and these numbers.

    Raises:
        RuleError: it cannot be traced, has an operator without labels, or a result that is an unchanged input tensor.
    """
    known, kinds = dict[str, Any](sizes), dict(dtypes)
    program = Program(side.law)
    try:
        values: dict[str, Any] = {
            t: program.input(t, dtype=kinds[t], **{n: known[n] for n in dims})
            for t, dims in side.names.items()
        }
        for k, result in enumerate(side({**values, **dict(numbers), "choice": choice})):
            program.output(f"result{k}", result)
        graph = saturate(program.graph, NORMALIZING).graph
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RuleError(side.law, f"a side cannot be traced: {error}") from error
    return _steps(side, graph)


def _steps(side: EquationSide, graph: Graph) -> Traced:
    numbers: dict[str, str | int] = {b.outputs[0]: b.site for b in graph.blocks if b.operator == "source"}
    steps: list[TracedStep] = []
    for block in graph.blocks:
        if block.operator in ("source", "sink"):
            continue
        labels = labeled(block.definition, [len(graph.tensors[t].shape) for t in block.inputs])
        if block.operator == "cell" and "'index'" in repr(block.definition["expr"]):
            raise RuleError(
                side.law, "coordinates have no meaning in an equation, whose names stand for groups"
            )
        if labels is None or len(block.outputs) != 1:
            raise RuleError(side.law, f"equations do not know what {block.operator!r} does to dimensions")
        reading = Reading(block.inputs, block.outputs[0], labels)
        operands = tuple(numbers[t] for t in block.inputs)
        numbers[block.outputs[0]] = len(steps)
        steps.append(TracedStep(block, operands, reading, graph.tensors[block.outputs[0]].dtype))
    results = [
        numbers[b.inputs[0]] for b in sorted(graph.blocks, key=lambda b: b.site) if b.operator == "sink"
    ]
    if not all(isinstance(k, int) for k in results):
        raise RuleError(side.law, "a result of a side is one of its tensors as it came; use a law of cells")
    return Traced(
        graph, tuple(steps), tuple(k for k in results if isinstance(k, int)), _names(side, graph, steps)
    )


def _names(side: EquationSide, graph: Graph, steps: list[TracedStep]) -> dict[tuple[str, int], str]:
    """Map every dimension of every tensor to its name."""
    classes = unified([s.reading for s in steps])
    known = {
        classes.find((t, k)): name
        for t in side.names
        if t in graph.tensors
        for k, name in enumerate(side.names[t])
    }
    tensors = (t for t in graph.tensors.values())
    return {
        (t.site, k): known.get(classes.find((t.site, k)), "") for t in tensors for k in range(len(t.shape))
    }
