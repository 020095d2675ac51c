"""The array namespace whose texts are PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue, constant
from tapestry.teg.exporters.spmd.cell_functions import CALLS, FORMULAS

# What writers call, by the names that they use.
FUNCTIONS: Mapping[str, str] = {
    **CALLS,
    "where": "torch.where",
    "clip": "torch.clamp",
    "div": "torch.div",
    "array": "torch.tensor",
    "concat": "torch.cat",
    "stack": "torch.stack",
    "einsum": "torch.einsum",
    "sum": "torch.sum",
    "prod": "torch.prod",
    "reduce_max": "torch.amax",
    "reduce_min": "torch.amin",
    "any": "torch.any",
    "all": "torch.all",
    "logsumexp": "torch.logsumexp",
    "softmax": "F.softmax",
    "log_softmax": "F.log_softmax",
    "layer_norm": "F.layer_norm",
    "argmax": "torch.argmax",
    "argmin": "torch.argmin",
    "argsort": "torch.argsort",
    "fft": "torch.fft.fft",
    "ifft": "torch.fft.ifft",
    "pad": "F.pad",
    "random_uniform": "random_uniform",
    **{
        f"{name}{rank}d": f"F.{name}{rank}d"
        for name in ("conv", "max_pool", "avg_pool")
        for rank in (1, 2, 3)
    },
}
_SCANS = {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin", "logsumexp": "logcumsumexp"}
_COMBINING = {
    "prod": "torch.mul",
    "max": "torch.maximum",
    "min": "torch.minimum",
    "any": "torch.logical_or",
    "all": "torch.logical_and",
    "logsumexp": "torch.logaddexp",
}
_INTO = {"prod": "prod", "max": "amax", "min": "amin"}


@dataclass
class TorchText(ArrayText):
    """The namespace of PyTorch."""

    library = "torch"
    title = "PyTorch"
    functions = FUNCTIONS
    formulas = FORMULAS
    axis_word = "dim"
    cast_method = "to"
    permute_methods = ("transpose", "permute")
    combining = _COMBINING
    eager = True

    def part(self, value: TextValue, spans: Sequence[DimSpan], shape: np.ndarray) -> TextValue:
        """Index with slices."""
        return self.static_part(value, spans, shape)

    def _empty(self, value: TextValue, shape: np.ndarray) -> str:
        return f"{self.inner(value)}.new_empty({self.shape_text(shape)})"

    def scalar(self, value: Any, dtype: str) -> str:
        """Fill an array without dimensions, on the device: `torch.tensor` would copy from the host in each step."""
        return f"torch.full((), {constant(value)}, dtype={self.dtype_text(dtype)})"

    def typed_number(self, value: Any, dtype: str) -> str:
        """Return the text of a number; plain ones are float32."""
        return constant(value) if dtype == "float32" else self.scalar(value, dtype)

    def arange(self, start: np.ndarray, stop: np.ndarray) -> TextValue:
        """Return the integers from `start` to `stop`."""
        first = "" if self.same(start) == 0 else f"{self.number(start)}, "
        return TextValue(f"torch.arange({first}{self.number(stop)})", (stop - start)[:, None], "int64")

    def pad(self, value: TextValue, sides: np.ndarray, fill: Any = 0) -> TextValue:
        """Add margins; the library lists the last dimension first, and leaves out those without a margin."""
        rank = value.rank
        while rank > 1 and not sides[self.active, value.rank - rank].any():
            rank -= 1
        order = range(value.rank - 1, value.rank - rank - 1, -1)
        listed = [self.number(sides[:, k, side]) for k in order for side in (0, 1)]
        named = {"value": constant(fill)} if fill else {}
        like = replace(value, shape=value.shape + sides.sum(axis=2))
        return self.call("pad", self.short(value).text, f"({', '.join(listed)})", like=like, **named)

    def first(self, value: TextValue, axis: int, count: np.ndarray) -> TextValue:
        """Return the first elements along a dimension."""
        shape = value.shape.copy()
        shape[:, axis] = count
        return self.method(value, "narrow", str(axis), "0", self.number(count), shape=shape)

    def scan(self, value: TextValue, monoid: str, axis: int) -> TextValue:
        """Write a scan; those of extremes return positions too."""
        kind = f", dtype={self.dtype_text(value.dtype)}" if monoid in ("sum", "prod") else ""
        text = f"torch.{_SCANS[monoid]}({self.short(value).text}, dim={axis}{kind})"
        return replace(value, text=text + (".values" if monoid in ("max", "min") else ""), level=9)

    def combine_rows(self, into: TextValue, rows: TextValue, values: TextValue, monoid: str) -> TextValue:
        """Add or reduce rows by index."""
        if monoid == "sum":
            return self.method(into, "index_add", "0", rows.text, values.text)
        return self.method(into, "index_reduce", "0", rows.text, values.text, f'"{_INTO[monoid]}"')

    def _expanded(self, value: TextValue, shape: np.ndarray) -> TextValue:
        return self.method(value, "expand", *self._listed(shape), shape=shape)

    def _unsqueezed(self, value: TextValue, axis: int, shape: np.ndarray) -> TextValue:
        return self.method(value, "unsqueeze", str(axis), shape=shape)

    def _flipped(self, value: TextValue, axes: Sequence[int]) -> TextValue:
        return self.method(value, "flip", *map(str, axes))

    def _flattened(self, value: TextValue, first: int, last: int, shape: np.ndarray) -> TextValue:
        return TextValue(f"{self.inner(value)}.flatten({first}, {last})", shape, value.dtype)
