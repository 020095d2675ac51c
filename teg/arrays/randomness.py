"""Random numbers that depend on a seed and a counter only: any part of a tensor of them is computed on its own.

Source of the mixing: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
(SplitMix64). Here the counter takes the place of the generator's state, so there is no order of drawing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
WORD = 2**64


def _word(value: Any) -> np.ndarray:
    """Convert whole numbers to 64 bits, negative ones in two's complement."""
    if isinstance(value, int):
        return np.asarray(value % WORD, np.uint64)
    return (
        np.asarray(value)
        .astype(np.int64 if np.asarray(value).dtype.kind == "i" else np.uint64)
        .astype(np.uint64)
    )


def mixed(bits: Any) -> Any:
    """Mix bits, uint64 of numpy or JAX: every bit of the result depends on every bit of the argument."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return bits ^ (bits >> np.uint64(31))


def random_bits(seed: Any, counter: Any) -> np.ndarray:
    """Compute 64 random bits for each counter, as uint64; seeds that are near give unrelated numbers."""
    with np.errstate(over="ignore"):
        stream = mixed(_word(seed) + np.uint64(GOLDEN))
        return np.asarray(mixed(mixed(_word(counter) * np.uint64(GOLDEN) + stream) ^ stream))


def random_uniform(seed: Any, counter: Any) -> np.ndarray:
    """Compute a float64 in [0, 1) for each counter, a multiple of 2**-53."""
    return (random_bits(seed, counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53
