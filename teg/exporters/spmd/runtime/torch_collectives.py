"""Collectives that put what comes from other ranks in its place, and combine one term at a time.

They are made in steps. A program that waits for each copy where it issues it gets them without `yield`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    FIRST,
    MESH,
    RANK,
    Dims,
    boxes,
    position,
    sub_axes,
)
from tapestry.teg.exporters.spmd.runtime.torch_async import AsyncCollective, Steps
from tapestry.teg.exporters.spmd.runtime.transfers import reduced_places
from torch import Tensor


@cache
def group(*axes: str) -> tuple[Any, list[int]]:
    """Return this rank's process group along axes, and the ranks in it."""
    at = position(*(name for name in MESH if name not in sub_axes(*axes)))
    teams = [np.flatnonzero(at == k).tolist() for k in range(at.max() + 1)]
    made = [dist.new_group(ranks) for ranks in teams]
    return made[at[RANK]], teams[at[RANK]]


def native(op: Any, x: Tensor) -> Any:
    """Return NCCL's own operation; gloo's sums differ in their order by rank."""
    names = {"add": "SUM", "mul": "PRODUCT", "maximum": "MAX", "minimum": "MIN"}
    fits = dist.get_backend() == "nccl" and x.dtype not in (torch.bool, torch.int16)
    return getattr(dist.ReduceOp, names.get(op.__name__, ""), None) if fits else None


def packed(x: Tensor) -> Tensor:
    """Return the bytes of a tensor in a row; one element alone may have any stride."""
    row = x.reshape(-1) if x.numel() > 1 else x.reshape(()).unsqueeze(0)
    return row.contiguous().view(torch.uint8)


def swap(sends: list[Any], receives: list[Any]) -> Steps:
    """Send bytes and receive; a place that is no run of memory is filled from a row."""
    own, works, rows = [x for x, rank in sends if rank == RANK], list[Any](), []
    for x, rank in sends:
        if rank != RANK and x.numel():
            works.append(dist.P2POp(dist.isend, packed(x), FIRST + rank))
    for place, rank in receives:
        if rank == RANK:
            place.copy_(own.pop(0))
        elif place.numel():
            row = place if place.is_contiguous() else place.new_empty(place.shape)
            works.append(dist.P2POp(dist.irecv, packed(row), FIRST + rank))
            rows.append((place, row))
    works = dist.batch_isend_irecv(works) if works else []
    yield works
    for place, row in rows:
        place.copy_(row)


def swap_in_turns(sends: list[Any], receives: list[Any]) -> Steps:
    """Swap in turns that all keep to: what is sent is packed for one rank at a time."""
    for turn in range(COUNT):
        yield from swap(
            [(x, rank) for x, rank in sends if (rank - RANK - 1) % COUNT == turn],
            [(x, rank) for x, rank in receives if (RANK - rank - 1) % COUNT == turn],
        )


def combine(result: Tensor, piece: Any, ranks: list[int], op: Any) -> Steps:
    """Combine the members' terms of this rank's piece, one incoming term at a time."""
    me, own = ranks.index(RANK), piece(RANK)
    term = torch.empty_like(result)
    for away in range(1, len(ranks)):
        to, source = ranks[(me + away) % len(ranks)], ranks[me - away]
        yield from swap([(piece(to), to)], [(term, source)])
        own = op(own, term, out=result)


@AsyncCollective
def all_gather(x: Tensor, dim: int, *axes: str) -> Steps:
    """Join the parts of all members along a dimension."""
    team, ranks = group(*axes)
    shape = [n * len(ranks) ** (k == dim) for k, n in enumerate(x.shape)]
    x, result = x.contiguous(), x.new_empty(shape)
    receives = [*zip(result.chunk(len(ranks), dim), ranks, strict=True)]
    if dist.get_backend() == "nccl" and receives[0][0].is_contiguous():
        rows = packed(result), packed(x)
        yield [dist.all_gather_into_tensor(*rows, group=team, async_op=True)]
    else:
        yield from swap([(x, rank) for rank in ranks], receives)
    return result


@AsyncCollective
def all_to_all(x: Tensor, cut: int, joined: int, *axes: str) -> Steps:
    """Cut a dimension into a part for each member; join what comes along another."""
    ranks = group(*axes)[1]
    given = x.chunk(len(ranks), cut)
    shape = [*given[0].shape]
    shape[joined] *= len(ranks)
    result = x.new_empty(shape)
    sends = [*zip(given, ranks, strict=True)]
    receives = [*zip(result.chunk(len(ranks), joined), ranks, strict=True)]
    exchanged = swap if given[0].is_contiguous() else swap_in_turns
    yield from exchanged(sends, receives)
    return result


@AsyncCollective
def reduce_scatter(x: Tensor, dim: int, *axes: str, op: Any = torch.add) -> Steps:
    """Combine the members' terms; each member keeps its part along a dimension."""
    team, ranks = group(*axes)
    parts = dict(zip(ranks, x.chunk(len(ranks), dim), strict=True))
    result = x.new_empty(parts[RANK].shape)
    if native(op, x) and parts[RANK].is_contiguous():
        row = (result.view(-1), x.contiguous().view(-1), native(op, x))
        yield [dist.reduce_scatter_tensor(*row, group=team, async_op=True)]
    else:
        yield from combine(result, parts.__getitem__, ranks, op)
    return result


@AsyncCollective
def all_reduce(x: Tensor, *steps: Sequence[str], op: Any = torch.add) -> Steps:
    """Combine the members' terms on all of them: each combines a slice of them."""
    result = x.clone(memory_format=torch.contiguous_format)
    if native(op, x):
        team = group(*(axis for axes in steps for axis in axes))[0]
        yield [dist.all_reduce(result, native(op, x), group=team, async_op=True)]
        return result
    row, found = result.view(-1), []
    for axes in steps:
        ranks = group(*axes)[1]
        size = -(-len(row) // len(ranks))
        places = {r: row[k * size : (k + 1) * size] for k, r in enumerate(ranks)}
        found.append(places)
        row = places[RANK]
        yield from combine(row, places.__getitem__, ranks, op)
    for places in reversed(found):
        sends = [(places[RANK], rank) for rank in places]
        yield from swap(sends, [(place, rank) for rank, place in places.items()])
    return result


@AsyncCollective
def reduce_scatter_parts(
    x: Tensor,
    held: Dims,
    wanted: Dims,
    *steps: Sequence[str],
    op: Any = torch.add,
) -> Steps:
    """Combine the members' terms axis by axis; parts may be of any size, or empty."""
    before: Any = [[range(a, b) for a, b in box] for box in boxes(held).tolist()]
    for done, axes in enumerate(steps, start=1):
        after = reduced_places(wanted, [a for names in steps[done:] for a in names])
        result = x.new_empty([len(places) for places in after[RANK]])
        piece = partial(pick, x, before[RANK], after)
        yield from combine(result, piece, group(*axes)[1], op)
        x, before = result, after
    return x


def pick(x: Tensor, held: Sequence[Any], wanted: Any, rank: int) -> Tensor:
    """Return the elements at the places a rank wants of a tensor that has `held`."""
    for dim, places in enumerate(wanted[rank]):
        index = np.searchsorted(held[dim], places)
        start, count = index[0] if len(index) else 0, len(index)
        if (index == np.arange(start, start + count)).all():
            x = x.narrow(dim, int(start), count)
        else:
            x = x.index_select(dim, torch.from_numpy(index).to(x.device))
    return x
