"""Pipelines in a search: which stages plans may have, and what the search begins with for each number of them.

Between `variants` and `starts`. Every pipeline has an entry of its own among the submeshes, with the number of rounds
that keeps its stages busy most of the time. They are begun one after the other, for as long as the last one holds part
of the front. What goes into which part follows from the program (`optimizer.structure.division`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from tapestry.optimizer.run.descendants import descendant
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Child
from tapestry.rewrites import Move
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import StageLayout, Stages
from tapestry.teg.stopping import CheckStop

MOST_STAGES = 64
ROUNDS_PER_STAGE = 4  # of a pipeline: with so many rounds a stage waits for a fifth of the time


class PipelineKind(NamedTuple):
    """A pipeline that plans may have: the submesh of a stage, the rounds, and the stages."""

    devices: str
    rounds: Rounds
    stages: Stages


def pipelines_to_search(
    mesh_shape: MeshShape, options: RunOptions, rounds: Sequence[Rounds | None]
) -> list[PipelineKind]:
    """Return the pipelines that the plans of a search may have, by the number of stages, over all devices of the mesh.

    Each has the least of the numbers of `rounds` that is several times as large, or the largest.
    """
    known = sorted((each for each in rounds if each is not None), key=lambda each: each.count)
    if options.pins or not known:
        return []
    found = []
    for devices in mesh_shape.parts()[1:]:
        count = mesh_shape.device_count // mesh_shape.part(devices).device_count
        fitting = [each for each in known if each.count >= count]
        if count > MOST_STAGES or not fitting:
            continue
        enough = (each for each in fitting if each.count >= ROUNDS_PER_STAGE * count)
        found.append(PipelineKind(devices, next(enough, fitting[-1]), Stages(count, "1f1b")))
    return found


def layout_of(mesh_shape: MeshShape, kind: PipelineKind) -> StageLayout:
    """Return where the stages of a pipeline lie."""
    return StageLayout(mesh_shape, mesh_shape.part(kind.devices), kind.stages.count)


def pipeline_starts(state: SearchState, moves: tuple[Move, ...]) -> list[SearchStart]:
    """Return the starts of a program in pipelines, the fewest stages first."""
    return [SearchStart("stages", k, moves) for k, m in enumerate(state.submeshes) if m.stages is not None]


def in_turn(starts: Sequence[SearchStart], others: Sequence[SearchStart]) -> list[SearchStart]:
    """Return the starts of two lists in turn."""
    pairs = zip_longest(starts, others)
    return [start for pair in pairs for start in pair if start is not None]


def begin_stages(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Compile a program in a pipeline, and insert its first plans.

    The next number of stages is begun only if the last one holds a part of the front.
    """
    if not _may_pay(state, start):
        state.starts = [
            other
            for other in state.starts
            if other is start or (other.kind, other.moves) != (start.kind, start.moves)
        ]
        return []
    graph = state.graph_of(start.moves)
    made = descendant(state, state.variants[0], start.submesh, graph, start.moves, limit, check_stop)
    return [] if made is None else [Child(made)]


def _may_pay(state: SearchState, start: SearchStart) -> bool:
    """Return whether a pipeline may add to the front: the first one may, others if fewer stages hold a part of it."""
    before = state.submeshes[start.submesh - 1]
    if before.stages is None:
        return True
    shares = state.shares()
    return any(v.submesh is before and share for v, share in zip(state.variants, shares, strict=True))
