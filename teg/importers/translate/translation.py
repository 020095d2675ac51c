"""The state of a translation: what is known of each value so far, and the steps emitted for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.importers.failure import ImportFailure, WrongProgramError
from tapestry.teg.importers.fold_budget import FoldBudget
from tapestry.teg.importers.literals import literal, nothing
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import (
    LARGEST_COUNT,
    Compute,
    Concat,
    Fixed,
    ImportLimitError,
    Labels,
    Literal,
    Relabel,
    Reshape,
    Slice,
    Step,
    StepProgram,
    Value,
    outputs_of,
)

T = TypeVar("T")

# A tensor has at most so many dimensions (numpy's limit), and a program so many steps: no loop is unrolled further.
MOST_DIMENSIONS, MOST_STEPS = 64, 2**19
# A window whose taps become a step each has at most so many.
MOST_TAPS = 4096


class Translation:
    """The collected steps of a program; translators read values and constants and emit steps through it."""

    def __init__(self, program: StepProgram, opset: int, versions: Mapping[str, int] | None = None) -> None:
        self.program = program
        self.opset = opset
        self.versions = {**(versions or {}), "": opset}
        self.known: dict[str, Literal] = {}
        self._aliases: dict[str, str] = {}
        self._producers: dict[str, Step] = {}
        self._found: dict[Any, tuple[Sequence[np.ndarray], Any]] = {}
        self.unrolled_nodes = 0
        self.budget = FoldBudget()
        # How a node becomes steps, the values read later given: for translators of nodes that hold others.
        self.translate_node: Callable[[OnnxNode, set[str]], None] = _nowhere

    def version(self, domain: str) -> int:
        """Return the version of the operators of `domain` that the program uses; 1 if it states none."""
        return self.versions.get(domain, 1)

    def resolve(self, name: str) -> str:
        """Return the name of the value that `name` stands for."""
        return self._aliases.get(name, name)

    def alias(self, name: str, target: str) -> None:
        """Make `name` another name of `target`."""
        self._aliases[name] = self.resolve(target)

    def value(self, name: str) -> Value:
        """Return the shape and element type of a value."""
        return self.program.values[self.resolve(name)]

    def know(self, name: str, constant: Literal) -> None:
        """Record a folded value; it becomes part of the program where a step reads it."""
        value = Value(name, constant.shape, constant.array.dtype.name)
        self.known[name] = constant if value.size else nothing(value)
        self.program.literals[name] = self.known[name]
        self.program.values[name] = value

    def literal(self, name: str) -> Literal | None:
        """Return the known value of `name`, or None if it is not known."""
        return self.known.get(self.resolve(name))

    def once(self, what: Any, arrays: Sequence[np.ndarray], compute: Callable[[], T]) -> T:
        """Return what `compute` finds of known arrays, computed once for the same memory and `what`.

        The body of a loop reads the same constants in every iteration.
        """
        places = (
            (a.__array_interface__["data"][0], a.shape, a.strides, a.dtype.str) for a in arrays
        )  # memory of which no part is reused, for the arrays are kept
        key = (what, *places)
        if key not in self._found:
            self._found[key] = (arrays, compute())
        found: T = self._found[key][1]
        return found

    def constant(self, node: OnnxNode, position: int, what: str) -> np.ndarray | None:
        """Return the value of an optional input that must be known at import; None where it is left out.

        Raises:
            ImportFailure: it depends on the program's inputs, or has too many elements to be read.
        """
        if position >= len(node.inputs) or not node.inputs[position]:
            return None
        found = self.literal(node.inputs[position])
        if found is None:
            raise ImportFailure(
                f"{node.where} is supported only where its {what} is constant; {node.inputs[position]!r} is not"
                f"{self.budget.reason}"
            )
        try:
            return found.full
        except ImportLimitError as error:
            raise WrongProgramError(f"{node.where}: its {what}: {error}") from None

    def integers(self, node: OnnxNode, position: int, name: str) -> tuple[int, ...] | None:
        """Return the integers of attribute `name` or, in newer operator versions, of a constant input; None if left
        out.
        """
        if name in node.attributes:
            given = node.attributes[name]
            return tuple(int(v) for v in given) if isinstance(given, (tuple, list)) else (int(given),)
        found = self.constant(node, position, name)
        return None if found is None else tuple(int(v) for v in found.reshape(-1))

    def declare(self, name: str, shape: Sequence[int], dtype: str) -> str:
        """Declare a value that the next step produces.

        Raises:
            ImportFailure: there is one of this name, it has too many dimensions, or more bytes than can be counted.
        """
        sizes = tuple(int(s) for s in shape)
        if name in self.program.values:
            raise ImportFailure(f"value {name!r} would be made twice; rename it in the program")
        if len(sizes) > MOST_DIMENSIONS:
            raise ImportFailure(
                f"value {name!r} has {len(sizes):,} dimensions; a tensor has at most {MOST_DIMENSIONS}"
            )
        if math.prod(s for s in sizes if s) * item_bytes(dtype) > LARGEST_COUNT:
            raise ImportFailure(f"value {name!r} of shape {list(sizes)} has more than 2^63 bytes")
        self.program.values[name] = Value(name, sizes, dtype)
        return name

    def add_literal(self, name: str, array: np.ndarray) -> str:
        """Record a constant that the translation itself introduces."""
        self.know(name, literal(array))
        return name

    def emit(self, step: Step) -> str:
        """Append a step, whose outputs must be declared, and return the first output's name.

        Values without elements are known without a step.

        Raises:
            ImportFailure: the program has too many steps.
        """
        if len(self.program.steps) >= MOST_STEPS:
            raise ImportFailure(
                f"the program unrolls to more than {MOST_STEPS:,} steps, at {outputs_of(step)[0]!r}"
            )
        made = [self.program.values[name] for name in outputs_of(step)]
        if any(value.size for value in made):
            self.program.steps.append(step)
            self._producers.update((value.name, step) for value in made)
        for value in made:
            if value.size == 0:
                self.know(value.name, nothing(value))
        return made[0].name

    def producer(self, name: str) -> Step | None:
        """Return the step that produces a value; None for inputs and known values."""
        return self._producers.get(self.resolve(name))

    def fixed(
        self,
        site: str,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        """Emit a block on whole tensors; its outputs must be declared."""
        names = tuple(self.value(n).name for n in inputs)
        self.emit(Fixed(site, operator, names, tuple(outputs), attributes))

    def progress(self) -> tuple[int, int]:
        """Return the progress of the translation (numbers of steps and values), for `undo`."""
        return len(self.program.steps), len(self.program.values)

    def undo(self, node: OnnxNode, progress: tuple[int, int]) -> None:
        """Remove what the translator of `node` has emitted since `progress`, because it gave up."""
        steps, values = progress
        for step in self.program.steps[steps:]:
            for name in outputs_of(step):
                self._producers.pop(name, None)
        del self.program.steps[steps:]
        for name in [*list(self.program.values)[values:], *node.outputs]:
            self._aliases.pop(name, None)
            self.known.pop(name, None)
            self.program.literals.pop(name, None)
            self.program.values.pop(name, None)

    def cell(self, site: str, inputs: Sequence[str], output: str, expr: Any, dtype: str) -> str:
        """Emit an elementwise step with numpy broadcasting."""
        names = tuple(self.resolve(n) for n in inputs)
        shapes = [self.value(n).shape for n in names]
        shape = np.broadcast_shapes(*shapes)
        labels = tuple(broadcast_labels(s, shape) for s in shapes)
        self.declare(output, shape, dtype)
        attrs = {"expr": expr, "dtype": dtype}
        return self.emit(Compute(site, "cell", names, output, labels, plain_labels(len(shape)), attrs))

    def relabel(
        self, site: str, name: str, output: str, source: Labels, target: Labels, shape: Sequence[int]
    ) -> str:
        """Emit a transposition, squeeze, unsqueeze or broadcast to `shape`."""
        value = self.value(name)
        self.declare(output, shape, value.dtype)
        return self.emit(Relabel(site, value.name, output, source, target))

    def reshape(self, site: str, name: str, output: str, shape: Sequence[int]) -> str:
        """Emit the same elements at another shape; an unchanged shape only adds a name."""
        value = self.value(name)
        if tuple(shape) == value.shape:
            self.alias(output, value.name)
            return value.name
        self.declare(output, shape, value.dtype)
        return self.emit(Reshape(site, value.name, output))

    def slice(self, site: str, name: str, output: str, ranges: Sequence[range]) -> str:
        """Emit a slice at the coordinates in `ranges`, one per dimension; a slice of everything only adds a name."""
        value = self.value(name)
        if all(
            r.start == 0 and r.step == 1 and len(r) == s for r, s in zip(ranges, value.shape, strict=True)
        ):
            self.alias(output, value.name)
            return value.name
        self.declare(output, [len(r) for r in ranges], value.dtype)
        spans = tuple((r.start, r.step if len(r) > 1 else 1) for r in ranges)
        return self.emit(Slice(site, value.name, output, spans))

    def concat(self, site: str, names: Sequence[str], output: str, axis: int) -> str:
        """Concatenate the values along `axis`; those without elements add nothing."""
        values = [self.value(n) for n in names]
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        filled = [v for v in values if v.shape[axis]] or values
        if len(filled) == 1:
            self.alias(output, filled[0].name)
            return filled[0].name
        self.declare(output, shape, filled[0].dtype)
        return self.emit(Concat(site, tuple(v.name for v in filled), output, axis))


def _nowhere(node: OnnxNode, _: set[str]) -> None:
    raise ImportFailure(f"{node.where} lies in a body, which nothing here translates")


def check_taps(count: int) -> None:
    """Check that each of so many taps of a window may become a step of its own.

    Raises:
        ImportLimitError: there are more than `MOST_TAPS`.
    """
    if count > MOST_TAPS:
        raise ImportLimitError(
            f"a window has {count:,} taps, each of which would be a step; at most are {MOST_TAPS:,}"
        )


def plain_labels(rank: int) -> Labels:
    """Return the labels `d0`, `d1`, ... of a tensor whose dimensions have no names."""
    return tuple(f"d{k}" for k in range(rank))


def broadcast_labels(shape: Sequence[int], wanted: Sequence[int]) -> Labels:
    """Return the labels of an operand of `shape` in a result of shape `wanted`, aligned at the right."""
    lead = len(wanted) - len(shape)
    return tuple("" if s == 1 and wanted[lead + k] != 1 else f"d{lead + k}" for k, s in enumerate(shape))


class OnnxTranslator(NamedTuple):
    """A translator of some ONNX operators to steps; the standard's own have the domain `""`."""

    ops: tuple[str, ...]
    translate: Callable[[Translation, OnnxNode], None]
    domain: str = ""


def normal_axis(node: OnnxNode, axis: int, rank: int) -> int:
    """Return `axis` counted from the front.

    Raises:
        ImportFailure: it lies outside.
    """
    if not -rank <= axis < max(rank, 1):
        raise ImportFailure(f"{node.where}: axis {axis} lies outside a tensor of rank {rank}")
    return axis % max(rank, 1)
