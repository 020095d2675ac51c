"""Stages that one process drives: turns of a stage on its devices, and copies to those of another one.

A program states `SOURCES` and `CONSTANTS` of all stages, and in `PLACES` the stage of each, in place of the empty one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from tapestry.teg.exporters.spmd.runtime.jax_arrays import room
from tapestry.teg.exporters.spmd.runtime.jax_script import step
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    MESH,
    WORLD,
    Dims,
    boxes,
    inside,
    lengths,
)
from tapestry.teg.exporters.spmd.runtime.script import (
    command_line,
    load,
    run_steps,
    save,
)
from tapestry.teg.exporters.spmd.runtime.shared_transfers import shared_transfers

FIRST = 0
PLACES: dict[str, int] = {}


@cache
def rows(stage: int) -> NamedSharding:
    """Return the sharding of arrays of which each device of a stage has a row."""
    kinds, devices = (AxisType.Auto,) * len(MESH), jax.devices()[stage * COUNT :]
    shape, names = tuple(MESH.values()), tuple(MESH)
    mesh = jax.make_mesh(shape, names, kinds, devices=devices[:COUNT])
    return NamedSharding(mesh, PartitionSpec(names))


def on_stage(stage: int) -> Callable[..., Any]:
    """Let the devices of a stage run a function of their parts, on the rows of all."""

    def jitted(function: Callable[..., Any]) -> Callable[..., Any]:
        def local(*operands: Any) -> Any:
            parts = jax.tree.map(lambda x: x[0], operands)
            return jax.tree.map(lambda x: x[None], function(*parts))

        @cache
        def program() -> Any:
            mesh, spec = rows(stage).mesh, rows(stage).spec
            specs = {"in_specs": spec, "out_specs": spec}
            return jax.jit(jax.shard_map(local, mesh=mesh, check_vma=False, **specs))

        def run(*operands: Any) -> Any:
            return program()(*(of_stage(stage, x) for x in operands))

        return run

    return jitted


def of_stage(stage: int, x: Any) -> Any:
    """Return the sources that a stage holds; what is no dictionary as it is."""
    if not isinstance(x, dict):
        return x
    return {name: value for name, value in x.items() if PLACES[name] == stage}


def hand_over(x: jax.Array, held: Dims, needed: Dims, stage: int, apart: int) -> Any:
    """Give each device of a stage its part of what the devices of another one hold."""
    have, want = boxes(held), boxes(needed)
    devices = list(rows(stage).mesh.devices.flat)
    given = by_row(x)
    parts = [jnp.zeros(room(needed), x.dtype, device=device) for device in devices]
    for pieces in shared_transfers(held, needed, apart):
        coming = []
        for target, source, box, part in pieces:
            first, place = ((box - at)[:, 0] for at in (have[source], want[target]))
            form = (tuple(lengths(box)), part.start, part.stop)
            piece = cut(given[source], tuple(map(int, first)), *form)
            piece = jax.device_put(piece, devices[target])
            coming.append((target, piece, tuple(map(int, place)), *form))
        for target, *row in coming:
            parts[target] = put(parts[target], *row)
        given, have = dict(enumerate(parts)), want
    whole = (COUNT, *room(needed))
    return jax.make_array_from_single_device_arrays(
        whole, rows(stage), [part[None] for part in parts]
    )


def by_row(x: jax.Array) -> dict[int, jax.Array]:
    """Return the part of each device."""
    return {shard.index[0].start or 0: shard.data[0] for shard in x.addressable_shards}


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def cut(x: jax.Array, first: Any, shape: Any, start: int, stop: int) -> jax.Array:
    """Return some elements of a box, as a row."""
    box = jax.lax.slice(x, first, [a + n for a, n in zip(first, shape, strict=True)])
    return box.reshape(-1)[start:stop]


@partial(jax.jit, static_argnums=(2, 3, 4, 5), donate_argnums=0)
def put(
    x: jax.Array, row: jax.Array, first: Any, shape: Any, start: int, stop: int
) -> jax.Array:
    """Write elements of a box in their place."""
    at = tuple(slice(a, a + n) for a, n in zip(first, shape, strict=True))
    return x.at[at].set(x[at].reshape(-1).at[start:stop].set(row).reshape(shape))


def part(value: np.ndarray, dims: Dims, dtype: str) -> np.ndarray:
    """Return the parts of an array as rows, filled up with zeros to the largest."""
    raw = value.dtype.kind == "V"
    value = value.view(jnp.bfloat16) if raw else value.astype(jnp.dtype(dtype))
    found = np.zeros((COUNT, *room(dims)), value.dtype)
    for rank, box in enumerate(boxes(dims)):
        found[rank, ...][tuple(map(slice, lengths(box)))] = value[inside(box)]
    return found


def placed(w: dict[str, Any]) -> dict[str, jax.Array]:
    """Put sources on the devices of their stages."""
    return {name: jax.device_put(x, rows(PLACES[name])) for name, x in w.items()}


def main() -> None:
    """Read the files, run the steps, and write the outputs."""
    parser = command_line()
    parser.add_argument("--cpu", action="store_true", help="run on virtual devices")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    if arguments.cpu:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", WORLD)
    count, missing = len(jax.devices()), "--cpu makes virtual ones"
    missing = f"this plan runs on {WORLD} devices, not {count}; {missing}"
    w, faults = load(arguments, *([missing] if count < WORLD else []))
    if faults:
        sys.exit("\n".join(faults))
    save(run_steps(step, placed(w), arguments.steps), arguments.outputs)
