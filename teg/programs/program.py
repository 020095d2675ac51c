"""Programs written in Python: `with tapestry.program("mlp") as p: ...`, then `p.graph`."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from tapestry.teg.arguments import TEXT, check_arguments
from tapestry.teg.brief import counted
from tapestry.teg.costs import CostTable
from tapestry.teg.evaluate import evaluate
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Block, Graph
from tapestry.teg.graph_card import graph_card
from tapestry.teg.importers.absorbing import absorb_transpositions
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.lowering.lower import lower
from tapestry.teg.importers.program import SequencePoint
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.programs.boundary import Boundary
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.handle import Handle, fused_cell
from tapestry.teg.programs.joining import concat, interleave, stack
from tapestry.teg.programs.products import einsum
from tapestry.teg.programs.writer import Writer
from tapestry.teg.sharding.text import parse_spec
from tapestry.teg.validate import check


class Program(Boundary):
    """A program that is being written: it makes handles, and `graph` is what has been written so far."""

    def __init__(self, name: str = "program") -> None:
        super().__init__(Writer(name))
        self._built: tuple[tuple[int, ...], Graph] | None = None
        self._costs: dict[str, CostTable] = {}
        self._pins: dict[str, str] = {}

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

    def sequence_point(self, name: str, *after: Handle) -> int:
        """Add a point in time at which all of `after` are available; steps that `p.behind(point)` encloses begin
        later.

        Its tensors are observed: they are computed even if no output needs them.
        """
        for tensor in after:
            self._own(tensor)
        points = self.writer.program.points
        points.append(SequencePoint(self.writer.own_site(name), tuple(t.value.name for t in after)))
        return len(points) - 1

    @contextmanager
    def behind(self, point: int) -> Iterator[None]:
        """Make the steps written inside begin after the sequence point."""
        if not 0 <= point < len(self.writer.program.points):
            raise ProgramError(f"there is no sequence point {point!r}")
        self.writer.points.append(point)
        try:
            yield
        finally:
            self.writer.points.remove(point)

    def costs(self, tensor: Handle, table: CostTable) -> None:
        """Set the costs of the block that makes `tensor` to those of the table (see `teg.costs.cost_table`)."""
        self._own(tensor)
        self._costs[tensor.site] = table

    def pin(self, tensor: Handle, spec: str) -> None:
        """Request that `tensor` be sharded by `spec`, such as `"[gpu.0, -]"`; `pins` goes to `optimize(pins=...)`."""
        self._own(tensor)
        try:
            parse_spec(spec, tensor.rank)
        except ValueError as error:
            raise ProgramError(str(error)) from None
        self._pins[tensor.site] = spec

    @property
    def pins(self) -> dict[str, str]:
        """The specs that tensors are pinned to, by site.

        Raises:
            ProgramError: a pinned tensor is a view, or nothing needs it: it has no block of its own.
        """
        return {self._block(self.graph, site).site: spec for site, spec in self._pins.items()}

    def _block(self, graph: Graph, site: str) -> Block:
        """Return the block that makes a tensor; one that would be called like an output is called `NAME.value`."""
        found = graph.by_site.get(f"{site}.value" if site in self.writer.program.outputs else site)
        if found is None:
            raise ProgramError(
                f"tensor {site!r} has no block of its own in the graph (a view, absorbed or not needed); "
                "name the tensor that is computed"
            )
        return found

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the steps written inside `name/...`."""
        self.writer.scopes.append(name)
        try:
            yield
        finally:
            self.writer.scopes.pop()

    def cell(self, function: Callable[..., Any], /, *operands: Any, name: str = "cell") -> Handle:
        """Compute `function` of the operands' elements in one block: `p.cell(lambda a, b: (a * b).relu(), x, y)`.

        Raises:
            ProgramError: none of the operands is a tensor.
        """
        if not any(isinstance(o, Handle) for o in operands):
            raise ProgramError("a cell needs a tensor among its operands; for others there is p.generate()")
        found: Handle = fused_cell(name, function, operands)
        return found

    def where(self, condition: Handle, then: Any, otherwise: Any) -> Handle:
        """Select `then` where the condition holds, `otherwise` elsewhere."""
        return condition.where(then, otherwise)

    def einsum(self, equation: str, *tensors: Handle) -> Handle:
        """Compute a contraction: `p.einsum("bqd,bkd->bqk", q, k)`, or in words `"b q d, b k d -> b q k"`."""
        return einsum(equation, tensors)

    def concat(self, tensors: Sequence[Handle], dim: str | int = 0) -> Handle:
        """Concatenate the tensors along a dimension."""
        return concat(tensors, dim)

    def stack(self, tensors: Sequence[Handle], axis: int = 0, name: str = "") -> Handle:
        """Stack the tensors along a new dimension."""
        return stack(tensors, axis, name)

    def interleave(self, tensors: Sequence[Handle], dim: str | int = 0) -> Handle:
        """Interleave the tensors: element i of tensor k is at i * count + k along a dimension."""
        return interleave(tensors, dim)

    @property
    def graph(self) -> Graph:
        """The validated graph of what the outputs need.

        Raises:
            ProgramError: there is no output.
            teg.validate.InvalidGraphError: the program breaks a promise of the model.
        """
        written = self.writer.program
        if not written.observed:
            raise ProgramError(f"program {self.name!r} has no outputs; add p.output(name, tensor)")
        state = (len(written.steps), len(written.outputs), len(written.points), len(self._costs))
        if self._built is None or self._built[0] != state:
            named = replace(written, names={name: name for name in written.values})
            program = absorb_transpositions(named.pruned())
            graph = self._priced(lower(program, Factoring(program)))
            check(graph)
            self._built = (state, graph)
        return self._built[1]

    def _priced(self, graph: Graph) -> Graph:
        """Return the graph with the costs supplied with the program."""
        changed = {
            block.site: replace(block, definition=replace(block.definition, costs=table))
            for site, table in self._costs.items()
            for block in [self._block(graph, site)]
        }
        return graph.replace(changed.get(b.site, b) for b in graph.blocks) if changed else graph

    def evaluate(self, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Compute the outputs by name, for inputs by name; parameters with a value may be left out.

        Raises:
            ProgramError: inputs are missing or of another shape or type, or an operator refuses their values.
        """
        graph = self.graph
        try:
            return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs or {})))
        except ValueError as error:
            raise ProgramError(str(error)) from error

    def _repr_html_(self) -> str:
        if not self.writer.program.observed:
            return f"<code>{html.escape(repr(self))}</code>"
        graph = self.graph
        return graph_card(graph, graph_flops(graph))

    def __repr__(self) -> str:
        written = self.writer.program
        sizes = counted(len(written.steps), "step"), counted(len(written.outputs), "output")
        return f"program {self.name!r}: {', '.join(sizes)}"


def program(name: str = "program") -> Program:
    """Create a new, empty program.

    >>> import tapestry
    >>> with tapestry.program("layer") as p:
    ...     x = p.input("x", batch=4, features=3)
    ...     w = p.parameter("w", features=3, out=2)
    ...     p.output("y", (x @ w).relu())
    >>> p.graph.sinks[0].site
    'y'

    Raises:
        ArgumentError: a name that is no text.
    """
    check_arguments({"name": TEXT}, {"name": name})
    return Program(name)
