"""Random numbers of a seed and a counter: every device computes those of its own part.

The mixing is that of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

GOLDEN = 0x9E3779B97F4A7C15
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB


def mixed(x: jax.Array) -> jax.Array:
    """Mix the bits of each word; products wrap around."""
    x = (x ^ (x >> 30)) * jnp.uint64(FIRST_FACTOR)
    x = (x ^ (x >> 27)) * jnp.uint64(SECOND_FACTOR)
    return x ^ (x >> 31)


def random_uniform(seed: jax.Array | int, counter: jax.Array | int) -> jax.Array:
    """Return a float64 in [0, 1) for each counter."""
    seeds, counters = (jnp.asarray(x).astype(jnp.uint64) for x in (seed, counter))
    stream = mixed(seeds + jnp.uint64(GOLDEN))
    words = mixed(mixed(counters * jnp.uint64(GOLDEN) + stream) ^ stream)
    return (words >> 11).astype(jnp.float64) * 2.0**-53
