"""A program as a script: files of sources, steps, and the file of outputs.

An exported program states `SOURCES`, `CONSTANTS`, `OUTPUTS` and `CARRIED` in place of the empty ones here, and defines
`step`.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
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
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    RANK,
    Dims,
    boxes,
    sizes,
    volume,
)


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


def tensor(part: np.ndarray) -> torch.Tensor:
    """Convert an array; torch alone knows bfloat16."""
    part = np.array(part, order="C")
    if part.dtype.kind == "V":
        return torch.from_numpy(part.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(part)


def load(stored: dict[str, Stored]) -> dict[str, torch.Tensor]:
    """Read this rank's part of every source, and make that of every constant."""
    found = {}
    for name, (_, spec, *_) in SOURCES.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        part = stored[name].open().reshape(sizes(spec))[at]
        found[name] = tensor(part).to(torch.get_default_device())
    for name, (dtype, spec, *_, values) in CONSTANTS.items():
        at = tuple(slice(a, b) for a, b in boxes(spec)[RANK])
        found[name] = (
            torch.tensor(values, dtype=getattr(torch, dtype))
            .reshape(sizes(spec))[at]
            .clone()
        )
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
    unfinished = Path(f"{path}.{os.getpid()}.partial")
    archive = zipfile.ZipFile(unfinished, "w") if RANK == 0 else None
    try:
        for name, (spec, *logical) in OUTPUTS.items():
            value = collect(outputs[name], spec)
            if value is not None and archive is not None:
                value = value.reshape(*logical or [value.shape]).cpu()
                raw = value.dtype == torch.bfloat16
                array = (value.view(torch.int16) if raw else value).numpy()
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    words = array.view("V2") if raw else array
                    np.lib.format.write_array(entry, words, allow_pickle=False)
        if archive is not None:
            archive.close()
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def run_steps(w: dict[str, torch.Tensor], count: int) -> dict[str, torch.Tensor]:
    """Run steps one after the other; what one carries, the next begins with.

    A step takes its inputs and the state that it carries out of `w`, so that they are freed after their last reader.
    """
    for _ in range(count - 1):
        kept = {name: x for name, x in w.items() if name not in CARRIED.values()}
        outputs = step(w)
        w = kept | {source: outputs[sink] for sink, source in CARRIED.items()}
        del kept, outputs
    return step(w)


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
    if world != ranks:
        advice = f"torchrun --nproc-per-node {ranks}"
        message = f"this plan runs on {ranks} processes, not {world}: {advice}"
        sys.exit(message if RANK == 0 else 1)
    faults: list[str] = []
    if arguments.steps < 1:
        faults.append("--steps is the number of steps to run: at least one")
    stored = open_files([p for p in (arguments.inputs, arguments.weights) if p], faults)
    check_sources(stored, faults)
    check_outputs(arguments.outputs, faults)
    if arguments.backend == "nccl":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if torch.cuda.device_count() <= local:
            sys.exit(f"rank {RANK} has no GPU; --backend gloo runs on processors")
        torch.cuda.set_device(local)
        torch.set_default_device("cuda")
    sources = load_checked(lambda: load(stored), faults)
    dist.init_process_group(arguments.backend, rank=RANK, world_size=ranks)
    everywhere: list[Any] = [None] * ranks
    dist.all_gather_object(everywhere, faults)
    found = list(dict.fromkeys(f for each in everywhere for f in each))
    if not found:
        save(run_steps(sources, arguments.steps), arguments.outputs)
    dist.destroy_process_group()
    if found:
        sys.exit("\n".join(found) if RANK == 0 else 1)
