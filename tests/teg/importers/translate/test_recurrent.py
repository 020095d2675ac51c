"""Tests of recurrent layers against an obvious loop, with the options that ONNX's own cases leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from benchmarks.shardability import shardable
from tapestry.teg.importers import from_onnx
from tests.teg.importers.models import model_of, run

STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 5, 2
Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_step(a: Array, h: Array, c: Array, k: dict[str, Any]) -> tuple[Array, Array]:
    w, r, b, p, clip = k["W"], k["R"], k["B"], k["P"], k["clip"]
    total = a @ w.T + h @ r.T + b[: 4 * HIDDEN] + b[4 * HIDDEN :]
    i, o, f, g = np.split(total, 4, axis=1)
    pi, po, pf = np.split(p, 3)
    bounded = lambda x: np.clip(x, -clip, clip)  # noqa: E731
    entering = sigmoid(bounded(i + pi * c))
    c = sigmoid(bounded(f + pf * c)) * c + entering * np.tanh(bounded(g))
    return sigmoid(bounded(o + po * c)) * np.tanh(c), c


def gru_step(a: Array, h: Array, c: Array, k: dict[str, Any]) -> tuple[Array, Array]:
    """Compute a GRU step with the reset gate applied after the product."""
    (wz, wr, wh), (rz, rr, rh) = np.split(k["W"], 3), np.split(k["R"], 3)
    bz, br, bh, cz, cr, ch = np.split(k["B"], 6)
    update = sigmoid(a @ wz.T + h @ rz.T + bz + cz)
    reset = sigmoid(a @ wr.T + h @ rr.T + br + cr)
    fresh = np.tanh(a @ wh.T + reset * (h @ rh.T + ch) + bh)
    return (1 - update) * fresh + update * h, c


def unrolled(
    step: Callable[..., tuple[Array, Array]],
    x: Array,
    start: tuple[Array, Array],
    lengths: Array,
    ways: list[Any],
) -> tuple[Array, Array, Array]:
    outputs = np.zeros((STEPS, len(ways), BATCH, HIDDEN), np.float32)
    h, c = (np.array(s) for s in start)
    for d, weights in enumerate(ways):
        for n in range(BATCH):
            order = range(lengths[n])[:: -1 if d else 1]
            for t in order:
                made = step(x[t, n][None], h[d, n][None], c[d, n][None], weights)
                h[d, n], c[d, n] = made[0][0], made[1][0]
                outputs[t, d, n] = h[d, n]
    return outputs, h, c


@pytest.mark.parametrize(("op", "gates", "step"), [("LSTM", 4, lstm_step), ("GRU", 3, gru_step)])
def test_both_directions_with_lengths_starts_peepholes_and_clipping(
    op: str, gates: int, step: Callable[..., Any], rng: np.random.Generator
) -> None:
    # Given a bidirectional layer over sequences of unequal lengths that begins with states of its own
    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    lengths = np.array([4, 2, 3], np.int32)
    feeds = {
        "X": normal(STEPS, BATCH, FEATURES),
        "W": normal(2, gates * HIDDEN, FEATURES),
        "R": normal(2, gates * HIDDEN, HIDDEN),
        "B": normal(2, 2 * gates * HIDDEN),
        "lengths": lengths,
        "h": normal(2, BATCH, HIDDEN),
        "c": normal(2, BATCH, HIDDEN),
        "P": normal(2, 3 * HIDDEN),
    }
    is_lstm = op == "LSTM"
    names = list(feeds) if is_lstm else list(feeds)[:6]
    options: dict[str, Any] = {"clip": 0.7} if is_lstm else {"linear_before_reset": 1}
    outputs = ["Y", "Y_h", "Y_c"] if is_lstm else ["Y", "Y_h"]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction="bidirectional", **options)

    # When it is imported and run
    found = run(
        from_onnx(model_of([node], {n: feeds[n] for n in names}, outputs)), {n: feeds[n] for n in names}
    )

    # Then a plain loop over sequences and steps gives the same
    ways = [{n: feeds[n][d] for n in "WRBP"} | {"clip": 0.7} for d in range(2)]
    wanted = unrolled(step, feeds["X"], (feeds["h"], feeds["c"]), lengths, ways)
    for name, value in zip(outputs, wanted, strict=False):
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_a_layer_shards_over_batch_and_hidden_state() -> None:
    shapes = {"X": (6, 8, 16), "W": (1, 64, 16), "R": (1, 64, 16)}
    node = helper.make_node("LSTM", list(shapes), ["Y"], hidden_size=16)

    graph = from_onnx(model_of([node], shapes, ["Y"]))

    found = shardable(graph)
    assert found.flops_share == found.bytes_share == 1
    split = {
        d.size for b in graph.blocks if b.operator == "contract" and b.signature for d in b.signature.dims
    }
    assert split == {4, 6, 8, 16}
