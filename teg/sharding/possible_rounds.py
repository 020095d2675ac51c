"""The rounds that a program can run in: over which dimensions of its inputs, and how many.

Imported by the checks of placements and by the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import DATA_ROLES, Rounds, RoundsError, can_run_in, most_rounds, time_axis


def possible_rounds(graph: Graph) -> list[Rounds]:
    """Return the rounds in which a program can run, with the most of them for each input and dimension.

    Dimensions that run through the same blocks are returned once, by the first input.
    """
    found: list[Rounds] = []
    known: set[frozenset[tuple[str, int]]] = set()
    for source in graph.sources:
        if source.definition.get("role") not in DATA_ROLES:
            continue
        for dim, size in enumerate(graph.tensors[source.outputs[0]].shape):
            if size < 2:
                continue
            rounds = most_rounds(graph, Rounds(size, source.site, dim))
            if rounds is None:
                continue
            body = frozenset(time_axis(graph, rounds).dims.items())
            if body not in known:
                known.add(body)
                found.append(rounds)
    return found


def batch_dims(graph: Graph) -> Mapping[str, int]:
    """Return the index dimensions, of blocks and inputs by their sites, that run along the batch; empty without one.

    The batch is the dimension of an input that runs through most blocks, of those in slices of which they can run.
    """
    found = [time_axis(graph, rounds).dims for rounds in possible_rounds(graph)]
    return max(found, key=len, default={})


def round_counts(graph: Graph, rounds: Rounds) -> list[int]:
    """Return how many rounds there may be over a dimension: the numbers above one that divide all that is sliced."""
    size = graph.tensors[graph.by_site[rounds.source].outputs[0]].shape[rounds.dim]
    most = most_rounds(graph, replace(rounds, count=size))
    return [] if most is None else [n for n in range(2, most.count + 1) if most.count % n == 0]


def rounds_of(graph: Graph, count: int) -> list[Rounds]:
    """Return all rounds of this number that a program can run in."""
    found = [replace(rounds, count=count) for rounds in possible_rounds(graph) if rounds.count % count == 0]
    return [rounds for rounds in found if can_run_in(graph, rounds)]


def rounds_fault(graph: Graph, count: int) -> str:
    """Return why no plan of a program can run in so many rounds; empty if one can."""
    if count == 1 or rounds_of(graph, count):
        return ""
    known = {rounds: round_counts(graph, rounds) for rounds in possible_rounds(graph)}
    if not known:
        return f"no plan of {graph.name!r} can run in micro-batches: {_first_reason(graph)}"
    possible = "; ".join(
        f"{', '.join(map(str, counts))} over {r.source}[{r.dim}]" for r, counts in known.items()
    )
    return f"no plan of {graph.name!r} can run in {count} micro-batches; possible are {possible}"


def _first_reason(graph: Graph) -> str:
    """Return why a program cannot run in rounds over the first dimension of its first input."""
    for source in graph.sources:
        if source.definition["role"] in DATA_ROLES and graph.tensors[source.outputs[0]].shape:
            try:
                time_axis(graph, Rounds(2, source.site, 0))
            except RoundsError as error:
                return str(error).removeprefix("no rounds: ")
    return "it has no input with a dimension to divide"
