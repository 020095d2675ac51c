"""Padding of tensors, and rolling of elements around the end of a dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tapestry.teg.padding_modes import PADDING_MODES, IndexFunction, padding_parts
from tapestry.teg.programs.base import Dim
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.joining import concat
from tapestry.teg.programs.movement import Movement

MODES = ("constant", *PADDING_MODES)


class Padding(Movement):
    """Padding by a number or by the tensor's own elements; negative widths crop.

    >>> import tapestry
    >>> x = tapestry.program().input("x", row=8, column=6)
    >>> x.pad(row=1, column=(0, 2), value=1.0)
    pad: float32[row=10, column=8]
    >>> x.pad(row=(-1, 3), mode="wrap")
    concat: float32[row=10, column=6]
    >>> x.pad(column=(2, 0), mode=lambda position, size: size - 1)
    concat.1: float32[row=8, column=8]
    """

    def pad(
        self,
        widths: Mapping[Dim, int | tuple[int, int]] | None = None,
        /,
        *,
        mode: str | IndexFunction = "constant",
        value: float = 0,
        **named: int | tuple[int, int],
    ) -> Self:
        """Add elements before and after: `x.pad(row=1, column=(0, 2))`, or by number `x.pad({-1: 1})`.

        `mode`: `constant` (the `value`), `edge` (the nearest element), `reflect` (mirrored at the outermost
        element) or `wrap` (from the other end), as `numpy.pad`; or an index function `f(position, size)`, which gives
        for each position outside a dimension (negative before it, from `size` on behind it) the one whose elements
        are put there.
        """
        if not callable(mode) and mode not in MODES:
            known = f"{', '.join(MODES)}, or a function of a position and the size"
            raise ProgramError(f"a mode of padding is one of {known}, not {mode!r}")
        given: dict[Dim, int | tuple[int, int]] = dict(widths or {})
        given.update(named)
        low, high = [0] * self.rank, [0] * self.rank
        for dim, width in given.items():
            axis = self.axis(dim)
            low[axis], high[axis] = (width, width) if isinstance(width, int) else width
        for k, (size, a, b) in enumerate(zip(self.shape, low, high, strict=True)):
            if size + min(a, 0) + min(b, 0) < 0:
                raise ProgramError(f"dimension {k} of size {size} cannot lose {-min(a, 0) - min(b, 0)}")
        spans = zip(self.shape, low, high, strict=True)
        kept = self.sliced([range(max(-a, 0), s - max(-b, 0)) for s, a, b in spans])
        low, high = [max(a, 0) for a in low], [max(b, 0) for b in high]
        if not callable(mode) and mode == "constant":
            return kept._filled(low, high, value)
        for axis, (before, after) in enumerate(zip(low, high, strict=True)):
            kept = kept._extended(axis, before, after, mode)
        return kept

    def _filled(self, low: list[int], high: list[int], value: float) -> Self:
        """Pad by one block; dimensions without padding pass through it."""
        changed = {d for d, a, b in zip(self.labels, low, high, strict=True) if a or b}
        if not changed:
            return self
        target = tuple(f"{d}p" if d in changed else d for d in self.labels)
        attributes: dict[str, Any] = {
            "low": dict(zip(self.labels, low, strict=True)),
            "high": dict(zip(self.labels, high, strict=True)),
            "value": value,
        }
        shape = [s + a + b for s, a, b in zip(self.shape, low, high, strict=True)]
        whole = frozenset(changed | {f"{d}p" for d in changed})
        return self.compute("pad", "pad", (shape, self.names), attributes, target=target, whole=whole)

    def _extended(self, axis: int, before: int, after: int, mode: str | IndexFunction) -> Self:
        """Concatenate the tensor with views of itself, as often as the widths need."""
        size = self.shape[axis]
        if not before and not after:
            return self
        try:
            padded = padding_parts(size, before, after, mode)
        except ValueError as error:
            raise ProgramError(f"dimension {axis} cannot be padded: {error}") from error
        parts = []
        for part in padded:
            line = self._part(axis, part.kept)
            parts.append(line.repeat_each(axis, part.length) if part.repeated else line)
        return concat(parts, axis)

    def _part(self, axis: int, part: range) -> Self:
        return self.sliced([part if k == axis else range(s) for k, s in enumerate(self.shape)])

    def roll(self, dim: Dim, shift: int) -> Self:
        """Move the elements `shift` places further along `dim`; those that leave at the end re-enter at the start."""
        axis = self.axis(dim)
        size = self.shape[axis]
        cut = -shift % size if size else 0
        if not cut:
            return self
        return concat([self._part(axis, range(cut, size)), self._part(axis, range(cut))], axis)
