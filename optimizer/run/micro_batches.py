"""Micro-batches in a search: in how many rounds plans may run, and what the search begins with for each number.

Between `variants` and `starts`. Every number of rounds has an entry of its own among the submeshes. Those that are
searched beside plans without rounds are begun one after the other, for as long as the last one holds part of the front.
"""

from __future__ import annotations

from dataclasses import replace

from tapestry.costmodel.unsharded import live_bytes
from tapestry.optimizer.run.descendants import descendant
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Child, Variant
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.possible_rounds import possible_rounds, round_counts, rounds_of
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.stopping import CheckStop

MOST_COUNTS = 6
PERIOD = 8  # of the turns of structural moves, those in which the number of rounds is changed


def rounds_to_search(graph: Graph, options: RunOptions) -> list[Rounds | None]:
    """Return the rounds that the plans of a search may run in, None for none, by their number.

    A number that the options fix is that of all plans. Else numbers about double, over the dimension by which least
    memory lives on one device, as long as that is less than without rounds, or the options fix stages, which need them.
    Each has rows for all parts of the batch that the options fix.
    """
    if options.micro_batches is not None:
        return [None] if options.micro_batches == 1 else list(rounds_of(graph, options.micro_batches))
    known = [(rounds, round_counts(graph, rounds)) for rounds in possible_rounds(graph)]
    by_bytes = {
        max(live_bytes(graph, rounds=replace(rounds, count=counts[0]))): (rounds, counts)
        for rounds, counts in known
    }
    least = min(by_bytes, default=None)
    is_needed = (options.stages or 1) > 1
    if least is None or (least >= max(live_bytes(graph)) and not is_needed):
        return [None]
    rounds, counts = by_bytes[least]
    rows = graph.tensors[graph.by_site[rounds.source].outputs[0]].shape[rounds.dim]
    found: list[int] = []
    for count in counts:
        if rows // count < (options.data_parallel or 1):
            break
        if len(found) < MOST_COUNTS and (not found or count >= 2 * found[-1]):
            found.append(count)
    return [None, *(replace(rounds, count=count) for count in found)]


def begin_micro_batches(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Compile a program in rounds, and insert its first plans: its own ones, and those of the nearest variant.

    The next number of rounds is begun only if the last one, and the first in any case, may be worth it.
    """
    if not _may_pay(state, start):
        state.starts = [
            other
            for other in state.starts
            if other is start or (other.kind, other.moves) != (start.kind, start.moves)
        ]
        return []
    graph = state.graph_of(start.moves)
    parents = [v for v in state.variants if v.moves == start.moves and v.submesh.devices == ""]
    parent = max(parents, key=lambda v: _count(v.submesh.rounds), default=state.variants[0])
    made = descendant(state, parent, start.submesh, graph, start.moves, limit, check_stop)
    return [] if made is None else [Child(made)]


def _may_pay(state: SearchState, start: SearchStart) -> bool:
    """Return whether rounds may add to the front: memory counts or is short, and fewer rounds hold a part of it."""
    if not state.counts_memory:
        return False
    before = state.submeshes[start.submesh - 1]
    if before.rounds is None:
        return True
    shares = state.shares()
    return any(v.submesh is before and share for v, share in zip(state.variants, shares, strict=True))


def _count(rounds: Rounds | None) -> int:
    return 1 if rounds is None else rounds.count


def another_number(
    state: SearchState, parent: Variant, limit: int | None, check_stop: CheckStop
) -> Variant | None:
    """Change the number of rounds of a variant to one next to it; None if all are known.

    The search evaluates at most `limit` plans in all.
    """
    alike = [
        k
        for k, submesh in enumerate(state.submeshes)
        if (submesh.devices, submesh.schedule_order, submesh.stages, submesh.slack)
        == (
            parent.submesh.devices,
            parent.submesh.schedule_order,
            parent.submesh.stages,
            parent.submesh.slack,
        )
        and submesh.view.axes == parent.submesh.view.axes
    ]
    alike.sort(key=lambda k: _count(state.submeshes[k].rounds))
    at = next((n for n, k in enumerate(alike) if state.submeshes[k] is parent.submesh), None)
    if at is None:
        return None
    for n in (at + 1, at - 1):
        if 0 <= n < len(alike):
            key = f"{parent.graph.structural_hash} in {_count(state.submeshes[alike[n]].rounds)} rounds"
            if key not in state.structural.known and not any(
                v.submesh is state.submeshes[alike[n]] and v.structure == parent.structure
                for v in state.variants
            ):
                state.structural.known.add(key)
                return descendant(state, parent, alike[n], parent.graph, parent.moves, limit, check_stop)
    return None
