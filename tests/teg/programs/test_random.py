"""Tests of random programs: for any order of slices, splits, merges, joins and reductions, the values are numpy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tapestry
from tapestry.teg.programs import Handle, Program
from tests.cases import first

SHAPES = ((4, 6), (12,), (2, 3, 4), (8, 6), (5, 4, 2), (24, 2), (0, 3), (1, 6))


class Pair(NamedTuple):
    """A handle, and the array that it should be."""

    handle: Handle
    array: np.ndarray


Rng = np.random.Generator


def sliced(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    key: list[int | slice | None] = []
    for size in a.array.shape:
        start, stop = sorted(int(v) for v in rng.integers(0, size + 1, 2))
        step = int(rng.choice([1, 1, 2, 3, -1, -2]))
        choices: list[int | slice | None] = [
            slice(None, None, step),
            slice(start, stop, abs(step)),
            *([int(rng.integers(-size, size))] if size else []),
        ]
        key.append(choices[int(rng.integers(len(choices)))])
    if rng.random() < 0.2:
        key.insert(int(rng.integers(len(key) + 1)), None)
    return Pair(a.handle[tuple(key)], a.array[tuple(key)])


def transposed(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    order = [int(k) for k in rng.permutation(a.array.ndim)]
    return Pair(a.handle.transpose(*order), a.array.transpose(order))


def reshaped(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    size, shape = a.array.size, []
    while size > 1 and len(shape) < 3:
        factor = int(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
        shape.append(factor)
        size //= factor
    shape.append(size)
    return Pair(a.handle.reshape(shape), a.array.reshape(shape))


def merged(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if a.array.ndim < 2:
        return a
    k = int(rng.integers(a.array.ndim - 1))
    shape = a.array.shape
    flat = a.array.reshape(*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])
    return Pair(a.handle.merge(k, k + 1), flat)


def reduced(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if not a.array.ndim:
        return a
    k, keep = int(rng.integers(a.array.ndim)), bool(rng.random() < 0.4)
    if a.array.shape[k] and rng.random() < 0.5:
        return Pair(a.handle.max(k, keep=keep), a.array.max(k, keepdims=keep))
    return Pair(a.handle.sum(k, keep=keep), a.array.sum(k, keepdims=keep))


def joined(p: Program, a: Pair, _: Pair, rng: Rng) -> Pair:
    if not a.array.ndim:
        return a
    k = int(rng.integers(a.array.ndim))
    b = Pair(a.handle.flip(k), np.flip(a.array, k))
    if rng.random() < 0.4:
        mixed = np.stack([a.array, b.array], k + 1).reshape(
            *a.array.shape[:k], 2 * a.array.shape[k], *a.array.shape[k + 1 :]
        )
        return Pair(p.interleave([a.handle, b.handle], k), mixed)
    return Pair(p.concat([a.handle, b.handle], k), np.concatenate([a.array, b.array], k))


def repeated(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if not a.array.ndim or a.array.size > 400:
        return a
    k, each = int(rng.integers(a.array.ndim)), bool(rng.random() < 0.5)
    if each:
        return Pair(a.handle.repeat_each(k, 3), np.repeat(a.array, 3, k))
    return Pair(a.handle.repeat(k, 2), np.concatenate([a.array] * 2, k))


def padded(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if not a.array.ndim or a.array.size > 400:
        return a
    k = int(rng.integers(a.array.ndim))
    low, high = (int(v) for v in rng.integers(0, 4, 2))
    widths = [(low, high) if d == k else (0, 0) for d in range(a.array.ndim)]
    mode = str(rng.choice(["constant", "edge", "reflect", "wrap"])) if a.array.shape[k] else "constant"
    return Pair(a.handle.pad({k: (low, high)}, mode=mode), np.pad(a.array, widths, mode=mode))  # type: ignore[call-overload]


def combined(_: Program, a: Pair, b: Pair, rng: Rng) -> Pair:
    try:
        shape = np.broadcast_shapes(a.array.shape, b.array.shape)
    except ValueError:
        return Pair(a.handle * 0.5 + 1, a.array * np.float32(0.5) + 1)
    if math.prod(shape) > 2000:
        return a
    return Pair(a.handle - b.handle, a.array - b.array)


def normalized(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if not a.array.size or not a.array.ndim:
        return a
    k = int(rng.integers(a.array.ndim))
    high = np.exp(a.array - a.array.max(k, keepdims=True))
    return Pair(a.handle.softmax(k), high / high.sum(k, keepdims=True))


def summed(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if not a.array.ndim:
        return a
    k = int(rng.integers(a.array.ndim))
    return Pair(a.handle.cumsum(k), a.array.cumsum(k, dtype=np.float32))


def multiplied(_: Program, a: Pair, __: Pair, rng: Rng) -> Pair:
    if a.array.ndim < 2 or a.array.size > 500:
        return a
    return Pair(
        a.handle @ a.handle.transpose(*range(a.array.ndim - 2), -1, -2), a.array @ a.array.swapaxes(-1, -2)
    )


STEPS: tuple[Callable[[Program, Pair, Pair, Rng], Pair], ...] = (
    *(sliced, transposed, reshaped, merged, reduced, joined),
    *(repeated, padded, combined, normalized, summed, multiplied),
)


@pytest.mark.parametrize("seed", first(40, range(120)))
def test_random_programs_mean_what_numpy_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = {}
    with tapestry.program() as p:
        pairs = []
        for k in range(2):
            shape = SHAPES[int(rng.integers(len(SHAPES)))]
            inputs[f"x{k}"] = rng.standard_normal(shape).astype(np.float32)
            pairs.append(Pair(p.input(f"x{k}", shape), inputs[f"x{k}"]))
        for _ in range(7):
            a, b = (pairs[int(rng.integers(max(len(pairs) - 3, 0), len(pairs)))] for _ in range(2))
            with np.errstate(all="ignore"):
                made = STEPS[int(rng.integers(len(STEPS)))](p, a, b, rng)
            assert made.handle.shape == made.array.shape
            if made.array.size < 4000 and np.abs(made.array).max(initial=0) < 1e4:
                pairs.append(made)
        for k, pair in enumerate(pairs):
            p.output(f"y{k}", pair.handle)
    found = p.evaluate(inputs)
    for k, pair in enumerate(pairs):
        np.testing.assert_allclose(found[f"y{k}"], pair.array, rtol=2e-3, atol=2e-3, err_msg=f"y{k}")
