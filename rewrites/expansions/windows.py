"""Windows over images `(n, channels, *spatial)`: views of what convolutions and pools read, tap by tap."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from tapestry.rewrites.rule import Match, Op, TensorPattern, op
from tapestry.teg.operators.selectors import sliced, unsqueezed, view_attributes
from tapestry.teg.views import ViewMap

Sizes = tuple[int, ...]

# A window of more taps is not spelled out in one cell.
MOST_TAPS = 25


@dataclass(frozen=True)
class SlidingWindows:
    """The spatial dimensions of a convolution or pool: image, kernel and result, and the window steps."""

    image: Sizes
    kernel: Sizes
    counts: Sizes
    strides: Sizes
    dilations: Sizes
    low: Sizes
    high: Sizes

    @property
    def taps(self) -> int:
        """The number of elements that a window reads."""
        return math.prod(self.kernel)

    @property
    def is_padded(self) -> bool:
        """True if windows extend beyond the image."""
        return any(self.low) or any(self.high)

    @property
    def is_cropped(self) -> bool:
        """True if a padding is negative, so that it crops the image."""
        return min((*self.low, *self.high)) < 0

    @property
    def padded(self) -> Sizes:
        """The spatial sizes of the image with its padding."""
        return tuple(a + n + b for a, n, b in zip(self.low, self.image, self.high, strict=True))

    def positions(self) -> list[Sizes]:
        """List the taps of a window, the last dimension varying fastest."""
        return list(product(*map(range, self.kernel)))

    def tap(self, lead: Sizes, position: Sizes) -> ViewMap:
        """Return the view of a padded image `(*lead, *spatial)` that one tap reads: `(*lead, *counts)`."""
        starts = [t * d for t, d in zip(position, self.dilations, strict=True)]
        ends = [a + s * (n - 1) + 1 for a, s, n in zip(starts, self.strides, self.counts, strict=True)]
        whole, none = (1,) * len(lead), (0,) * len(lead)
        return sliced((*lead, *self.padded), (*none, *starts), (*lead, *ends), (*whole, *self.strides))


def windows_of(m: Match, kernel: Sizes) -> SlidingWindows:
    """Return the windows of a match that binds `x`, `strides`, `pads` and `dilations`."""
    rank = len(kernel)
    pads = m["pads"]
    return SlidingWindows(
        m.shape("x")[2:], kernel, m.result().shape[2:], m["strides"], m["dilations"], pads[:rank], pads[rank:]
    )


def conv_windows(m: Match) -> SlidingWindows:
    """Return the windows of a convolution with weights `w`."""
    return windows_of(m, m.shape("w")[2:])


def pool_windows(m: Match) -> SlidingWindows:
    """Return the windows of a pool."""
    return windows_of(m, m["kernel"])


def padded(x: TensorPattern, windows: SlidingWindows, value: float = 0) -> TensorPattern | Op:
    """Pad the image explicitly, if it has any padding."""
    if not windows.is_padded:
        return x
    return op("pad", x, low=(0, 0, *windows.low), high=(0, 0, *windows.high), value=value).named("padded")


def view_of(term: TensorPattern | Op, view: ViewMap, role: str) -> Op:
    """Build a view of a term."""
    return op("view", term, given=lambda _: dict(view_attributes(view))).named(role)


def with_axis(view: ViewMap, axis: int) -> ViewMap:
    """Add one dimension, of size 1, to the view."""
    return view.then(unsqueezed(view.shape, (axis,)))


def window_settings(**given: Any) -> Mapping[str, Any]:
    """Return attributes of an example's windows over two dimensions; `given` overrides the defaults."""
    return {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), **given}
