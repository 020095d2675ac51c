"""Convolutions, and the rewriting of sparse ones to dense ones: `python -m tapestry.examples.convolution [SECONDS]`.

The whitepaper's rewrite: a kernel with gaps reads every second element, so the even and the odd elements are two
dense problems whose results interleave. A stride of two is the sum of two dense problems, one per half of the taps.
"""

import tapestry
from tapestry.examples.printing import show
from tapestry.teg.programs import Program

WEIGHT = {"out": 64, "channel": 32, "tap_y": 3, "tap_x": 3}


def dense(batch: int = 16, size: int = 66) -> Program:
    """Build a convolution with windows of 3 x 3, one step apart."""
    with tapestry.program("dense") as p:
        x = p.input("x", batch=batch, channel=32, y=size, x=size)
        p.output("y", x.conv(p.parameter("w", **WEIGHT)))
    return p


def with_gaps(batch: int = 16, size: int = 68, *, rewritten: bool = False) -> Program:
    """Build a convolution with taps two rows apart; rewritten: dense windows over even and odd rows, interleaved."""
    with tapestry.program("gaps") as p:
        x = p.input("x", batch=batch, channel=32, y=size, x=size)
        w = p.parameter("w", **WEIGHT)
        if rewritten:
            parts = [x.select(y=slice(first, None, 2)).conv(w) for first in (0, 1)]
            p.output("y", p.interleave(parts, "y"))
        else:
            p.output("y", x.conv(w, dilations=(2, 1)))
    return p


def strided(batch: int = 16, size: int = 68, *, rewritten: bool = False) -> Program:
    """Build a convolution with windows two rows apart; rewritten: even rows meet even taps, odd rows the odd ones."""
    with tapestry.program("strided") as p:
        x = p.input("x", batch=batch, channel=32, y=size, x=size)
        w = p.parameter("w", **WEIGHT)
        if rewritten:
            count = (size - 3) // 2 + 1
            even = x.select(y=slice(0, 2 * count + 2, 2)).conv(w.select(tap_y=slice(0, None, 2)))
            odd = x.select(y=slice(1, 2 * count, 2)).conv(w.select(tap_y=slice(1, None, 2)))
            p.output("y", even + odd)
        else:
            p.output("y", x.conv(w, strides=(2, 1)))
    return p


if __name__ == "__main__":
    show(dense().graph)
    show(with_gaps(rewritten=True).graph)
    show(strided(rewritten=True).graph)
