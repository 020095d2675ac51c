"""The main program of a JAX module, and arrays of which the rows are the parts of all devices.

The step is traced once, inside `shard_map` over a mesh whose axes are the plan's sub-axes: arrays have the shapes of
local parts, and `axis_index` tells devices apart.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from tapestry.teg.exporters.spmd.runtime.jax_arrays import room
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    MESH,
    Dims,
    boxes,
    inside,
    lengths,
    sizes,
)
from tapestry.teg.exporters.spmd.runtime.script import (
    CONSTANTS,
    SOURCES,
    command_line,
    load,
    run_steps,
    save,
)

RANK = 0


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


def rows() -> NamedSharding:
    """Return the sharding of arrays of which each device of the plan has a row."""
    kinds, devices = (AxisType.Auto,) * len(MESH), jax.devices()[:COUNT]
    mesh = jax.make_mesh(tuple(MESH.values()), tuple(MESH), kinds, devices=devices)
    return NamedSharding(mesh, PartitionSpec(tuple(MESH)))


def program() -> Any:
    """Return the jitted step on the rows of all devices."""

    def local(w: dict[str, jax.Array]) -> Any:
        return jax.tree.map(lambda x: x[None], step(jax.tree.map(lambda x: x[0], w)))

    mesh, spec = rows().mesh, rows().spec
    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    return jax.jit(mapped)


def part(value: np.ndarray, dims: Dims, dtype: str) -> jax.Array:
    """Put each device's part of an array on it, filled up with zeros to the largest."""
    raw = value.dtype.kind == "V"
    value = value.view(jnp.bfloat16) if raw else value.astype(jnp.dtype(dtype))

    def row(index: tuple[slice, ...]) -> np.ndarray:
        own = value[inside(boxes(dims)[index[0].start or 0])]
        found = np.zeros((1, *room(dims)), value.dtype)
        found[0, ...][tuple(map(slice, own.shape))] = own
        return found

    return jax.make_array_from_callback((COUNT, *room(dims)), rows(), row)


def whole(value: jax.Array, dims: Dims) -> np.ndarray:
    """Put the parts of all devices together."""
    found = np.empty(sizes(dims), value.dtype)
    for shard in value.addressable_shards:
        box = boxes(dims)[shard.index[0].start or 0]
        own = np.asarray(shard.data)[0]
        found[inside(box)] = own[tuple(map(slice, lengths(box)))]
    return found.view("V2") if found.dtype == jnp.bfloat16 else found


def lower(path: str) -> None:
    """Write the step as StableHLO, with the names of its sources."""
    sources = {
        name: jax.ShapeDtypeStruct((COUNT, *room(dims)), jnp.dtype(dtype))
        for name, (dtype, dims, *_) in {**SOURCES, **CONSTANTS}.items()
    }
    unfinished = Path(f"{path}.{os.getpid()}.partial")
    unfinished.write_text(program().lower(sources).as_text(debug_info=True))
    unfinished.replace(path)


def main() -> None:
    """Read the files, run the steps, and write the outputs; or write the step."""
    parser = command_line(required="--lower" not in "".join(sys.argv))
    parser.add_argument("--cpu", action="store_true", help="run on virtual devices")
    parser.add_argument("--lower", help="file to write the step to as StableHLO")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    if arguments.cpu:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", COUNT)
    count, missing = len(jax.devices()), "--cpu makes virtual ones"
    missing = f"this plan runs on {COUNT} devices, not {count}; {missing}"
    faults = [missing] if count < COUNT else []
    if arguments.lower:
        if not os.access(Path(arguments.lower).resolve().parent, os.W_OK):
            faults.append(f"cannot write {arguments.lower!r}: it has no folder")
        if not faults:
            lower(arguments.lower)
        sys.exit("\n".join(faults) or None)
    w, faults = load(arguments, *faults)
    if faults:
        sys.exit("\n".join(faults))
    save(run_steps(program(), w, arguments.steps), arguments.outputs)
