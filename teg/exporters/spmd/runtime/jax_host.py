"""Copies to the memory of the host and back; the compiler runs them beside all else."""

from __future__ import annotations

import jax


def to_host(x: jax.Array) -> jax.Array:
    """Copy a part to the memory of the host."""
    return jax.device_put(x, jax.memory.Space.Host)


def to_device(x: jax.Array) -> jax.Array:
    """Copy a part from the memory of the host."""
    return jax.device_put(x, jax.memory.Space.Device)
