"""Programs written in Python: `with teg.program("mlp") as p: ...`, then `p.graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from teg.dtypes import NAMES
from teg.evaluate import evaluate
from teg.graph import ROLES, Graph, attributes
from teg.importers.absorbing import absorb_transpositions
from teg.importers.factoring import Factoring
from teg.importers.lowering.lower import lower
from teg.importers.program import SequencePoint, Value
from teg.interface import pack_inputs, unpack_outputs
from teg.programs.base import check_name, read_dims
from teg.programs.failure import ProgramError
from teg.programs.generators import Generators
from teg.programs.handle import Handle, fused_cell
from teg.programs.joining import concat, interleave, stack
from teg.programs.products import einsum
from teg.programs.writer import Writer
from teg.validate import check


class Program(Generators):
    """A program that is being written: it makes handles, and `graph` is what has been written so far."""

    def __init__(self, name: str = "program") -> None:
        super().__init__(Writer(name))
        self._built: tuple[tuple[int, ...], Graph] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.writer.program.name

    def input(self, name: str, /, *shape: Any, dtype: str = "float32", **dims: int) -> Handle:
        """A value that comes with each execution: `p.input("x", batch=32, features=128)` or `p.input("x", 32, 128)`."""
        return self._entry(name, shape, dims, dtype, "activation", None)

    def parameter(
        self,
        name: str,
        /,
        *shape: Any,
        dtype: str = "float32",
        role: str = "parameter",
        value: np.ndarray | None = None,
        **dims: int,
    ) -> Handle:
        """A value that stays from execution to execution, such as a weight; `value` is its data, if known.

        `role` is parameter, buffer, constant or optimizer_state.
        """
        return self._entry(name, shape, dims, dtype, role, value)

    def constant(self, name: str, value: Any, /, *names: str) -> Handle:
        """A known value; `names` name its dimensions."""
        array = np.asarray(value)
        if names and len(names) != array.ndim:
            raise ProgramError(f"an array of rank {array.ndim} has that many dimension names, not {names}")
        found = tuple(check_name(n) for n in names) or ("",) * array.ndim
        return self._declared(name, array.shape, found, array.dtype.name, "constant", array)

    def _entry(
        self,
        name: str,
        shape: Sequence[Any],
        dims: Mapping[str, int],
        dtype: str,
        role: str,
        value: np.ndarray | None,
    ) -> Handle:
        sizes, names = read_dims(shape, dims)
        array = None if value is None else np.asarray(value)
        if array is not None and not shape and not dims:
            sizes, names = array.shape, ("",) * array.ndim
        if array is not None and (array.shape != sizes or array.dtype.name != dtype):
            raise ProgramError(
                f"the value of {name!r} must have shape {sizes} and type {dtype}, "
                f"not {array.shape} and {array.dtype.name}"
            )
        return self._declared(name, sizes, names, dtype, role, array)

    def _declared(
        self,
        name: str,
        sizes: Sequence[int],
        names: Sequence[str],
        dtype: str,
        role: str,
        array: np.ndarray | None,
    ) -> Handle:
        if dtype not in NAMES:
            raise ProgramError(f"there is no element type {dtype!r}; known are {', '.join(NAMES)}")
        if role not in ROLES:
            raise ProgramError(f"a role is one of {', '.join(ROLES)}, not {role!r}")
        site = self.writer.own_site(name)
        value = self.writer.declare(site, sizes, dtype, names)
        self.writer.enter(site, value, role, array)
        return Handle(self.writer, value, tuple(names))

    def output(self, name: str, tensor: Handle, /) -> None:
        """Let `tensor` be seen as `name`; what no output needs is left out of the graph."""
        self._own(tensor)
        if name in self.writer.program.outputs:
            raise ProgramError(f"there is an output {name!r} already")
        if not name or not name.isprintable():
            raise ProgramError(f"a name is printable text, not {name!r}")
        self.writer.program.outputs[name] = tensor.value.name

    def update(self, old: Handle, new: Handle, /) -> None:
        """Let `new` be the value of the parameter or state `old` in the next execution.

        Raises:
            ProgramError: `old` is no source of the program, or shape or type differ.
        """
        self._own(old)
        self._own(new)
        entries, program = self.writer.program.entries, self.writer.program
        if old.value.name not in entries or entries[old.value.name].role == "activation":
            raise ProgramError(f"{old!r} is no parameter or state, so it has no next value")
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ProgramError(f"the next value of {old!r} must have its shape and type, not {new!r}")
        if old.value.name in program.carries.values():
            raise ProgramError(f"{old!r} has a next value already")
        name = f"{old.value.name}.next"
        self.output(name, new)
        program.carries[name] = old.value.name

    def sequence_point(self, name: str, *after: Handle) -> int:
        """A point in time at which all of `after` are there; what `p.behind(point)` encloses begins later.

        Its tensors are observed: they are computed even if no output needs them.
        """
        for tensor in after:
            self._own(tensor)
        points = self.writer.program.points
        points.append(SequencePoint(self.writer.own_site(name), tuple(t.value.name for t in after)))
        return len(points) - 1

    @contextmanager
    def behind(self, point: int) -> Iterator[None]:
        """What is written inside begins after the sequence point."""
        if not 0 <= point < len(self.writer.program.points):
            raise ProgramError(f"there is no sequence point {point!r}")
        self.writer.points.append(point)
        try:
            yield
        finally:
            self.writer.points.remove(point)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """What is written inside is called `name/...`."""
        self.writer.scopes.append(name)
        try:
            yield
        finally:
            self.writer.scopes.pop()

    def cell(self, function: Callable[..., Any], /, *operands: Any, name: str = "cell") -> Handle:
        """One block that computes `function` of the operands' elements: `p.cell(lambda a, b: (a * b).relu(), x, y)`.

        Raises:
            ProgramError: none of the operands is a tensor.
        """
        if not any(isinstance(o, Handle) for o in operands):
            raise ProgramError("a cell needs a tensor among its operands; for others there is p.generate()")
        found: Handle = fused_cell(name, function, operands)
        return found

    def where(self, condition: Handle, then: Any, otherwise: Any) -> Handle:
        """`then` where the condition holds, `otherwise` elsewhere."""
        return condition.where(then, otherwise)

    def einsum(self, equation: str, *tensors: Handle) -> Handle:
        """A contraction: `p.einsum("bqd,bkd->bqk", q, k)`, or in words `"b q d, b k d -> b q k"`."""
        return einsum(equation, tensors)

    def concat(self, tensors: Sequence[Handle], dim: str | int = 0) -> Handle:
        """The tensors one after the other along a dimension."""
        return concat(tensors, dim)

    def stack(self, tensors: Sequence[Handle], axis: int = 0, name: str = "") -> Handle:
        """The tensors side by side along a new dimension."""
        return stack(tensors, axis, name)

    def interleave(self, tensors: Sequence[Handle], dim: str | int = 0) -> Handle:
        """Element i of tensor k at i * count + k along a dimension."""
        return interleave(tensors, dim)

    def apply(self, operator: str, *tensors: Handle, names: Sequence[str] = (), **attrs: Any) -> Handle:
        """Any operator of the catalogue by name, with its attributes and dimensions by position.

        Raises:
            ProgramError: there is none, it does not take these operands, or it has several results.
        """
        return self.applied(operator, tensors, tuple(names), attributes(**attrs))

    def _own(self, tensor: Handle) -> None:
        if not isinstance(tensor, Handle):
            raise ProgramError(f"expected a tensor of the program, not {type(tensor).__name__}")
        if tensor.writer is not self.writer:
            raise ProgramError(f"{tensor!r} belongs to program {tensor.writer.program.name!r}")

    @property
    def graph(self) -> Graph:
        """The validated graph of what the outputs need.

        Raises:
            ProgramError: there is no output.
            teg.validate.InvalidGraph: the program breaks a promise of the model.
        """
        written = self.writer.program
        if not written.observed:
            raise ProgramError(f"program {self.name!r} has no outputs; add p.output(name, tensor)")
        state = (len(written.steps), len(written.outputs), len(written.points), len(written.entries))
        if self._built is None or self._built[0] != state:
            program = absorb_transpositions(written.pruned())
            graph = lower(program, Factoring(program))
            check(graph)
            self._built = (state, graph)
        return self._built[1]

    def evaluate(self, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """The outputs by name, for inputs by name; parameters with a value may be left out."""
        graph = self.graph
        return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs or {})))

    def value_of(self, tensor: Handle) -> Value:
        """The value in the importers' form that a handle stands for."""
        return tensor.value

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()


def program(name: str = "program") -> Program:
    """A new, empty program.

    >>> import teg
    >>> with teg.program("layer") as p:
    ...     x = p.input("x", batch=4, features=3)
    ...     w = p.parameter("w", features=3, out=2)
    ...     p.output("y", (x @ w).relu())
    >>> p.graph.sinks[0].site
    'y'
    """
    return Program(name)
