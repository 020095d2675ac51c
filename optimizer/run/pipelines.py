"""Pipelines in a search: which stages plans may have, and what the search begins with for each number of them.

Between `variants` and `starts`. Every pipeline has an entry of its own among the submeshes, with the number of rounds
that keeps its stages busy most of the time. They are begun one after the other, for as long as the last one holds part
of the front. What goes into which part follows from the program (`optimizer.structure.division`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from math import inf, prod
from typing import NamedTuple

from tapestry.costmodel.degrees import degrees_fault
from tapestry.costmodel.space_compiler import LIVES_ON
from tapestry.costmodel.unsharded import live_bytes
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.run.descendants import descendant
from tapestry.optimizer.run.fixed_degrees import degrees_of
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Child
from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import round_counts
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import StageLayout, Stages
from tapestry.teg.stopping import CheckStop

MOST_STAGES = 64
SHARE_OF_MEMORY = 0.6  # for parameters and states, and of the rest for what micro-batches store
# Numbers of rounds that are tried are so far apart, and more of them that store more than this share are not taken.
APART, SAVED = 1.4, 0.9
SLACK = 0.2  # how much longer the longest stage may take where a pipeline is cut to store less
ROUNDS_PER_STAGE = 4  # of a pipeline: with so many rounds a stage waits for a fifth of the time


class PipelineKind(NamedTuple):
    """A pipeline that plans may have: the submesh of a stage, the rounds, and the stages.

    With some `slack` the program is cut so that stages store little (`optimizer.structure.division`).
    """

    devices: str
    rounds: Rounds
    stages: Stages
    slack: float = 0.0


def pipelines_to_search(
    mesh_shape: MeshShape, options: RunOptions, rounds: Sequence[Rounds | None]
) -> list[PipelineKind]:
    """Return the pipelines that the plans of a search may have, over all devices of the mesh.

    First come those of each number of stages that work by 1F1B, in the least of the numbers of `rounds` that is several
    times as large, or the largest. Then come for each those cut to store less, those whose gradients of weights are
    late, interleaved ones, and those in more rounds. A number of stages that the options fix is that of all plans.
    """
    if options.stages == 1:
        return []
    known = sorted((each for each in rounds if each is not None), key=lambda each: each.count)
    if options.pins or not known:
        return []
    degrees = degrees_of(options)
    first, others = list[PipelineKind](), list[PipelineKind]()
    for devices in mesh_shape.parts()[1:]:
        count = mesh_shape.device_count // mesh_shape.part(devices).device_count
        fitting = [each for each in known if each.count >= count]
        is_wanted = count <= MOST_STAGES if options.stages is None else count == options.stages
        is_wanted = is_wanted and not degrees_fault(degrees, mesh_shape.part(devices))
        if not is_wanted or not fitting:
            continue
        enough = [each for each in fitting if each.count >= ROUNDS_PER_STAGE * count] or fitting[-1:]
        first.append(PipelineKind(devices, enough[0], Stages(count, "1f1b")))
        others.append(PipelineKind(devices, enough[0], Stages(count, "1f1b"), SLACK))
        others.append(PipelineKind(devices, enough[0], Stages(count, "zb-h1")))
        if enough[0].count % count == 0:
            others.append(PipelineKind(devices, enough[0], Stages(count, "interleaved")))
        others += (PipelineKind(devices, each, Stages(count, "1f1b")) for each in enough[1:2])
    return first + others


def first_pipeline(
    graph: Graph, mesh: Mesh, options: RunOptions, kinds: Sequence[PipelineKind]
) -> PipelineKind | None:
    """Return the pipeline that a search begins with; None where plans without one may fit in memory in one round.

    They may not if the program's peak, divided evenly among all devices, exceeds a device's memory. Then it is the one
    of fewest stages whose devices of the fastest axis hold their parameters and states in about half of their memory,
    in the fewest rounds in which half of the rest holds what is stored of as many of them as there are stages, divided
    evenly; but not in so many that a round has fewer rows than a stage has parts along all slower axes, of which some
    would idle or hold the same as others: computing values again saves more. A number of rounds that the options fix
    stays.
    """
    room, devices = mesh.device.memory_bytes, mesh.device_count
    if not kinds or max(live_bytes(graph)) <= room * devices:
        return None
    stored = sum(
        graph.tensors[source.outputs[0]].type.size_bytes
        for source in graph.sources
        if source.definition["role"] in LIVES_ON
    )
    simple = [kind for kind in kinds if kind.stages.schedule == "1f1b" and not kind.slack]
    fitting = (k for k in simple if stored <= SHARE_OF_MEMORY * room * k.stages.count * mesh.axes[-1].size)
    found = next(fitting, simple[-1])
    if options.micro_batches is not None:
        return found
    stages = found.stages.count
    left = room - stored / (stages * mesh.axes[-1].size)
    least = inf
    source = graph.by_site[found.rounds.source].outputs[0]
    rows = graph.tensors[source].shape[found.rounds.dim]
    sizes = [size for _, size in MeshShape(mesh.axis_sizes).part(found.devices).axes]
    most = max(rows // max(prod(sizes[:-1]), options.data_parallel or 1), found.rounds.count)
    for count in round_counts(graph, found.rounds):
        if not found.rounds.count <= count <= most or (least < inf and count < APART * found.rounds.count):
            continue
        rounds = replace(found.rounds, count=count)
        made = max(live_bytes(graph, rounds=rounds)) - stored
        if made > SAVED * least:  # more rounds store hardly less
            break
        found, least = found._replace(rounds=rounds), made
        if made * stages <= SHARE_OF_MEMORY * left * devices:
            break
    return found


def stages_fault(count: int, mesh_shape: MeshShape, rounds: Sequence[Rounds | None] | None = None) -> str:
    """Return why no plan on a mesh, in one of these rounds if they are known, has so many stages; empty: one has."""
    devices = mesh_shape.device_count
    possible = sorted({devices // mesh_shape.part(part).device_count for part in mesh_shape.parts()[1:]})
    if count > 1 and count not in possible:
        known = f"possible are {', '.join(map(str, (1, *possible)))}" if possible else "it has one"
        return f"{devices} devices have no {count} equal parts of one shape; {known}"
    most = max((each.count for each in rounds or () if each is not None), default=1)
    if rounds is not None and count > most:
        return f"{count} stages need as many micro-batches, and no plan here has more than {most}"
    return ""


def layout_of(mesh_shape: MeshShape, kind: PipelineKind) -> StageLayout:
    """Return where the stages of a pipeline lie."""
    return StageLayout(mesh_shape, mesh_shape.part(kind.devices), kind.stages.count)


def pipeline_starts(state: SearchState, moves: tuple[Move, ...]) -> list[SearchStart]:
    """Return the starts of a program in pipelines, the fewest stages first; not of what a search begins with."""
    is_begun = moves == state.variants[0].moves
    others = list(enumerate(state.submeshes))[1 if is_begun else 0 :]
    return [SearchStart("stages", k, moves) for k, m in others if m.stages is not None]


def in_turn(starts: Sequence[SearchStart], others: Sequence[SearchStart]) -> list[SearchStart]:
    """Return the starts of two lists in turn."""
    pairs = zip_longest(starts, others)
    return [start for pair in pairs for start in pair if start is not None]


def begin_stages(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Compile a program in a pipeline, and insert its first plans; nothing if it would add nothing to the front."""
    if not _may_pay(state, start):
        return []
    graph = state.graph_of(start.moves)
    made = descendant(state, state.variants[0], start.submesh, graph, start.moves, limit, check_stop)
    return [] if made is None else [Child(made)]


def _may_pay(state: SearchState, start: SearchStart) -> bool:
    """Return whether a pipeline may add to the front.

    The first one may. Others may if any pipeline holds a part of it; a second one of as many stages, if the first does.
    """
    mine, staged = state.submeshes[start.submesh], [m for m in state.submeshes if m.stages is not None]
    alike = [m for m in staged if m.devices == mine.devices]
    before = staged if alike[0] is mine else alike[:1]
    begun = [m for m in before if any(v.submesh is m for v in state.variants)]
    if not begun:
        return mine is staged[0]
    shares = zip(state.variants, state.shares(), strict=True)
    return any(share and any(v.submesh is m for m in begun) for v, share in shares)
