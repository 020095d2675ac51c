"""Collectives, made in steps: what is on its way can be waited for later."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import cache, partial
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

# Yields what to wait for before the next step.
Steps = Generator[list[Any], None, Any]


class Started:
    """A copy that is under way."""

    def __init__(self, steps: Steps) -> None:
        self.steps, self.works = steps, next(steps)

    def wait(self) -> torch.Tensor:
        """Return what the copy brings, when it is there."""
        while True:
            while self.works:
                self.works.pop().wait()
            try:
                self.works = next(self.steps)
            except StopIteration as end:
                result: torch.Tensor = end.value
                return result


class AsyncCollective:
    """A function of the steps of a copy: called, it waits for them all; `start` waits for none."""

    def __init__(self, steps: Callable[..., Steps]) -> None:
        self.steps = steps

    def __call__(self, *arguments: Any, **options: Any) -> torch.Tensor:
        return self.start(*arguments, **options).wait()

    def start(self, *arguments: Any, **options: Any) -> Started:
        """Issue the first step."""
        return Started(self.steps(*arguments, **options))


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

    Gloo adds up in another order on every rank. Without it one rank combines, and all others get what it found.
    """
    if dist.get_backend() == "nccl" and op in NATIVE and x.dtype != torch.bool:
        return getattr(dist.ReduceOp, NATIVE[op])
    return None


def words(x: torch.Tensor) -> torch.Tensor:
    """Return the elements as they travel: NCCL refuses int16, so its bytes do."""
    return x.unsqueeze(-1).view(torch.uint8) if x.dtype == torch.int16 else x


Ends = Sequence[tuple[torch.Tensor, int]]


def swap(sends: Ends, receives: Ends, turns: int = 1) -> Steps:
    """Send tensors to ranks, and fill places with what comes from ranks, in turns that all ranks keep to.

    With as many turns as ranks, what is sent is packed for one rank at a time.
    """
    sends = [(x, rank) for x, rank in sends if rank != RANK and x.numel()]
    receives = [(x, rank) for x, rank in receives if rank != RANK and x.numel()]
    for turn in range(turns):
        yield from deliver(
            [(x, rank) for x, rank in sends if (rank - RANK - 1) % turns == turn],
            [(x, rank) for x, rank in receives if (RANK - rank - 1) % turns == turn],
        )


def deliver(sends: Ends, receives: Ends) -> Steps:
    """Send and receive; a place that is no run of memory is filled from a row."""
    rows = [x if x.is_contiguous() else x.new_empty(x.shape) for x, _ in receives]
    yield posted(
        [
            dist.P2POp(dist.irecv, words(row), rank)
            for row, (_, rank) in zip(rows, receives, strict=True)
        ]
        + [dist.P2POp(dist.isend, words(x.contiguous()), rank) for x, rank in sends]
    )
    for row, (place, _) in zip(rows, receives, strict=True):
        if row is not place:
            place.copy_(row)


def posted(operations: list[Any]) -> list[Any]:
    """Issue sends and receives."""
    return dist.batch_isend_irecv(operations) if operations else []


def trade(
    given: Sequence[torch.Tensor],
    places: Sequence[torch.Tensor],
    ranks: list[int],
    turns: int = 1,
) -> Steps:
    """Give each member a piece, and fill its place with the one that comes from it."""
    me = ranks.index(RANK)
    places[me].copy_(given[me])
    sends, receives = (list(zip(x, ranks, strict=True)) for x in (given, places))
    yield from swap(sends, receives, turns)


def combine(
    result: torch.Tensor,
    piece: Callable[[int], torch.Tensor],
    ranks: list[int],
    op: str,
) -> Steps:
    """Combine the members' terms of this rank's piece, one incoming term at a time."""
    me, own = ranks.index(RANK), piece(RANK)
    term = torch.empty_like(result)
    for away in range(1, len(ranks)):
        to, source = ranks[(me + away) % len(ranks)], ranks[me - away]
        yield from swap([(piece(to), to)], [(term, source)])
        own = COMBINE[op](own, term, out=result)


@AsyncCollective
def all_gather(x: torch.Tensor, dim: int, *axes: str) -> Steps:
    """Join the parts of all members along a dimension."""
    team, ranks = group(*axes)
    x = x.contiguous()
    shape = [*x.shape[:dim], x.shape[dim] * len(ranks), *x.shape[dim + 1 :]]
    result = x.new_empty(shape)
    if dist.get_backend() == "nccl" and math.prod(shape[:dim]) == 1:
        row = (words(result.view(-1)), words(x.view(-1)))
        yield [dist.all_gather_into_tensor(*row, group=team, async_op=True)]
    else:
        yield from trade([x] * len(ranks), result.chunk(len(ranks), dim), ranks)
    return result


@AsyncCollective
def all_to_all(x: torch.Tensor, cut: int, joined: int, *axes: str) -> Steps:
    """Cut one dimension into a part for each member, and join the members' parts along another."""
    ranks = group(*axes)[1]
    given = x.chunk(len(ranks), cut)
    shape = list(given[0].shape)
    shape[joined] *= len(ranks)
    result = x.new_empty(shape)
    turns = 1 if math.prod(x.shape[:cut]) == 1 else math.prod(MESH.values())
    yield from trade(given, result.chunk(len(ranks), joined), ranks, turns)
    return result


@AsyncCollective
def reduce_scatter(x: torch.Tensor, dim: int, *axes: str, op: str = "sum") -> Steps:
    """Combine the members' terms; each member keeps its part along a dimension."""
    team, ranks = group(*axes)
    parts = dict(zip(ranks, x.chunk(len(ranks), dim), strict=True))
    result = x.new_empty(parts[RANK].shape)
    operation = native(op, x)
    if operation is not None and parts[RANK].is_contiguous():
        row = (result.view(-1), x.contiguous().view(-1), operation)
        yield [dist.reduce_scatter_tensor(*row, group=team, async_op=True)]
    else:
        yield from combine(result, parts.__getitem__, ranks, op)
    return result


@AsyncCollective
def all_reduce(x: torch.Tensor, *steps: Sequence[str], op: str = "sum") -> Steps:
    """Combine the members' terms, on all of them: each combines a slice, then the slices are gathered."""
    result = x.clone(memory_format=torch.contiguous_format)
    operation = native(op, x)
    if operation is not None:
        team = group(*(a for axes in steps for a in axes))[0]
        yield [dist.all_reduce(result, operation, group=team, async_op=True)]
        return result
    row, found = result.view(-1), []
    for axes in steps:
        ranks = group(*axes)[1]
        places = dict(zip(ranks, slices(row, len(ranks)), strict=True))
        found.append(places)
        row = places[RANK]
        yield from combine(row, places.__getitem__, ranks, op)
    for places in reversed(found):
        own = [places[RANK]] * len(places)
        yield from trade(own, list(places.values()), list(places))
    return result


def slices(row: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Cut a row; the last slices may be shorter or empty."""
    size = -(-len(row) // count)
    return [row[k * size : (k + 1) * size] for k in range(count)]


@AsyncCollective
def reduce_scatter_parts(
    x: torch.Tensor, held: Dims, wanted: Dims, *steps: Sequence[str], op: str = "sum"
) -> Steps:
    """Combine the members' terms axis by axis; parts may be of any size, and some of them empty."""
    before = [[range(a, b) for a, b in box] for box in boxes(held)]
    for done, axes in enumerate(steps, start=1):
        later = [a for names in steps[done:] for a in names]
        after = [reduced_places(wanted, rank, later) for rank in range(len(before))]
        result = x.new_empty([len(places) for places in after[RANK]])
        piece = partial(pick, x, before[RANK], after)
        yield from combine(result, piece, group(*axes)[1], op)
        x, before = result, after
    return x


def pick(
    x: torch.Tensor, held: list[Any], wanted: list[list[Any]], rank: int
) -> torch.Tensor:
    """Return the elements at the coordinates that a rank wants of a tensor that has those of `held`."""
    for dim, (mine, places) in enumerate(zip(held, wanted[rank], strict=True)):
        where = {place: k for k, place in enumerate(mine)}
        index = [where[place] for place in places]
        start = index[0] if index else 0
        if index == list(range(start, start + len(index))):
            x = x.narrow(dim, start, len(index))
        else:
            x = x.index_select(dim, torch.tensor(index, device=x.device))
    return x
