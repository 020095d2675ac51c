"""Even collectives, and reductions of parts of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, reduce
from typing import Any

import torch
import torch.distributed as dist
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    RANK,
    Dims,
    boxes,
    coordinates,
)
from tapestry.teg.exporters.spmd.runtime.transfers import reduced_places


@cache
def group(*axes: str) -> tuple[Any, list[int]]:
    """Return this rank's process group along sub-axes, and the ranks in it."""
    teams: dict[tuple[int, ...], list[int]] = {}
    for rank in range(math.prod(MESH.values())):
        rest = tuple(c for name, c in coordinates(rank).items() if name not in axes)
        teams.setdefault(rest, []).append(rank)
    made = [(dist.new_group(ranks), ranks) for ranks in teams.values()]
    return next(team for team in made if RANK in team[1])


COMBINE = {
    "sum": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "any": torch.logical_or,
    "all": torch.logical_and,
    "logsumexp": torch.logaddexp,
}
NATIVE = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN"}


def native(op: str, x: torch.Tensor) -> Any:
    """Return the library's operation for a monoid, if it is to be used.

    Gloo adds up in another order on every rank, so there the terms are sent, and combined in the order of the ranks.
    """
    if dist.get_backend() == "nccl" and op in NATIVE and x.dtype != torch.bool:
        return getattr(dist.ReduceOp, NATIVE[op])
    return None


def all_gather(x: torch.Tensor, dim: int, *axes: str) -> torch.Tensor:
    """Join the parts of all members along a dimension."""
    team, ranks = group(*axes)
    parts = x.new_empty((len(ranks) * len(x), *x.shape[1:]))
    dist.all_gather_into_tensor(parts, x.contiguous(), group=team)
    return torch.cat(parts.chunk(len(ranks)), dim) if dim else parts


def all_to_all(x: torch.Tensor, cut: int, joined: int, *axes: str) -> torch.Tensor:
    """Cut one dimension into a part for each member, and join the members' parts along another."""
    team, ranks = group(*axes)
    parts = torch.stack(x.chunk(len(ranks), cut))
    received = torch.empty_like(parts)
    dist.all_to_all_single(received, parts, group=team)
    return torch.cat(received.unbind(), joined)


def send_rows(
    rows: Sequence[torch.Tensor], counts: Sequence[int], team: Any = None
) -> list[torch.Tensor]:
    """Send each member its row of elements, and return the rows that come, of the sizes given."""
    given = torch.cat([row.reshape(-1) for row in rows])
    received = given.new_empty(sum(counts))
    dist.all_to_all_single(
        received, given, list(counts), [row.numel() for row in rows], group=team
    )
    return list(received.split(list(counts)))


def reduce_scatter(
    x: torch.Tensor, dim: int, *axes: str, op: str = "sum"
) -> torch.Tensor:
    """Combine the members' terms; each member keeps its part along a dimension."""
    team, ranks = group(*axes)
    parts = torch.stack(x.chunk(len(ranks), dim))
    operation = native(op, x)
    if operation is not None:
        result = torch.empty_like(parts[0])
        dist.reduce_scatter_tensor(result, parts, operation, group=team)
        return result
    terms = torch.empty_like(parts)
    dist.all_to_all_single(terms, parts, group=team)
    return reduce(COMBINE[op], terms.unbind())


def all_reduce(x: torch.Tensor, *steps: Sequence[str], op: str = "sum") -> torch.Tensor:
    """Combine the members' terms, on all of them: each combines a slice, then the slices are gathered."""
    operation = native(op, x)
    if operation is not None:
        result = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(
            result, operation, group=group(*(a for axes in steps for a in axes))[0]
        )
        return result
    row, spans = x.reshape(-1), []
    for axes in steps:
        team, ranks = group(*axes)
        size = -(-len(row) // len(ranks))
        slices = [row[k * size : (k + 1) * size] for k in range(len(ranks))]
        spans.append([len(s) for s in slices])
        own = slices[ranks.index(RANK)]
        row = reduce(COMBINE[op], send_rows(slices, [len(own)] * len(ranks), team))
    for axes, lengths in zip(reversed(steps), reversed(spans), strict=True):
        team, ranks = group(*axes)
        row = torch.cat(send_rows([row] * len(ranks), lengths, team))
    return row.reshape(x.shape)


def reduce_scatter_parts(
    x: torch.Tensor, held: Dims, wanted: Dims, *steps: Sequence[str], op: str = "sum"
) -> torch.Tensor:
    """Combine the members' terms axis by axis; parts may be of any size, and some of them empty."""
    before = [[range(a, b) for a, b in box] for box in boxes(held)]
    for done, axes in enumerate(steps, start=1):
        later = [a for names in steps[done:] for a in names]
        after = [reduced_places(wanted, rank, later) for rank in range(len(before))]
        team, ranks = group(*axes)
        rows = [pick(x, before[RANK], after[rank]) for rank in ranks]
        shape = [len(places) for places in after[RANK]]
        terms = send_rows(rows, [math.prod(shape)] * len(ranks), team)
        x = reduce(COMBINE[op], terms).reshape(shape)
        before = after
    return x


def pick(x: torch.Tensor, held: list[Any], wanted: list[Any]) -> torch.Tensor:
    """Return the elements at the product of coordinates `wanted` of a tensor that has those of `held`."""
    for dim, (mine, places) in enumerate(zip(held, wanted, strict=True)):
        where = {place: k for k, place in enumerate(mine)}
        index = torch.tensor(
            [where[place] for place in places], dtype=torch.int64, device=x.device
        )
        x = x.index_select(dim, index)
    return x
