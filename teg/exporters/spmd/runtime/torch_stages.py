"""Copies from stage to stage, and what the first of all ranks gets of the outputs of all stages."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    FIRST,
    MESH,
    RANK,
    STAGE,
    WORLD,
    Dims,
    boxes,
    inside,
    lengths,
    position,
    sizes,
    sub_axes,
)
from tapestry.teg.exporters.spmd.runtime.shared_transfers import (
    shared_transfers,
)
from tapestry.teg.exporters.spmd.runtime.torch_async import (
    AsyncCollective,
    Started,
    Steps,
)
from tapestry.teg.exporters.spmd.runtime.torch_collectives import swap
from tapestry.teg.exporters.spmd.runtime.torch_shared_exchange import (
    exchanged,
    incoming,
    outgoing,
)


@cache
def group(*axes: str) -> tuple[Any, list[int]]:
    """Return this rank's process group along axes, where it is used, and the ranks in it.

    Stages run programs of their own: only the members of a group make it.
    """
    at = position(*(name for name in MESH if name not in sub_axes(*axes)))
    ranks = np.flatnonzero(at == at[RANK]).tolist()
    every = [FIRST + rank for rank in ranks]
    if dist.get_backend() == "gloo":
        return None, ranks
    return dist.new_group(every, use_local_synchronization=True), ranks


def send(x: torch.Tensor, held: Dims, needed: Dims, stage: int, apart: int) -> Started:
    """Begin to send another stage what its ranks need of this rank's part.

    All is posted at once: the other stage, which has another order of what it does,
    receives from each rank in the order of its sends.
    """
    have, far = boxes(held), shared_transfers(held, needed, apart)[0]
    away = (stage - STAGE) * COUNT
    sends = [(run, away + rank) for run, rank in outgoing(x, have, far)]
    return Started(swap(sends, []))


@AsyncCollective
def receive(
    dtype: torch.dtype, held: Dims, needed: Dims, stage: int, apart: int
) -> Steps:
    """Fetch this rank's part from another stage; ranks near each other share it."""
    want = boxes(needed)
    result = torch.empty(lengths(want[RANK]), dtype=dtype)
    far, near = shared_transfers(held, needed, apart)
    away = (stage - STAGE) * COUNT
    places = [(place, away + rank) for place, rank in incoming(result, want, far)]
    yield from swap([], places)
    if near:
        passed = outgoing(result, want, near), incoming(result, want, near)
        yield from exchanged(near, want)(*passed)
    return result


def whole(value: torch.Tensor | None, dims: Dims) -> Any:
    """Put the parts that the ranks of a stage have together on the first rank of all."""
    have, every = boxes(dims), list[Any]([None] * WORLD)
    holders = {box.tobytes(): rank for rank, box in reversed([*enumerate(have)])}
    is_held = value is not None and RANK in holders.values()
    own = value.cpu() if value is not None and is_held else None
    dist.gather_object(own, every if FIRST + RANK == 0 else None)
    parts = {rank % COUNT: x for rank, x in enumerate(every) if x is not None}
    if not parts:
        return None
    found = torch.empty(sizes(dims), dtype=next(iter(parts.values())).dtype)
    for rank, x in parts.items():
        found[inside(have[rank])] = x
    raw = found.dtype == torch.bfloat16
    return found.view(torch.int16).numpy().view("V2") if raw else found.numpy()
