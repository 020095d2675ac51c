"""The main program of a PyTorch module, and the parts of arrays that each rank holds."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    FIRST,
    RANK,
    WORLD,
    Dims,
    boxes,
    inside,
    sizes,
)
from tapestry.teg.exporters.spmd.runtime.script import (
    command_line,
    load,
    run_steps,
    save,
)


def step(w: dict[str, Any]) -> dict[str, Any]:
    """Compute the outputs of one step."""
    return w


def part(
    value: np.ndarray, dims: Dims, dtype: str, is_on_host: bool = False
) -> torch.Tensor:
    """Return this rank's part of an array; bfloat16 comes as raw words."""
    own = np.array(value[inside(boxes(dims)[RANK])], order="C")
    raw, kind = own.dtype.kind == "V", getattr(torch, dtype)
    found = torch.from_numpy(own.view(np.int16) if raw else own)
    place = "cpu" if is_on_host else torch.get_default_device()
    return (found.view(kind) if raw else found).to(place, kind)


def whole(value: torch.Tensor, dims: Dims) -> Any:
    """Put the parts of all ranks together on the first one."""
    have = boxes(dims)
    holders = {box.tobytes(): rank for rank, box in reversed([*enumerate(have)])}
    parts: Any = [None] * COUNT
    own = value.cpu() if RANK in holders.values() else None
    dist.gather_object(own, parts if RANK == 0 else None)
    found = torch.empty(sizes(dims), dtype=value.dtype)
    for rank in holders.values() if RANK == 0 else ():
        found[inside(have[rank])] = parts[rank]
    raw = value.dtype == torch.bfloat16
    return found.view(torch.int16).numpy().view("V2") if raw else found.numpy()


def main() -> None:
    """Read the files, run the steps on all ranks, and write the outputs."""
    parser = command_line()
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    arguments = parser.parse_args()
    world, local = (int(os.environ.get(n, "0")) for n in ("WORLD_SIZE", "LOCAL_RANK"))
    if max(world, 1) != WORLD:
        message = f"this plan runs on {WORLD} processes, not {max(world, 1)}"
        advice = f"{message}: torchrun --nproc-per-node {WORLD}"
        sys.exit(advice if FIRST + RANK == 0 else 1)
    if arguments.backend == "nccl":
        if torch.cuda.device_count() <= local:
            sys.exit(f"rank {local} has no GPU; --backend gloo runs on processors")
        torch.cuda.set_device(local)
        torch.set_default_device("cuda")
    w, faults = load(arguments)
    store = None if world else dist.HashStore()
    place = {"rank": FIRST + RANK, "world_size": WORLD}
    dist.init_process_group(arguments.backend, store=store, **place)
    everywhere: list[Any] = [None] * WORLD
    dist.all_gather_object(everywhere, faults)
    found = dict.fromkeys(fault for each in everywhere for fault in each)
    if not found:
        outputs = run_steps(step, w, arguments.steps)
        if arguments.backend == "nccl":  # what goes to the host has arrived
            torch.cuda.synchronize()
        save(outputs, arguments.outputs)
    dist.destroy_process_group()
    if found:
        sys.exit("\n".join(found) if FIRST + RANK == 0 else 1)
