"""Random numbers of a seed and a counter: every rank computes those of its own part.

The mixing is that of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

import torch

GOLDEN = 0x9E3779B97F4A7C15 - 2**64
FIRST_FACTOR = 0xBF58476D1CE4E5B9 - 2**64
SECOND_FACTOR = 0x94D049BB133111EB - 2**64


def shifted(x: torch.Tensor, count: int) -> torch.Tensor:
    """Shift words of 64 bits to the right, with zeros on the left."""
    return (x >> count) & ((1 << (64 - count)) - 1)


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Mix the bits of each word; products wrap around."""
    x = (x ^ shifted(x, 30)) * FIRST_FACTOR
    x = (x ^ shifted(x, 27)) * SECOND_FACTOR
    return x ^ shifted(x, 31)


def random_uniform(
    seed: torch.Tensor | int, counter: torch.Tensor | int
) -> torch.Tensor:
    """Return a float64 in [0, 1) for each counter."""
    stream = mixed(torch.as_tensor(seed) + GOLDEN)
    words = mixed(mixed(torch.as_tensor(counter) * GOLDEN + stream) ^ stream)
    return shifted(words, 11).to(torch.float64) * 2.0**-53
