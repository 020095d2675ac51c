"""A small random number generator for compiled code (splitmix64), seeded by a `numpy.random.Generator` once per
epoch.

Numba's own support for generators allocates on every draw, which costs more than a move does.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.compiled import njit


def new_rng(rng: np.random.Generator) -> np.ndarray:
    """Build the state of a random number generator, seeded by one draw of `rng`; `(1,)` uint64."""
    return rng.integers(0, 1 << 64, size=1, dtype=np.uint64)


@njit(_nrt=False)
def draw(random_state):
    """Draw the next 64 random bits."""
    random_state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random_state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(_nrt=False)
def unit(random_state):
    """Draw a number in [0, 1)."""
    return np.float64(draw(random_state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(_nrt=False)
def between(random_state, low, high):
    """Draw an integer in [low, high)."""
    return np.int64(low) + np.int64(unit(random_state) * (high - low))
