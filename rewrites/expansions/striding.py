"""Strided convolutions as dense ones: of the image split into phases, or with results left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.images import W, X
from tapestry.rewrites.expansions.windows import conv_windows, view_of, window_settings
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, TensorPattern, attr, computed, op
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import sliced

PHASES, SLICES = "phases", "slices"


def _ways(m: Match) -> list[str]:
    """List the ways: phases if the taps are in one group and adjacent where strided; slices always."""
    w = conv_windows(m)
    adjacent = all(d == 1 for d, s in zip(w.dilations, w.strides, strict=True) if s > 1)
    return [PHASES, SLICES] if adjacent and m["groups"] == 1 and not w.is_cropped else [SLICES]


def _dense(m: Match) -> Op:
    return _of_phases(m) if m.choice == PHASES else _sliced(m)


def _sliced(m: Match) -> Op:
    """Compute every result at stride 1 and take every stride-th."""
    w = conv_windows(m)
    dense = op(
        "conv",
        X,
        W,
        strides=(1,) * len(w.strides),
        pads=m["pads"],
        dilations=w.dilations,
        groups=m["groups"],
    ).named("dense")
    lead = m.result().shape[:2]
    full = [n - d * (k - 1) for n, d, k in zip(w.padded, w.dilations, w.kernel, strict=True)]
    ends = [s * (n - 1) + 1 for s, n in zip(w.strides, w.counts, strict=True)]
    taken = sliced((*lead, *full), (0,) * (2 + len(full)), (*lead, *ends), (1, 1, *w.strides))
    return view_of(dense, taken, "strided")


def _of_phases(m: Match) -> Op:
    """Build a dense convolution: elements a stride apart become channels, as do the taps of the weights."""
    w = conv_windows(m)
    taps = tuple(-(-k // s) for k, s in zip(w.kernel, w.strides, strict=True))
    strided = [s > 1 for s in w.strides]
    image = tuple(
        n + k - 1 if apart else size
        for n, k, size, apart in zip(w.counts, taps, w.image, strided, strict=True)
    )
    low = tuple(a if apart else 0 for a, apart in zip(w.low, strided, strict=True))
    phases = _apart(X, m.shape("x"), w.strides, image, low, "image")
    weights = _apart(W, m.shape("w"), w.strides, taps, (0,) * len(taps), "weights")
    kept = tuple(0 if apart else p for p, apart in zip(m["pads"], [*strided, *strided], strict=True))
    return op(
        "conv", phases, weights, strides=(1,) * len(taps), pads=kept, dilations=w.dilations, groups=1
    ).named("dense")


def _apart(
    term: TensorPattern,
    shape: Sequence[int],
    strides: Sequence[int],
    counts: Sequence[int],
    low: Sequence[int],
    role: str,
) -> Op:
    """Split `(a, b, *spatial)` into `(a, phases * b, *counts)`: per phase every stride-th element, zeros around."""
    lead, spatial = tuple(shape[:2]), tuple(shape[2:])
    wanted = tuple(s * n for s, n in zip(strides, counts, strict=True))
    high = tuple(max(0, n - a - size) for n, a, size in zip(wanted, low, spatial, strict=True))
    whole: TensorPattern | Op = term
    if any((*low, *high)):
        whole = op("pad", term, low=(0, 0, *low), high=(0, 0, *high)).named(f"padded_{role}")
    full = tuple(a + size + b for a, size, b in zip(low, spatial, high, strict=True))
    parts = []
    for phase in product(*map(range, strides)):
        ends = [p + s * (n - 1) + 1 for p, s, n in zip(phase, strides, counts, strict=True)]
        view = sliced((*lead, *full), (0, 0, *phase), (*lead, *ends), (1, 1, *strides))
        parts.append(view_of(whole, view, "phase"))
    return op("concat", *parts, axis=1).named(role)


def _example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("dense_of_strided_conv")
    x = b.tensor("x", size(2), size(3), 7, 3 + size(4))
    w = b.tensor("w", size(4), b.shape(x)[1], 3, 3, role="parameter")
    v = b.tensor("v", 2 * b.shape(x)[1], 1, 3, 2, role="parameter")
    both = window_settings(strides=(2, 1), pads=(1, 0, 1, 1))
    single = window_settings(strides=(2, 1), dilations=(2, 2), pads=(1, 1, 1, 1))
    return b.result(b.op("conv", x, w, **both, groups=1), b.op("conv", x, v, **single, groups=b.shape(x)[1]))


STRIDING: tuple[Rule, ...] = (
    Rule(
        name="dense_of_strided_conv",
        left=op(
            "conv",
            X,
            W,
            strides=attr("strides"),
            pads=attr("pads"),
            dilations=attr("dilations"),
            groups=attr("groups"),
        ),
        right=computed(lambda m: [_dense(m)]),
        when=lambda m: any(s > 1 for s in m["strides"]) and conv_windows(m).taps > 1,
        choices=_ways,
        doc="""
        A strided convolution becomes a dense one: of phases of the image, or of all of it with results left out.

        conv[stride s](x, w)  ->  conv(phases(x), phases(w))  or  conv(x, w)[..., ::s]
        Phases (space to depth) are what stands a stride apart: they become channels, and kernels shrink by the
        stride; in one group, where taps of strided dimensions are neighbors. Slices always; they cost what is
        thrown away, but may be shared. Of finite images: in phases, zeros fill up kernels that do not divide.
        """,
        source="Ying et al., Image Classification at Supercomputer Scale, 2018, section 3 (space to depth)",
        example=_example,
        kind="semantic",
        domain="real",
    ),
)
