"""A writer of the blocks that compute gradients: short forms for the operators that rules of differentiation use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import TensorType
from tapestry.teg.operators.expressions import Expression, inputs_of, substitute
from tapestry.teg.operators.selectors import sliced, view_attributes
from tapestry.teg.views import ViewDim, ViewMap, identity, permutation

Names = Sequence[str]
FIRST, SECOND, THIRD = ("input", 0), ("input", 1), ("input", 2)


class GradientWriter:
    """A writer that appends blocks to a builder, at sites that begin with the name of the block they belong to."""

    def __init__(self, builder: GraphBuilder, site: str = "gradient") -> None:
        self.builder = builder
        self.site = site

    def type_of(self, tensor: str) -> TensorType:
        """Return the shape and element type of a tensor."""
        return self.builder.tensors[tensor].type

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.type_of(tensor).shape

    def dtype(self, tensor: str) -> str:
        """Return the element type of a tensor."""
        return self.type_of(tensor).dtype

    def apply(self, operator: str, *inputs: str, **attrs: Any) -> str:
        """Append a block, and return its only output."""
        (made,) = self.builder.apply(operator, inputs, site=self.site, **attrs)
        return made

    def cell(
        self,
        expr: Expression,
        inputs: Sequence[str],
        labels: Sequence[Names],
        dims: dict[str, int],
        dtype: str,
    ) -> str:
        """Compute an expression over dimensions `dims`, in this order; inputs that it does not read are left out."""
        read = inputs_of(expr)
        kept = {k: n for n, k in enumerate(read)}
        return self.apply(
            "cell",
            *(inputs[k] for k in read),
            expr=substitute(expr, {k: ("input", n) for k, n in kept.items()}),
            labels=tuple(tuple(labels[k]) for k in read),
            dims=tuple(dims.items()),
            dtype=dtype,
        )

    def pointwise(self, expr: Expression, *inputs: str, dtype: str | None = None) -> str:
        """Compute an expression of inputs that are broadcast by numpy's rules, in the type of the first one."""
        shapes = [self.shape(t) for t in inputs]
        shape = np.broadcast_shapes(*shapes)
        labels = [
            tuple(
                f"d{k}" if size == shape[k] else "" for k, size in enumerate(own, start=len(shape) - len(own))
            )
            for own in shapes
        ]
        dims = {f"d{k}": int(size) for k, size in enumerate(shape)}
        return self.cell(expr, inputs, labels, dims, dtype or self.dtype(inputs[0]))

    def filled(self, value: float, shape: Sequence[int], dtype: str) -> str:
        """Make a tensor with one value everywhere."""
        return self.cell(("const", value), (), (), {f"d{k}": n for k, n in enumerate(shape)}, dtype)

    def cast(self, tensor: str, dtype: str) -> str:
        """Convert a tensor to an element type."""
        if self.dtype(tensor) == dtype:
            return tensor
        return self.pointwise(("cast", dtype, FIRST), tensor, dtype=dtype)

    def conjugate(self, tensor: str) -> str:
        """Conjugate a tensor of complex numbers; others stay as they are."""
        return self.pointwise(("conj", FIRST), tensor) if self.is_complex(tensor) else tensor

    def is_complex(self, tensor: str) -> bool:
        """Return whether a tensor's elements are complex numbers."""
        return numpy_dtype(self.dtype(tensor)).kind == "c"

    def total(self, terms: Sequence[str]) -> str:
        """Add up tensors of one shape, in the type of the first one."""
        if len(terms) == 1:
            return terms[0]
        expr: Expression = FIRST
        for k in range(1, len(terms)):
            expr = ("add", expr, ("input", k))
        return self.pointwise(expr, *terms)

    def reduce(
        self, tensor: str, labels: Names, output: Names, scale: float = 1.0, monoid: str = "sum"
    ) -> str:
        """Reduce the dimensions that `output` lacks; its order is that of the result, in which `""` has size 1."""
        keep = tuple(k for k, name in enumerate(output) if not name)
        named = tuple(name for name in output if name)
        if len(named) == len(labels) and scale == 1.0:
            return self.rearranged(tensor, labels, output)
        return self.apply(
            "reduce", tensor, monoid=monoid, labels=tuple(labels), output=named, keep=keep, scale=scale
        )

    def sum_over(self, tensor: str, axes: Sequence[int], scale: float = 1.0, monoid: str = "sum") -> str:
        """Reduce axes to size 1."""
        labels = [f"d{k}" for k in range(len(self.shape(tensor)))]
        output = ["" if k in axes else label for k, label in enumerate(labels)]
        return self.reduce(tensor, labels, output, scale, monoid)

    def rearranged(self, tensor: str, labels: Names, output: Names) -> str:
        """View a tensor with its dimensions in another order; `""` is a new one of size 1."""
        shape = self.shape(tensor)
        dims = tuple(ViewDim(list(output).index(name), 1, 0) for name in labels)
        sizes = dict(zip(labels, shape, strict=True))
        return self.view(tensor, ViewMap(dims, tuple(sizes[name] if name else 1 for name in output)))

    def broadcast(self, tensor: str, labels: Names, dims: dict[str, int]) -> str:
        """View a tensor over all of `dims`; its labels are some of them, `""` marks a dimension of size 1."""
        order = list(dims)
        seen = tuple(ViewDim(order.index(n), 1, 0) if n else ViewDim(-1, 0, 0) for n in labels)
        return self.view(tensor, ViewMap(seen, tuple(dims.values())))

    def contract(self, inputs: Sequence[str], labels: Sequence[Names], output: Names) -> str:
        """Multiply tensors, and sum over the names that `output` lacks."""
        return self.apply("contract", *inputs, labels=tuple(map(tuple, labels)), output=tuple(output))

    def view(self, tensor: str, view: ViewMap) -> str:
        """View a tensor; the view that shows all of it as it is makes no block."""
        if view == identity(self.shape(tensor)):
            return tensor
        made = self.builder.add("view", (tensor,), view_attributes(view), site=self.site)
        return made[0]

    def transposed(self, tensor: str, order: Sequence[int]) -> str:
        """View a tensor with its dimensions in the given order."""
        return self.view(tensor, permutation(self.shape(tensor), order))

    def slice(self, tensor: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """View `range(start, end, step)` of one dimension."""
        shape = self.shape(tensor)
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], ends[axis], steps[axis] = start, end, step
        return self.view(tensor, sliced(shape, starts, ends, steps))

    def reshape(self, tensor: str, shape: Sequence[int]) -> str:
        """Reshape a tensor."""
        if tuple(shape) == self.shape(tensor):
            return tensor
        return self.apply("reshape", tensor, shape=tuple(shape))

    def pad(self, tensor: str, low: Sequence[int], high: Sequence[int], value: float = 0.0) -> str:
        """Pad a tensor; negative widths cut it."""
        shape = self.shape(tensor)
        starts = [max(0, -a) for a in low]
        ends = [n - max(0, -a) for n, a in zip(shape, high, strict=True)]
        cut = self.view(tensor, sliced(shape, starts, ends))
        if not any(a > 0 for a in (*low, *high)):
            return cut
        added = [tuple(max(0, a) for a in side) for side in (low, high)]
        return self.apply("pad", cut, low=added[0], high=added[1], value=value)

    def dilated(self, tensor: str, axis: int, factor: int) -> str:
        """Put `factor - 1` zeros after each element of one dimension."""
        return tensor if factor == 1 else self.apply("dilate", tensor, axis=axis, factor=factor)
