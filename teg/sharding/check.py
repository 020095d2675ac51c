"""Checks that placements fit a graph and a mesh; all issues are reported at once, each with its path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from tapestry.teg.faults import near_hint
from tapestry.teg.graph import Block, Graph
from tapestry.teg.issues import Issue, key_path
from tapestry.teg.sharding.host import HOST, misplaced
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, Placement, Placements
from tapestry.teg.sharding.possible_rounds import possible_rounds
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.rounds import Rounds, RoundsError, time_axis
from tapestry.teg.sharding.stages import SCHEDULES, StageLayout
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.signature import PARALLEL

INPUT_OPTIONS = ("chosen", "replicated")
HOST_HINT = f"state, and waypoints of memory {HOST!r}, lie on the host, with {HOST!r} among their layouts"
OUTPUT_OPTIONS = ("sharded", "gathered")


def check_placements(
    graph: Graph, placements: Placements, mesh_shape: MeshShape, cache: ResultCache | None = None
) -> list[Issue]:
    """Return all reasons why `expand(graph, placements, mesh)` has no meaning; none for legal placements.

    Paths lead into the document of the placements (`$.blocks.attention.strategy[0]`). `cache` knows sound strategies.
    """
    whole = mesh_shape
    try:
        mesh_shape = whole.part(placements.devices)
    except ValueError as error:
        return [
            Issue("placement", "$.devices", str(error), "name axes of the mesh with sizes that divide theirs")
        ]
    issues = [
        *_check_rounds(graph, placements.rounds),
        *_check_stages(placements, whole, mesh_shape),
        *_known("order", placements.schedule_order, SCHEDULE_ORDERS),
        *_known("inputs", placements.inputs, INPUT_OPTIONS),
        *_known("outputs", placements.outputs, OUTPUT_OPTIONS),
    ]
    for site, placement in placements.blocks.items():
        path = key_path("$.blocks", site)
        block = graph.by_site.get(site)
        if block is None:
            issues.append(
                Issue("placement", path, f"the graph has no block {site!r}", near_hint(site, graph.by_site))
            )
            continue
        if not _is_sound(block, placement.strategy, mesh_shape, cache):
            issues.extend(_check_strategy(block, placement.strategy, mesh_shape, f"{path}.strategy"))
        issues.extend(_check_genes(graph, block, placement, path))
    return issues


def _check_rounds(graph: Graph, rounds: Rounds | None) -> Iterator[Issue]:
    try:
        if rounds is not None:
            time_axis(graph, rounds)
    except RoundsError as error:
        possible = [f"dimension {r.dim} of {r.source!r} (up to {r.count})" for r in possible_rounds(graph)]
        hint = f"the program has rounds over {', '.join(possible)}" if possible else "leave micro_batches out"
        yield Issue("placement", "$.micro_batches", str(error), hint)


def _check_stages(
    placements: Placements, mesh_shape: MeshShape, stage_mesh_shape: MeshShape
) -> Iterator[Issue]:
    stages = placements.stages
    if stages is None:
        site = next((site for site, p in placements.blocks.items() if p.part), None)
        if site is not None:
            message = f"block {site!r} is in part {placements.blocks[site].part} of a pipeline"
            yield Issue("placement", key_path("$.blocks", site), message, "state the stages of the plan")
        return
    if stages.is_by_hand:
        try:
            assert stages.turns
        except ValueError as error:
            yield Issue(
                "placement", "$.stages", str(error), "give each stage its turns: f0 f1 b0 b1 | f0 b0 f1 b1"
            )
            return
    else:
        yield from _known("stages", stages.schedule, SCHEDULES)
    if stages.count < 1:
        yield Issue("placement", "$.stages", f"there are {stages.count} stages", "give 1 stage or more")
        return
    try:
        StageLayout(mesh_shape, stage_mesh_shape, stages.count)
    except ValueError as error:
        yield Issue("placement", "$.stages", str(error), "give stages of fewer devices, or fewer stages")
    last = max((p.part for p in placements.blocks.values()), default=0)
    if last >= stages.count and not (stages.is_by_hand or stages.schedule == "interleaved"):
        message = f"{last + 1} parts for {stages.count} stages"
        yield Issue("placement", "$.stages", message, "only interleaved stages have several parts each")
    for site, placement in placements.blocks.items():
        if placement.part < 0:
            message = f"block {site!r} is in part {placement.part}"
            yield Issue("placement", key_path("$.blocks", site), message, "parts are numbered from 0")


def _is_sound(block: Block, strategy: Strategy, mesh_shape: MeshShape, cache: ResultCache | None) -> bool:
    """Return whether the cache knows that the strategy fits the definition of the block."""
    if cache is None or cache.mesh_shape != mesh_shape:
        return False
    found = _check_strategy(block, strategy, mesh_shape, "")
    return cache.known(("strategy", block.definition, strategy), lambda: not any(True for _ in found))


def _check_strategy(block: Block, strategy: Strategy, mesh_shape: MeshShape, path: str) -> Iterator[Issue]:
    dims = block.signature.dims if block.signature is not None else ()
    if len(strategy.splits) != len(dims):
        kind = "index dimensions" if block.signature is not None else "(it has no signature, so it is fixed)"
        names = f" {', '.join(d.name for d in dims)}" if dims else ""
        message = f"{len(strategy.splits)} splits for {block.operator!r} block {block.site!r}"
        yield Issue("strategy", path, message, f"give one split for each of its {len(dims)} {kind}{names}")
        return
    if block.is_view and any(split.axes for split in strategy.splits):
        message = f"block {block.site!r} is a view, which lies where its root lies"
        yield Issue("strategy", path, message, "place the blocks that make and read it")
    uses = Counter(axis for split in strategy.splits for axis in split.axes)
    allowed = splittable(block.signature)
    for k, (dim, split) in enumerate(zip(dims, strategy.splits, strict=True)):
        here = f"{path}[{k}]"
        for axis in split.axes:
            if axis not in mesh_shape.positions:
                yield Issue(
                    "strategy",
                    here,
                    f"the mesh has no sub-axis {axis!r}",
                    near_hint(axis, mesh_shape.positions),
                )
            elif uses[axis] > 1:
                message = f"sub-axis {axis!r} is used {uses[axis]} times in one strategy"
                yield Issue("strategy", here, message, "a sub-axis splits one dimension, once")
        if split.axes and not allowed[k]:
            free = [d.name for d, ok in zip(dims, allowed, strict=True) if ok]
            message = f"dimension {dim.name!r} of {block.operator!r} block {block.site!r} may not be split"
            yield Issue("strategy", here, message, f"split {' or '.join(free) if free else 'nothing here'}")
        if split.granule < 1:
            yield Issue("strategy", here, f"the granule is {split.granule}", "a granule is at least 1")
    monoids = {d.kind for d, s in zip(dims, strategy.splits, strict=True) if s.axes and d.kind != PARALLEL}
    if len(monoids) > 1:
        message = f"reductions of several kinds are split: {', '.join(sorted(monoids))}"
        yield Issue(
            "strategy", path, message, "split reductions of one kind, so that one monoid combines them"
        )


def _check_genes(graph: Graph, block: Block, placement: Placement, path: str) -> Iterator[Issue]:
    count = len(block.inputs)
    for name in ("prefetch", "regather", "read_layouts"):
        if len(genes := getattr(placement, name)) > count:
            message = f"{len(genes)} entries for block {block.site!r} of {count} inputs"
            yield Issue("placement", f"{path}.{name}", message, "give at most one entry per input")
    if len(placement.layouts) > len(block.outputs):
        message = f"{len(placement.layouts)} entries for block {block.site!r} of {len(block.outputs)} outputs"
        yield Issue("placement", f"{path}.layouts", message, "give at most one entry per output")
    for message in misplaced(graph, block, placement.layouts, placement.read_layouts):
        yield Issue("placement", f"{path}.layouts", message, HOST_HINT)
    for k, distance in enumerate(placement.prefetch):
        if distance < 0:
            expected = "a copy is issued 0 or more blocks ahead of its reader"
            yield Issue("placement", f"{path}.prefetch[{k}]", f"the distance is {distance}", expected)


def _known(field: str, value: str, known: Collection[str], path: str = "$") -> Iterator[Issue]:
    if value not in known:
        yield Issue("placement", f"{path}.{field}", f"unknown {field} {value!r}", near_hint(value, known))
