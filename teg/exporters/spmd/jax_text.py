"""The array namespace whose texts are JAX, for programs that `shard_map` runs on each device.

Shapes are those of all devices alike; starts may be traced: formulas of `axis_index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapestry.teg.exporters.spmd.array_text import SUM, ArrayText, DimSpan, TextValue, UnequalSizes, constant
from tapestry.teg.exporters.spmd.jax_functions import FORMULAS, FUNCTIONS
from tapestry.teg.exporters.spmd.per_rank import NumberTexts, axes_text

_SCANS = {
    "sum": "jnp.cumsum",
    "prod": "jnp.cumprod",
    "max": "lax.cummax",
    "min": "lax.cummin",
    "logsumexp": "lax.cumlogsumexp",
}
_COMBINING = {
    "prod": "jnp.multiply",
    "max": "jnp.maximum",
    "min": "jnp.minimum",
    "any": "jnp.logical_or",
    "all": "jnp.logical_and",
    "logsumexp": "jnp.logaddexp",
}
_INTO = {"sum": "add", "prod": "multiply", "max": "max", "min": "min"}


class TracedNumberTexts(NumberTexts):
    """Numbers of programs that are traced once for all devices: positions come from the mesh when the program runs."""

    def _position(self, axes: tuple[str, ...]) -> str:
        return f"axis_index({axes_text(axes, self.mesh_shape)})"

    def _entry(self, entries: str, position: str) -> str:
        name = self.tables.setdefault(entries, f"PART_{len(self.tables)}")
        return f"jnp.array({name})[{position}]"


@dataclass
class JaxText(ArrayText):
    """The namespace of JAX."""

    library = "jnp"
    title = "JAX"
    functions = FUNCTIONS
    formulas = FORMULAS
    axis_word = "axis"
    cast_method = "astype"
    permute_methods = ("swapaxes", "transpose")
    dtype_names = {"bool": "bool_"}  # noqa: RUF012
    combining = _COMBINING

    def size(self, values: np.ndarray | int) -> str:
        """Return the text of a size, which all devices have in common.

        Raises:
            UnequalSizes: they differ.
        """
        same = self.same(self._vector(values))
        if same is None:
            raise UnequalSizes("parts of different sizes")
        return str(same)

    def shape_text(self, shape: np.ndarray) -> str:
        """Return the text of a shape `(devices, rank)` as a tuple."""
        sizes = self._listed(shape)
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def _listed(self, shape: np.ndarray) -> list[str]:
        return [self.size(shape[:, k]) for k in range(shape.shape[1])]

    def reshape(self, value: TextValue, shape: np.ndarray) -> TextValue:
        """Reshape the same elements to `shape` `(devices, rank)`."""
        if value.shape.shape == shape.shape and self.sizes_equal(value.shape, shape):
            return value
        return self.method(value, "reshape", *(self._listed(shape) or ["()"]), shape=shape)

    def part(self, value: TextValue, spans: Sequence[DimSpan], shape: np.ndarray) -> TextValue:
        """Slice where the bounds are the same on all devices; elsewhere the start is traced."""
        if self.same(shape.prod(axis=1)) == 0:
            return TextValue(self._empty(value, shape), shape, value.dtype)
        rest: list[str | slice | int] = []
        for k, (low, stop, step) in enumerate(spans):
            if self.same(low) is not None:
                same = self.number(low) if stop is None else self._slice(low, stop, step, value.shape[:, k])
                rest.append(same)
                continue
            extent = np.ones_like(low) if stop is None else stop - low
            listed = (self.number(low), self.size(extent), f"axis={k}")
            sliced = value.shape.copy()
            sliced[:, k] = extent
            text = f"lax.dynamic_slice_in_dim({self.short(value).text}, {', '.join(listed)})"
            value = TextValue(text, sliced, value.dtype)
            rest.append(0 if stop is None else slice(None) if step == 1 else f"::{step}")
        return self.getitem(value, rest, shape)

    def _empty(self, value: TextValue, shape: np.ndarray) -> str:
        return f"jnp.zeros({self.shape_text(shape)}, {self.inner(value)}.dtype)"

    def _slice(self, low: np.ndarray, stop: np.ndarray, step: int, size: np.ndarray) -> str | slice:
        if step != 1 or not self.sizes_equal(stop, size):
            self.size(stop)
        return self.whole_span(low, stop, step, size)

    def typed_number(self, value: Any, dtype: str) -> str:
        """Return the text of a number as one of the library's."""
        return f"{self.dtype_text(dtype)}({constant(value)})"

    def arange(self, start: np.ndarray, stop: np.ndarray) -> TextValue:
        """Return the integers from `start` to `stop`."""
        shape = (stop - start)[:, None]
        if self.same(start) is not None:
            first = "" if self.same(start) == 0 else f"{self.number(start)}, "
            return TextValue(f"jnp.arange({first}{self.size(stop)})", shape, "int64")
        return TextValue(f"jnp.arange({self.size(stop - start)}) + {self.number(start)}", shape, "int64", SUM)

    def pad(self, value: TextValue, sides: np.ndarray, fill: Any = 0) -> TextValue:
        """Add margins, listed for each dimension."""
        pairs = [f"({self.size(side[:, 0])}, {self.size(side[:, 1])})" for side in np.moveaxis(sides, 1, 0)]
        named = {"constant_values": constant(fill)} if fill else {}
        like = replace(value, shape=value.shape + sides.sum(axis=2))
        listed = f"({', '.join(pairs)}{',' if len(pairs) == 1 else ''})"
        return self.call("pad", self.short(value).text, listed, like=like, **named)

    def first(self, value: TextValue, axis: int, count: np.ndarray) -> TextValue:
        """Return the first elements along a dimension."""
        shape = value.shape.copy()
        shape[:, axis] = count
        return self.getitem(value, [*[slice(None)] * axis, f":{self.size(count)}"], shape)

    def scan(self, value: TextValue, monoid: str, axis: int) -> TextValue:
        """Write a scan."""
        kind = f", dtype={self.dtype_text(value.dtype)}" if monoid in ("sum", "prod") else ""
        return replace(value, text=f"{_SCANS[monoid]}({self.short(value).text}, axis={axis}{kind})", level=9)

    def combine_rows(self, into: TextValue, rows: TextValue, values: TextValue, monoid: str) -> TextValue:
        """Combine rows by index."""
        return self.method(into, f"at[{rows.text}].{_INTO[monoid]}", values.text)

    def _expanded(self, value: TextValue, shape: np.ndarray) -> TextValue:
        text = f"jnp.broadcast_to({self.short(value).text}, {self.shape_text(shape)})"
        return TextValue(text, shape, value.dtype)

    def _unsqueezed(self, value: TextValue, axis: int, shape: np.ndarray) -> TextValue:
        return TextValue(f"jnp.expand_dims({self.short(value).text}, {axis})", shape, value.dtype)

    def _flipped(self, value: TextValue, axes: Sequence[int]) -> TextValue:
        along = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        return TextValue(f"jnp.flip({self.short(value).text}, {along})", value.shape, value.dtype)

    def _flattened(self, value: TextValue, first: int, last: int, shape: np.ndarray) -> TextValue:
        return self.reshape(value, shape)


@dataclass
class JaxPartText(JaxText):
    """The namespace of functions that compute the part of one device, whose number is a plain integer `rank`."""

    def size(self, values: np.ndarray | int) -> str:
        """Return the text of a size by device."""
        return self.number(values)

    def part(self, value: TextValue, spans: Sequence[DimSpan], shape: np.ndarray) -> TextValue:
        """Index with slices."""
        return self.static_part(value, spans, shape)

    def arange(self, start: np.ndarray, stop: np.ndarray) -> TextValue:
        """Return the integers from `start` to `stop`."""
        first = "" if self.same(start) == 0 else f"{self.number(start)}, "
        return TextValue(f"jnp.arange({first}{self.number(stop)})", (stop - start)[:, None], "int64")
