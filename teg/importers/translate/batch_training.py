"""Batch normalization in training: by the moments of the batch, with running ones updated."""

from __future__ import annotations

import math

from tapestry.teg.dtypes import HALF
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.arithmetic import call
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand


def _train(b: Builder, node: OnnxNode) -> list[Value | None]:
    """Compute the normalized batch, and the running mean and variance moved towards the batch's."""
    x, scale, bias, mean, variance = (operand(b, node, k) for k in range(5))
    rank, inner = len(x.shape), "float32" if x.dtype in HALF else x.dtype
    axes = [k for k in range(rank) if k != 1]
    share = 1 / max(math.prod(x.shape[k] for k in axes), 1)
    epsilon, kept = float(node.get("epsilon", 1e-5)), float(node.get("momentum", 0.9))
    wide = b.cast(x, inner)
    middle = b.reduce(wide, axes, keep=True, scale=share)
    squares = b.cells(lambda a, m: (a - m) * (a - m), wide, middle, dtype=inner)
    spread = b.reduce(squares, axes, keep=True, scale=share)
    channels = (x.shape[1], *(1,) * (rank - 2))
    factors, shifts = b.reshape(scale, channels), b.reshape(bias, channels)

    def moved(old: Value, new: Value) -> Value:
        flat = b.reshape(new, (x.shape[1],))
        within = "float32" if old.dtype in HALF else old.dtype
        return b.cells(lambda o, n: o * kept + n * (1 - kept), old, flat, dtype=old.dtype, within=within)

    running = [moved(mean, middle), moved(variance, spread)]
    normal = b.cells(
        lambda a, m, v, s, c: (a - m) / call("sqrt", v + epsilon) * s + c,
        *(x, middle, spread, factors, shifts),
        dtype=x.dtype,
        within=inner,
    )
    return [normal, *running]


train_batch_normalization = composed(_train)
