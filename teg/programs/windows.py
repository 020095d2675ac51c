"""Windows that slide over the last dimensions: convolution and pooling of `(n, channels, *spatial)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from tapestry.teg.operators.windows import WindowGeometry
from tapestry.teg.programs.base import TensorBase, is_number
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.movement import Movement

Pads = str | int | Sequence[int | tuple[int, int]]


class WindowMethods(Movement):
    """Methods for convolution and pooling.

    >>> import tapestry
    >>> p = tapestry.program()
    >>> x = p.input("x", batch=8, channel=3, y=32, x=32)
    >>> x.conv(p.parameter("w", out=16, channel=3, tap_y=3, tap_x=3), strides=2, pads="same")
    conv: float32[batch=8, out=16, y=16, x=16]
    >>> x.max_pool(2)
    max_pool: float32[batch=8, channel=3, y=16, x=16]
    """

    def conv(
        self,
        weight: TensorBase,
        *,
        strides: int | Sequence[int] = 1,
        pads: Pads = "valid",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Self:
        """Convolve with `weight` of shape `(out, channels / groups, *kernel)`.

        `pads` is `"valid"` (none), `"same"` (as many windows as `size / stride`, rounded up), a number, or per
        spatial dimension a number or a pair before and after.
        """
        if not 3 <= self.rank <= 5 or weight.rank != self.rank or weight.dtype != self.dtype:
            raise ProgramError(
                f"conv needs (n, channels, 1 to 3 spatial dimensions) and a weight of the same rank and type, "
                f"not {self!r} and {weight!r}"
            )
        if groups < 1 or self.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
            raise ProgramError(
                f"a weight of shape {weight.shape} in {groups} groups does not fit {self.shape[1]} channels"
            )
        found = _geometry(self.shape[2:], weight.shape[2:], strides, pads, dilations)
        image, g = self._cropped(found)
        attributes: dict[str, Any] = {**g.attributes, "groups": groups}
        read, written = _labels(self.rank - 2)
        taps = tuple(f"t{k}" for k in range(self.rank - 2))
        channels = "c" if groups == 1 else "cg"
        labels = (("n", "c", *read), ("o", channels, *taps))
        target = ("n", "o", *written)
        names = (self.names[0], weight.names[0], *self.names[2:])
        return image.compute(
            "conv",
            "conv",
            ((self.shape[0], weight.shape[0], *g.out), names if _different(names) else ("",) * self.rank),
            attributes,
            others=[weight],
            labels=labels,
            target=target,
            whole=frozenset((*labels[0], *labels[1], *target)),
        )

    def max_pool(
        self,
        kernel: int | Sequence[int],
        *,
        strides: int | Sequence[int] | None = None,
        pads: Pads = "valid",
        dilations: int | Sequence[int] = 1,
    ) -> Self:
        """Compute the largest element of each window; windows do not overlap unless `strides` says so."""
        return self._pool("max", kernel, strides, pads, dilations)

    def average_pool(
        self, kernel: int | Sequence[int], *, strides: int | Sequence[int] | None = None, pads: Pads = "valid"
    ) -> Self:
        """Compute the mean of each window; padding is not counted."""
        return self._pool("average", kernel, strides, pads, 1)

    def _pool(
        self,
        kind: str,
        kernel: int | Sequence[int],
        strides: int | Sequence[int] | None,
        pads: Pads,
        dilations: int | Sequence[int],
    ) -> Self:
        if not 3 <= self.rank <= 5:
            raise ProgramError(f"pooling needs (n, channels, 1 to 3 spatial dimensions), not {self!r}")
        taps = _per_dimension(kernel, self.rank - 2, "kernel")
        found = _geometry(self.shape[2:], taps, taps if strides is None else strides, pads, dilations)
        image, g = self._cropped(found)
        attributes: dict[str, Any] = {**g.attributes, "kind": kind, "kernel": g.kernel}
        if kind == "average":
            attributes["size"] = image.shape[2:]
        read, written = _labels(self.rank - 2)
        labels, target = ("n", "c", *read), ("n", "c", *written)
        return image.compute(
            f"{kind}_pool",
            "pool",
            ((*self.shape[:2], *g.out), self.names),
            attributes,
            labels=[labels],
            target=target,
            whole=frozenset((*labels, *target)),
        )

    def _cropped(self, g: WindowGeometry) -> tuple[Self, WindowGeometry]:
        """Return the tensor without margins that no window reads, and the geometry with the padding that is read."""
        kept, read = g.cropped(self.shape[2:])
        return self.sliced([range(n) for n in (*self.shape[:2], *kept)]), read


def _geometry(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: int | Sequence[int],
    pads: Pads,
    dilations: int | Sequence[int],
) -> WindowGeometry:
    rank = len(spatial)
    steps, gaps = _per_dimension(strides, rank, "strides"), _per_dimension(dilations, rank, "dilations")
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, gaps, strict=True)]
    if pads == "same":
        out = [-(-size // step) for size, step in zip(spatial, steps, strict=True)]
        needed = [
            max((o - 1) * t + e - s, 0) for o, t, e, s in zip(out, steps, extents, spatial, strict=True)
        ]
        low, high = [n // 2 for n in needed], [n - n // 2 for n in needed]
    else:
        low, high = _pads(pads, rank)
        room = [s + a + b - e for s, a, b, e in zip(spatial, low, high, extents, strict=True)]
        out = [r // t + 1 for r, t in zip(room, steps, strict=True)]
    if any(o < 1 for o in out):
        raise ProgramError(f"no window of {tuple(kernel)} fits into {tuple(spatial)} with pads {pads!r}")
    return WindowGeometry(tuple(kernel), steps, gaps, tuple(low), tuple(high), tuple(out))


def _pads(pads: Pads, rank: int) -> tuple[list[int], list[int]]:
    if pads == "valid":
        return [0] * rank, [0] * rank
    given: Sequence[Any] = [pads] * rank if isinstance(pads, int) else pads
    pairs = [(p, p) if isinstance(p, int) else tuple(p) for p in given] if not isinstance(given, str) else []
    if len(pairs) != rank or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise ProgramError(
            f"pads are 'same', 'valid', a number, or {rank} numbers or pairs from 0 up, not {pads!r}"
        )
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _per_dimension(value: int | Sequence[int], rank: int, what: str) -> tuple[int, ...]:
    found = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(found) != rank or not all(is_number(v, 1) for v in found):
        raise ProgramError(f"{what} is a number or {rank} numbers from 1 up, not {value!r}")
    return found


def _labels(rank: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(f"x{k}" for k in range(rank)), tuple(f"y{k}" for k in range(rank))


def _different(names: Sequence[str]) -> bool:
    return len({n for n in names if n}) == sum(bool(n) for n in names)
