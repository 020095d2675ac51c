"""Small graphs in few lines: the examples of rules, from which their tests are generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.operators.selectors import view_attributes
from tapestry.teg.views import ViewMap

T = TypeVar("T")


def sure(value: T | None) -> T:
    """Return the value, whose presence a rule's guard has checked; assert that it is not None."""
    assert value is not None
    return value


class ExampleBuilder(GraphBuilder):
    """A graph builder with default names."""

    def tensor(self, site: str, *shape: int, dtype: str = "float32", role: str = "activation") -> str:
        """Add an input of the program."""
        return self.source(site, shape, dtype, role)

    def shape(self, tensor: str) -> tuple[int, ...]:
        return self.tensors[tensor].shape

    def op(self, operator: str, *inputs: str, site: str = "", **attrs: Any) -> str:
        """Add an application with one result."""
        return self.apply(operator, inputs, site=site or operator, **attrs)[0]

    def view(self, root: str, view: ViewMap, site: str = "view") -> str:
        """Add a view of a tensor."""
        return self.apply("view", (root,), site=site, **dict(view_attributes(view)))[0]

    def cell(
        self, expr: Expression, reads: Mapping[str, str], dtype: str = "float32", site: str = "cell"
    ) -> str:
        """Add a cell; `reads` gives each tensor a letter per dimension (`-`: broadcast), in the result's order."""
        sizes: dict[str, int] = {}
        for tensor, letters in reads.items():
            sizes.update({c: n for c, n in zip(letters, self.shape(tensor), strict=True) if c != "-"})
        labels = tuple(tuple(c.replace("-", "") for c in letters) for letters in reads.values())
        return self.op(
            "cell", *reads, site=site, expr=expr, labels=labels, dims=tuple(sizes.items()), dtype=dtype
        )

    def contract(self, text: str, *inputs: str, site: str = "contract") -> str:
        """Add a contraction specified by an einsum string."""
        left, right = text.split("->")
        labels = tuple(tuple(part) for part in left.split(","))
        return self.op("contract", *inputs, site=site, labels=labels, output=tuple(right))

    def repeated(self, tensor: str, site: str) -> str:
        """Add a repetition of the block that makes a tensor; return its result."""
        block = next(b for b in self.blocks if tensor in b.outputs)
        (made,) = self.add(block.operator, block.inputs, block.definition.attributes, site=site)
        self.blocks[-1] = replace(self.blocks[-1], repetition=block.repetition + 1)
        return made

    def carried(self, tensor: str, state: str) -> Graph:
        """Build the graph in which a tensor is the next value of a state."""
        self.sink(tensor, carries=state)
        return self.build()

    def result(self, *tensors: str) -> Graph:
        """Build the graph whose outputs these are."""
        for tensor in tensors:
            self.sink(tensor)
        return self.build()


def replaced_at(values: Sequence[T], position: int, value: T) -> tuple[T, ...]:
    """Return the values with another one at a position."""
    return (*values[:position], value, *values[position + 1 :])
