"""A program as a script: files of sources, steps, and the file of outputs.

An exported program states `SOURCES`, `CONSTANTS`, `OUTPUTS` and `CARRIED` in place of the empty ones here, and defines
`step`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from tapestry.teg.exporters.spmd.runtime.torch_mesh import (
    MESH,
    RANK,
    Dims,
    boxes,
    sizes,
    volume,
)

SOURCES: dict[str, Any] = {}
CONSTANTS: dict[str, Any] = {}
OUTPUTS: dict[str, Any] = {}
CARRIED: dict[str, str] = {}


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


class Stored(NamedTuple):
    """A tensor of a file: its element type, its shape, and how it is opened."""

    dtype: str
    shape: tuple[int, ...]
    open: Callable[[], np.ndarray]


def read_array(path: str, name: str) -> np.ndarray:
    """Read an array of an npz file."""
    with np.load(path) as archive:
        return np.asarray(archive[name])


def read_npz(path: str) -> dict[str, Stored]:
    """List the tensors of an npz file; bfloat16 is stored as raw words."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                if version >= (2, 0):
                    read = np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            name = entry.removesuffix(".npy")
            kind = "bfloat16" if dtype.str in ("|V2", "<V2") else dtype.name
            found[name] = Stored(kind, shape, partial(read_array, path, name))
    return found


def read_safetensors(path: str) -> dict[str, Stored]:
    """List the tensors of a safetensors file; only the parts that are read leave the disk."""
    content = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = (
            entry["dtype"]
            .replace("BF", "bfloat")
            .replace("F", "float")
            .replace("U", "uint")
        )
        kind = (
            kind.replace("I", "int").replace("BOOL", "bool").replace("C64", "complex64")
        )
        words = np.dtype({"bfloat16": "V2"}.get(kind, kind))
        start, stop = (8 + length + n for n in entry["data_offsets"])
        array = content[start:stop].view(words).reshape(entry["shape"])
        found[name] = Stored(kind, array.shape, partial(np.asarray, array))
    return found


def tensor(part: np.ndarray) -> torch.Tensor:
    """Convert an array; torch alone knows bfloat16."""
    part = np.array(part, order="C")
    if part.dtype.kind == "V":
        return torch.from_numpy(part.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(part)


def open_files(paths: Sequence[str], faults: list[str]) -> dict[str, Stored]:
    """List the tensors of all files; of one that stands in several, that of the last."""
    found: dict[str, Stored] = {}
    for path in dict.fromkeys(paths):
        reader = read_safetensors if path.endswith(".safetensors") else read_npz
        try:
            found.update(reader(path))
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            faults.append(f"cannot read {path!r}: {error}")
    return found


def check_sources(stored: dict[str, Stored], faults: list[str]) -> None:
    """Compare what the files hold with what the program needs; names that it does not need are a warning."""
    for name, (dtype, spec, *logical) in SOURCES.items():
        shape = logical[0] if logical else sizes(spec)
        given = stored.get(name)
        if given is None:
            faults.append(f"{name!r} is missing: {dtype} of shape {shape}")
        elif (given.dtype, tuple(given.shape)) != (dtype, shape):
            faults.append(
                f"{name!r} is {given.dtype} of shape {given.shape}, not {dtype} of shape {shape}"
            )
    extra = [name for name in stored if name not in SOURCES]
    if extra and RANK == 0:
        print(
            f"warning: the program does not read {', '.join(map(repr, extra))}",
            file=sys.stderr,
        )


def load(stored: dict[str, Stored]) -> dict[str, torch.Tensor]:
    """Read this rank's part of every source, and make that of every constant."""
    found = {}
    for name, (_, spec, *_) in SOURCES.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        part = stored[name].open().reshape(sizes(spec))[at]
        found[name] = tensor(part).to(torch.get_default_device())
    for name, (dtype, spec, *_, values) in CONSTANTS.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        found[name] = torch.tensor(values, dtype=getattr(torch, dtype)).reshape(
            sizes(spec)
        )[at]
    return found


def collect(x: torch.Tensor, spec: Dims) -> torch.Tensor | None:
    """Put the parts of all ranks together on the first one."""
    have = boxes(spec)
    result = x.new_empty(sizes(spec)) if RANK == 0 else None
    for box, rank in {
        box: rank for rank, box in reversed(list(enumerate(have))) if volume(box)
    }.items():
        at = tuple(slice(a, b) for a, b in box)
        if RANK == rank != 0:
            dist.send(x.contiguous(), 0)
        elif result is not None:
            part = x if rank == 0 else x.new_empty([b - a for a, b in box])
            if rank:
                dist.recv(part, rank)
            result[at] = part
    return result


def save(outputs: dict[str, torch.Tensor], path: str) -> None:
    """Write the outputs whole, by name; the file appears when it is complete."""
    unfinished = f"{path}.{os.getpid()}.partial"
    archive = zipfile.ZipFile(unfinished, "w") if RANK == 0 else None
    for name, (spec, *logical) in OUTPUTS.items():
        value = collect(outputs[name], spec)
        if value is not None and archive is not None:
            value = value.reshape(*logical or [value.shape]).cpu()
            raw = value.dtype == torch.bfloat16
            array = value.view(torch.int16).numpy().view("V2") if raw else value.numpy()
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    if archive is not None:
        archive.close()
        Path(unfinished).replace(path)


def run_steps(w: dict[str, torch.Tensor], count: int) -> dict[str, torch.Tensor]:
    """Run steps one after the other; what one carries, the next begins with."""
    outputs = step(w)
    for _ in range(count - 1):
        w.update({source: outputs[sink] for sink, source in CARRIED.items()})
        outputs = step(w)
    return outputs


def main() -> None:
    """Read the files, run the steps on all ranks, and write the outputs."""
    parser = argparse.ArgumentParser(
        description=str(sys.modules["__main__"].__doc__).partition("\n")[0]
    )
    parser.add_argument(
        "--inputs", required=True, help="npz or safetensors file with the inputs"
    )
    parser.add_argument(
        "--weights", help="a file with the rest of the sources; any split is fine"
    )
    parser.add_argument("--outputs", required=True, help="npz file to write")
    parser.add_argument(
        "--steps", type=int, default=1, help="steps to run, with carried state fed back"
    )
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    arguments = parser.parse_args()
    ranks, world = math.prod(MESH.values()), int(os.environ.get("WORLD_SIZE", "1"))
    if world != ranks or arguments.steps < 1:
        sys.exit(
            f"this plan runs at least one step on {ranks} processes, not {world}: "
            f"torchrun --nproc-per-node {ranks}"
        )
    faults: list[str] = []
    stored = open_files([p for p in (arguments.inputs, arguments.weights) if p], faults)
    check_sources(stored, faults)
    if not Path(arguments.outputs).resolve().parent.is_dir():
        faults.append(f"the folder of {arguments.outputs!r} does not exist")
    if arguments.backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        torch.set_default_device("cuda")
    dist.init_process_group(arguments.backend, rank=RANK, world_size=ranks)
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, faults)
    found = list(dict.fromkeys(f for each in everywhere for f in each))
    if not found:
        save(run_steps(load(stored), arguments.steps), arguments.outputs)
    dist.destroy_process_group()
    if found:
        sys.exit("\n".join(found) if RANK == 0 else 1)
