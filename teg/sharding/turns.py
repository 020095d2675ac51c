"""Turns: what runs in each slot of a program, in which round and stage; the schedules of pipelines.

The blocks of a segment (a loop of rounds, or what lies between loops) are cut into *pieces*, each on one stage: a piece
ends where another stage is needed to go on. A turn is one piece in one round. A schedule is an order of its turns for
each stage; the program's order follows from all of them, as if turns took as long as they have operations.

Imported by the expansion, and by the fast cost model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple

from tapestry.teg.flops import block_flops
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.rounds import TimeAxis
from tapestry.teg.sharding.stages import HandTurn, Stages


class ScheduleError(ValueError):
    """Error raised for a schedule by which stages wait for each other for ever."""


@dataclass(frozen=True)
class StagePiece:
    """Blocks of a segment, in schedule order, that one stage runs in one go: those of one part of the pipeline.

    `depth` counts the changes of parts before it, on the way with the most of them; `needs` are the numbers of the
    pieces that it waits for; `flops` those of its blocks in all rounds, at least 1. No piece needs one that `is_late`.
    """

    part: int
    depth: int
    blocks: tuple[Block, ...]
    needs: frozenset[int]
    flops: int = 1
    is_late: bool = False


class Turn(NamedTuple):
    """A block in a round, at a level of the time axis, on a stage; `number` counts blocks in the order of pieces.

    It is in the turn of slots `[first, end)`: copies within the stage are issued from its first slot on, and copies to
    other stages at its end.
    """

    block: Block
    number: int
    round: int
    level: int
    stage: int
    first: int
    end: int


@dataclass(frozen=True)
class TurnTable:
    """The pieces of all segments, the segment of each, and the turns in order: piece, by number, and round."""

    pieces: tuple[StagePiece, ...]
    levels: tuple[int, ...]
    order: tuple[tuple[int, int], ...]


def turn_table(
    graph: Graph,
    blocks: Sequence[Block],
    time: TimeAxis | None,
    stages: Stages | None = None,
    parts: Mapping[str, int] | None = None,
) -> TurnTable:
    """Return how blocks, in schedule order, are cut into pieces, and how stages take turns at them.

    `parts` are those of the pipeline that blocks are in, by site, 0 where none is stated.

    Raises:
        ScheduleError: stages wait for each other for ever.
    """
    found: list[StagePiece] = []
    levels: list[int] = []
    order: list[tuple[int, int]] = []
    segments = [tuple(blocks)] if time is None else time.segments(blocks)
    for level, segment in enumerate(segments):
        rounds, first = time.count if time is not None and level % 2 else 1, len(found)
        if stages is None:
            pieces: Sequence[StagePiece] = (StagePiece(0, 0, segment, frozenset()),)
            turns = [(0, number) for number in range(rounds)]
        else:
            pieces = pieces_of(graph, segment, parts or {}, has_late=stages.has_late)
            turns = pipeline_order(pieces, rounds, stages)
        found += pieces
        levels += [level] * len(pieces)
        order += ((first + k, number) for k, number in turns)
    return TurnTable(tuple(found), tuple(levels), tuple(order))


def turns_of(table: TurnTable, stages: Stages | None) -> list[Turn]:
    """Return what runs in each slot: the blocks of each piece, as stages take turns."""
    turns: list[Turn] = []
    begins = list(accumulate((len(piece.blocks) for piece in table.pieces), initial=0))
    for k, number in table.order:
        piece, first = table.pieces[k], len(turns)
        end, stage = first + len(piece.blocks), 0 if stages is None else piece.part % stages.count
        turns += (
            Turn(block, begins[k] + n, number, table.levels[k], stage, first, end)
            for n, block in enumerate(piece.blocks)
        )
    return turns


def pieces_of(
    graph: Graph, segment: Sequence[Block], parts: Mapping[str, int], *, has_late: bool = False
) -> tuple[StagePiece, ...]:
    """Cut blocks, in schedule order, into pieces, those of least depth first.

    A block is as deep as what it needs makes it, or as its readers, where it comes as late as they do: so does what is
    computed again. What no other part waits for yet is not done by itself, but together with what its part does next.
    If the segment `has_late` pieces, what nothing else waits for on the way back of a part, such as gradients of
    weights, is one of its own, behind all others.
    """
    makers = {tensor: block for block in segment for tensor in block.outputs}
    depth: dict[str, int] = {}
    needs: dict[str, list[Block]] = {}
    for block in segment:
        before = [makers[root] for root in _roots(graph, block) if root in makers]
        before += [graph.by_site[s] for s in block.after if s in depth]
        needs[block.site] = before
        part = parts.get(block.site, 0)
        depth[block.site] = max((depth[b.site] + (parts.get(b.site, 0) != part) for b in before), default=0)
    _postpone(segment, parts, depth, needs)
    _join_early(segment, parts, depth, needs)
    last = 1 + max(depth.values(), default=0)
    depth |= dict.fromkeys(_late(segment, parts, depth, needs) if has_late else (), last)
    found: dict[tuple[int, int], list[Block]] = {}
    for block in segment:
        found.setdefault((depth[block.site], parts.get(block.site, 0)), []).append(block)
    keys = sorted(found)
    number = {key: k for k, key in enumerate(keys)}
    key_of = {block.site: key for key in keys for block in found[key]}
    return tuple(
        StagePiece(
            key[1],
            key[0],
            tuple(found[key]),
            frozenset(number[key_of[b.site]] for block in found[key] for b in needs[block.site])
            - {number[key]},
            1 + sum(block_flops(graph, block) for block in found[key]),
            key[0] == last,
        )
        for key in keys
    )


def _roots(graph: Graph, block: Block) -> list[str]:
    """Return the stored tensors that a block reads."""
    found = []
    for tensor in block.inputs:
        root = tensor
        while (maker := graph.producers[root]).is_view:
            root = maker.inputs[0]
        found.append(root)
    return found


def _postpone(
    segment: Sequence[Block],
    parts: Mapping[str, int],
    depth: dict[str, int],
    needs: Mapping[str, Sequence[Block]],
) -> None:
    """Move blocks to the depth at which they are first needed, if they come after what makes that so deep."""
    reached = list(accumulate((depth[block.site] for block in segment), max))
    latest: dict[str, int] = {}
    for block, before in zip(reversed(segment), reversed([0, *reached][:-1]), strict=True):
        site, part = block.site, parts.get(block.site, 0)
        needed = latest.get(site, 0)
        if depth[site] < needed <= before + 1:
            depth[site] = needed
        for other in needs[site]:
            most = depth[site] - (parts.get(other.site, 0) != part)
            latest[other.site] = min(latest.get(other.site, most), most)


def _join_early(
    segment: Sequence[Block],
    parts: Mapping[str, int],
    depth: dict[str, int],
    needs: Mapping[str, Sequence[Block]],
) -> None:
    """Move what no other part waits for before then to the next depth at which its part works."""
    length = 1 + max(depth.values(), default=0)
    members: dict[tuple[int, int], list[Block]] = {}
    depths: dict[int, set[int]] = {}
    for block in segment:
        part = parts.get(block.site, 0)
        members.setdefault((depth[block.site], part), []).append(block)
        depths.setdefault(part, set()).add(depth[block.site])
    readers: dict[str, list[Block]] = {}
    for block in segment:
        for needed in needs[block.site]:
            if parts.get(needed.site, 0) != parts.get(block.site, 0):
                readers.setdefault(needed.site, []).append(block)
    for key in sorted(members, reverse=True):
        at, part = key
        later = sorted(each for each in depths[part] if each > at)
        if not later:
            continue
        read = (depth[r.site] for block in members[key] for r in readers.get(block.site, ()))
        first_read = min(read, default=length)
        following = depth[members[later[0], part][0].site]
        if following < first_read:
            for block in members[key]:
                depth[block.site] = following


def _late(
    segment: Sequence[Block],
    parts: Mapping[str, int],
    depth: Mapping[str, int],
    needs: Mapping[str, Sequence[Block]],
) -> set[str]:
    """Return the sites of blocks that no other piece needs, of pieces that others need, on the way back of a part."""
    piece_of = {block.site: (parts.get(block.site, 0), depth[block.site]) for block in segment}
    first = dict(sorted(set(piece_of.values()), reverse=True))  # the least depth of each part
    is_alone = Counter(part for part, _ in set(piece_of.values()))
    early: set[str] = set()
    for block in reversed(segment):
        for other in needs[block.site]:
            if block.site in early or piece_of[other.site] != piece_of[block.site]:
                early.add(other.site)
    split = {piece_of[site] for site in early}
    split = {(part, at) for part, at in split if at != first[part] or is_alone[part] == 1}
    return {block.site for block in segment if block.site not in early and piece_of[block.site] in split}


class _Entry(NamedTuple):
    """A piece in a round."""

    piece: int
    round: int


def pipeline_order(pieces: Sequence[StagePiece], rounds: int, stages: Stages) -> list[tuple[int, int]]:
    """Return pieces, by number, and rounds in an order that agrees with the schedule of every stage.

    It is the order in which they begin if each takes as long as it has operations, by stage where they begin together.
    The pieces of one round begin in their order.

    Raises:
        ScheduleError: stages wait for each other for ever.
    """
    left = [list(reversed(_stage_order(pieces, rounds, stages, k))) for k in range(stages.count)]
    free = [0] * stages.count
    begun: dict[_Entry, int] = {}
    ends: dict[_Entry, int] = {}
    found: list[tuple[int, int]] = []
    waiting: dict[_Entry, list[int]] = {}  # the stages that can go on after a turn
    ready: list[tuple[int, int]] = []  # when stages may begin their next turns

    def look(stage: int) -> None:
        if not left[stage]:
            return
        entry = left[stage][-1]
        needed = [_Entry(n, entry.round) for n in sorted(_waits_for(pieces, entry.piece))]
        missing = next((n for n in needed if n not in ends), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(stage)
            return
        times = [ends[n] if n.piece in pieces[entry.piece].needs else begun[n] for n in needed]
        heappush(ready, (max(times, default=free[stage]), stage))

    for stage in range(stages.count):
        look(stage)
    while ready:
        begin, stage = heappop(ready)
        if begin < free[stage]:
            heappush(ready, (free[stage], stage))
            continue
        entry = left[stage].pop()
        found.append(entry)
        begun[entry] = begin
        ends[entry] = free[stage] = begin + pieces[entry.piece].flops
        for other in (*waiting.pop(entry, ()), stage):
            look(other)
    if any(left):
        raise ScheduleError(_waits(pieces, left, set(ends), stages))
    return found


def _waits_for(pieces: Sequence[StagePiece], piece: int) -> frozenset[int]:
    """Return the pieces that begin before another one in each round: those that it needs, and the one before it."""
    return pieces[piece].needs | ({piece - 1} if piece else set())


def _waits(
    pieces: Sequence[StagePiece], left: Sequence[Sequence[_Entry]], done: set[_Entry], stages: Stages
) -> str:
    """Describe the cycle of waits of stages that cannot go on."""
    waits: dict[int, tuple[int, _Entry]] = {}
    for k, mine in enumerate(left):
        if mine:
            needed = sorted(_waits_for(pieces, mine[-1].piece))
            missing = next(n for n in needed if _Entry(n, mine[-1].round) not in done)
            waits[k] = (pieces[missing].part % stages.count, mine[-1])
    k = next(iter(waits))
    path: list[int] = []
    while k not in path:
        path.append(k)
        k = waits[k][0]
    cycle = path[path.index(k) :]
    texts = []
    for s in cycle:
        other, entry = waits[s]
        awaited = "a turn of its own that comes later" if other == s else f"stage {other}"
        texts.append(
            f"stage {s} waits in round {entry.round} of part {pieces[entry.piece].part} for {awaited}"
        )
    return f"the schedule {stages.schedule_name} cannot go on: {'; '.join(texts)}"


def _stage_order(pieces: Sequence[StagePiece], rounds: int, stages: Stages, stage: int) -> list[_Entry]:
    """Return the turns of one stage in the order of its schedule."""
    by_part: dict[int, list[int]] = {}
    late: list[int] = []
    for k, piece in enumerate(pieces):  # in order of depth
        if piece.part % stages.count == stage:
            (late if piece.is_late else by_part.setdefault(piece.part, [])).append(k)
    if stages.is_by_hand and rounds > 1:
        return _by_hand(by_part, {pieces[k].part: k for k in late}, rounds, stages, stage)
    if stages.schedule == "gpipe" or rounds == 1:
        mine = sorted((*late, *(k for ks in by_part.values() for k in ks)))
        return [_Entry(k, number) for k in mine for number in range(rounds)]
    # Way out and way back: the first piece of each part, then what is left of it.
    parts = sorted(by_part)
    several = len({piece.part // stages.count for piece in pieces}) > 1
    group = stages.count if several else rounds
    out: list[list[_Entry]] = []
    back: list[list[_Entry]] = []
    for start in range(0, rounds, group):
        numbers = range(start, min(start + group, rounds))
        out += ([_Entry(by_part[p][0], n)] for p in parts for n in numbers)
        back += ([_Entry(k, n) for k in by_part[p][1:]] for p in reversed(parts) for n in numbers)
    ahead = stages.count - 1 - stage
    if several:
        ahead = 2 * ahead + (len(parts) - 1) * stages.count
    ahead = min(ahead, len(out))
    order = [entry for entries in out[:ahead] for entry in entries]
    # What is late waits for as many further rounds as there are stages before this one.
    later = [[_Entry(k, n) for k in late] for n in range(rounds if late else 0)]
    for n, home in enumerate(back):
        order += (*(out[ahead + n] if ahead + n < len(out) else ()), *home)
        order += later[n - stage] if n >= stage and later else ()
    return order + [entry for entries in later[max(rounds - stage, 0) :] for entry in entries]


def _by_hand(
    by_part: Mapping[int, Sequence[int]], late: Mapping[int, int], rounds: int, stages: Stages, stage: int
) -> list[_Entry]:
    """Return the turns of one stage as a schedule states them; those of parts that have no such piece are left out.

    Raises:
        ScheduleError: a turn is missing, or there twice.
    """
    found: dict[_Entry, HandTurn] = {}
    for turn in stages.turns[stage]:
        mine = by_part.get(turn.part, ())
        for k in {"f": mine[:1], "b": mine[1:]}.get(turn.way, [late[turn.part]] if turn.part in late else []):
            entry = _Entry(k, turn.round)
            if entry in found:
                raise ScheduleError(f"the schedule given by hand has {turn} twice on stage {stage}")
            found[entry] = turn
    order = list(found)
    ways = [("f" if n == 0 else "b", part, k) for part, mine in by_part.items() for n, k in enumerate(mine)]
    ways += [("w", part, k) for part, k in late.items()]
    for number in range(rounds):
        for way, part, k in ways:
            if found.pop(_Entry(k, number), None) is None:
                missing = HandTurn(way, number, part)
                raise ScheduleError(f"the schedule given by hand lacks {missing} on stage {stage}")
    for turn in found.values():
        raise ScheduleError(f"the schedule given by hand has {turn} on stage {stage}, of {rounds} rounds")
    return order
