"""A program as a script: files of sources, steps, and the file of outputs.

An exported program defines `step` in place of the one here. It is traced once, inside `shard_map` over a mesh whose
axes are the plan's sub-axes: arrays have the shapes of local parts, and `lax.axis_index` tells devices apart. Outside,
the parts of all devices stand in the rows of one array.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from tapestry.teg.exporters.spmd.runtime.files import (
    CARRIED,
    CONSTANTS,
    OUTPUTS,
    SOURCES,
    Stored,
    check_outputs,
    check_sources,
    load_checked,
    open_files,
)
from tapestry.teg.exporters.spmd.runtime.jax_arrays import (
    data_of,
    largest,
    shapes_of,
    with_shapes,
)
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    Dims,
    boxes,
    sizes,
    volume,
)


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


def make_mesh() -> Mesh:
    """Return the plan's sub-axes as a mesh of the first devices."""
    shape = tuple(MESH.values())
    devices = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
    return Mesh(devices, tuple(MESH), axis_types=(AxisType.Auto,) * len(MESH))


def program(mesh: Mesh) -> Any:
    """Return the jitted step: from sources to outputs, with the parts of all devices as rows."""

    def local(w: dict[str, jax.Array]) -> dict[str, jax.Array]:
        parts = {name: boxes(spec) for name, (_, spec, *_) in sources.items()}
        given = {k: with_shapes(rows[0], shapes_of(parts[k])) for k, rows in w.items()}
        return {name: data_of(part)[None] for name, part in step(given).items()}

    sources = {**SOURCES, **CONSTANTS}
    rows = PartitionSpec(tuple(MESH))
    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False
    )
    return jax.jit(mapped)


def lower(mesh: Mesh, path: str) -> None:
    """Write the step as StableHLO, with the names of its sources."""

    def rows(dtype: str, spec: Dims, *_: Any) -> jax.ShapeDtypeStruct:
        have = boxes(spec)
        shape = (len(have), *largest(shapes_of(have)))
        return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))

    sources = {k: rows(*own) for k, own in {**SOURCES, **CONSTANTS}.items()}
    text = program(mesh).lower(sources).as_text(debug_info=True)
    unfinished = f"{path}.{os.getpid()}.partial"
    Path(unfinished).write_text(text)
    Path(unfinished).replace(path)


def load(stored: dict[str, Stored], mesh: Mesh) -> dict[str, jax.Array]:
    """Read every source and make every constant: the parts of all devices as rows."""
    found = {}
    for name, (_, spec, *_) in SOURCES.items():
        found[name] = rows_of(stored[name].open().reshape(sizes(spec)), spec, mesh)
    for name, (dtype, spec, *_, values) in CONSTANTS.items():
        whole_value = np.array(values, dtype=jnp.dtype(dtype)).reshape(sizes(spec))
        found[name] = rows_of(whole_value, spec, mesh)
    return found


def rows_of(value: np.ndarray, spec: Dims, mesh: Mesh) -> jax.Array:
    """Put each device's part of a tensor on it, filled up with zeros to the largest one."""
    have = boxes(spec)
    room = largest(shapes_of(have))

    def part(index: tuple[slice, ...]) -> np.ndarray:
        at = tuple(slice(a, b) for a, b in have[index[0].start or 0])
        found = np.zeros((1, *room), value.dtype)
        own = tuple(slice(b - a) for a, b in have[index[0].start or 0])
        found[0, ...][own] = value[at]
        return found.view(jnp.bfloat16) if found.dtype.kind == "V" else found

    sharding = NamedSharding(mesh, PartitionSpec(tuple(MESH)))
    return jax.make_array_from_callback((len(have), *room), sharding, part)


def collect(rows: jax.Array, spec: Dims) -> np.ndarray:
    """Put the parts of all devices together."""
    parts = {s.index[0].start or 0: s.data for s in rows.addressable_shards}
    result = np.empty(sizes(spec), rows.dtype)
    for box, rank in {box: rank for rank, box in enumerate(boxes(spec))}.items():
        if volume(box):
            own = tuple(slice(b - a) for a, b in box)
            at = tuple(slice(a, b) for a, b in box)
            result[at] = np.asarray(parts[rank])[0][own]
    return result


def save(outputs: dict[str, jax.Array], path: str) -> None:
    """Write the outputs whole, by name; the file appears when it is complete."""
    unfinished = Path(f"{path}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name, (spec, *logical) in OUTPUTS.items():
                value = collect(outputs[name], spec)
                value = value.reshape(*logical or [value.shape])
                array = value.view("V2") if value.dtype == jnp.bfloat16 else value
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def run_steps(w: dict[str, jax.Array], count: int, mesh: Mesh) -> dict[str, jax.Array]:
    """Run steps one after the other; what one carries, the next begins with."""
    run = program(mesh)
    outputs: dict[str, jax.Array] = run(w)
    for _ in range(count - 1):
        w.update({source: outputs[sink] for sink, source in CARRIED.items()})
        outputs = run(w)
    return outputs


def main() -> None:
    """Read the files, run the steps on all devices, and write the outputs; or write the step as StableHLO."""
    given = options()
    count = math.prod(MESH.values())
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    if given.cpu:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", count)
    faults: list[str] = []
    if len(jax.devices()) < count:
        faults.append(
            f"this plan runs on {count} devices, not {len(jax.devices())}; --cpu makes virtual ones"
        )
    stored: dict[str, Stored] = {}
    if given.lower is None:
        if given.steps < 1:
            faults.append("--steps is the number of steps to run: at least one")
        stored = open_files([p for p in (given.inputs, given.weights) if p], faults)
        check_sources(stored, faults)
    check_outputs(given.lower or given.outputs, faults)
    sources: dict[str, jax.Array] = {}
    if given.lower is None:
        sources = load_checked(lambda: load(stored, make_mesh()), faults)
    if faults:
        sys.exit("\n".join(faults))
    mesh = make_mesh()
    if given.lower is not None:
        lower(mesh, given.lower)
        return
    save(run_steps(sources, given.steps, mesh), given.outputs)


def options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(
        description=str(sys.modules["__main__"].__doc__).partition("\n")[0]
    )
    parser.add_argument("--inputs", help="npz or safetensors file with the inputs")
    parser.add_argument(
        "--weights", help="a file with the rest of the sources; any split is fine"
    )
    parser.add_argument("--outputs", help="npz file to write")
    parser.add_argument(
        "--steps", type=int, default=1, help="steps to run, with carried state fed back"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="run on virtual devices of the CPU"
    )
    parser.add_argument(
        "--lower", metavar="FILE", help="write the step as StableHLO; run nothing"
    )
    given = parser.parse_args()
    if given.lower is None and None in (given.inputs, given.outputs):
        parser.error("--inputs and --outputs are required, or --lower")
    return given
