"""Plans of a program by kind: even, uneven or haloed, at random, and as a search finds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from tapestry.hardware.catalog import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.api import optimize
from tapestry.optimizer.placement.propagation import propagate_placements
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.spmd.models import MODELS, TinyModel
from tests.teg.sharding.programs import random_placements

KINDS = ("even", "uneven", "search")
# Plans that split a dimension of all sources of a role, in parts of any size.
ALONG = {"data": ("activation", 0), "space": ("activation", 2), "rows": ("parameter", 0)}
Choice = tuple[Block, int, Split]


def model_plans(mesh_shapes: Sequence[MeshShape]) -> list[tuple[str, str, MeshShape]]:
    """Return the plans of public models, by name and kind: on the first mesh, some even ones on each of the others."""
    return [
        (name, plan, mesh_shapes[k % len(mesh_shapes) if plan == "even" else 0])
        for k, name in enumerate(MODELS)
        for plan in KINDS
    ]


def placed_model(name: str, plan: str, mesh_shape: MeshShape) -> tuple[TinyModel, ExplicitGraph]:
    """Build a public model, and expand a plan of it."""
    model = MODELS[name]()
    explicit = placed(model.graph, plan, mesh_shape)
    assert plan != "uneven" or has_unequal_parts(explicit) or has_halos(explicit)
    return model, explicit


def gathered_twice(mesh_shape: MeshShape) -> ExplicitGraph:
    """Build two readers of one tensor, each of which gathers it anew."""
    build = GraphBuilder("twice")
    x = build.source("x", (8, 4), "float32")
    dims, labels = (("a", 8), ("b", 4)), (("a", "b"),)
    for k in range(2):
        expression = ("add", ("input", 0), ("const", float(k)))
        (y,) = build.apply(
            "cell", [x], site=f"cell.{k}", expr=expression, labels=labels, dims=dims, dtype="float32"
        )
        build.sink(y, site=f"y{k}")
    whole = Strategy((WHOLE, WHOLE))
    placements = {
        "x": Placement(Strategy((Split(tuple(s.name for s in mesh_shape.sub_axes)), WHOLE))),
        "cell.0": Placement(whole),
        "cell.1": Placement(whole, regather=(True,)),
    }
    return expand(build.build(), Placements(placements), mesh_shape)


def placed(graph: Graph, plan: str, mesh_shape: MeshShape) -> ExplicitGraph:
    """Expand a plan by name: one of `KINDS`, or of `ALONG`; a number draws every placement."""
    if plan == "search":
        return searched(graph, mesh_shape)
    makers = {"even": evenly, "uneven": unevenly, **{name: partial(along, *ALONG[name]) for name in ALONG}}
    choices = list(makers[plan](graph, mesh_shape)) if plan in makers else []
    if choices:
        return expand(graph, following(graph, choices, mesh_shape), mesh_shape)
    rng = np.random.default_rng(int(plan) if plan.isdecimal() else 1)
    return expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)


def mesh_of(mesh_shape: MeshShape) -> Mesh:
    """Return a mesh of the catalog, or a part of it, with these axes."""
    nodes = dict(mesh_shape.axes).get("node", 1)
    return load_mesh("dgx-h100" if nodes == 1 else "2x-dgx-h100").part(mesh_shape.axes)


def searched(graph: Graph, mesh_shape: MeshShape) -> ExplicitGraph:
    """Search a little; of the plans found expand the one with the least memory, which divides the most."""
    objectives = ("time_s", "peak_memory_bytes")
    found = optimize(graph, mesh_of(mesh_shape), objectives, evaluations=400, islands=1, seed=0)
    plan = min(found.frontier, key=lambda p: (p.cost["peak_memory_bytes"], p.id))
    return expand(plan.graph, plan.placements, mesh_shape)


def following(graph: Graph, choices: Sequence[Choice], mesh_shape: MeshShape) -> Placements:
    """Split sources as chosen, and let the rest follow."""
    blocks: dict[str, Placement] = {}
    for block, dim, split in choices:
        splits = [WHOLE] * _rank(graph, block)
        splits[dim] = split
        blocks[block.site] = Placement(Strategy(tuple(splits)))
    sites = [b.site for b in graph.blocks if not b.is_view]
    return propagate_placements(graph, Placements(blocks), sites, mesh_shape)


def evenly(graph: Graph, mesh_shape: MeshShape) -> Iterator[Choice]:
    """Choose for each parameter the first dimension that most devices divide evenly; without parameters for all.

    Where nothing divides any size, each source's largest dimension is cut once.
    """
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    roles = {block.definition["role"] for block in graph.sources}
    chosen, cut = list[Choice](), list[Choice]()
    for block in graph.sources:
        sizes = graph.tensors[block.outputs[0]].shape
        if max(sizes, default=1) == 1 or ("parameter" in roles and block.definition["role"] != "parameter"):
            continue
        cut.append((block, sizes.index(max(sizes)), Split(axes[:1])))
        for count in range(len(axes), 0, -1):
            dims = [k for k, size in enumerate(sizes) if size % mesh_shape.size_of(axes[:count]) == 0]
            if dims:
                chosen.append((block, dims[0], Split(axes[:count])))
                break
    yield from chosen or cut


def unevenly(graph: Graph, mesh_shape: MeshShape) -> Iterator[Choice]:
    """Choose for each activation rows of images, which have halos, or the largest dimension of unequal parts.

    Where no activation has one it is those of parameters.
    """
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    has_windows = any(block.operator in ("conv", "pool") for block in graph.blocks)
    chosen: dict[str, list[Choice]] = {"activation": [], "parameter": []}
    for block in graph.sources:
        sizes = graph.tensors[block.outputs[0]].shape
        choices = chosen.get(block.definition["role"], [])
        uneven = [k for k, size in enumerate(sizes) if size > 1 and size % mesh_shape.device_count]
        if has_windows and len(sizes) == 4 and sizes[2] > 1:
            choices.append((block, 2, Split(axes)))
        elif uneven:
            choices.append((block, max(uneven, key=lambda k: sizes[k]), Split(axes)))
    yield from chosen["activation"] or chosen["parameter"]


def along(role: str, dim: int, graph: Graph, mesh_shape: MeshShape) -> Iterator[Choice]:
    """Choose a dimension of all sources of a role."""
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    for block in graph.sources:
        if block.definition["role"] == role and _rank(graph, block) > max(dim, 1):
            yield block, dim, Split(axes)


def _rank(graph: Graph, block: Block) -> int:
    return len(graph.tensors[block.outputs[0]].shape)


def has_unequal_parts(explicit: ExplicitGraph) -> bool:
    """Return whether devices compute parts of different sizes."""
    sizes = [slot.step.index[:, :, 1] - slot.step.index[:, :, 0] for slot in explicit.slots]
    return any((size != size[:1]).any() for size in sizes)


def has_halos(explicit: ExplicitGraph) -> bool:
    """Return whether parts that copies make overlap on some devices, without being equal."""
    copied = [explicit.buffers[copy.result].boxes for slot in explicit.slots for copy in slot.issued]
    for boxes in copied:
        starts, ends = boxes[:, :, 0], boxes[:, :, 1]
        meet = (np.maximum(starts[:, None], starts) < np.minimum(ends[:, None], ends)).all(axis=2)
        equal = (boxes[:, None] == boxes).all(axis=(2, 3))
        if (meet & ~equal).any():
            return True
    return False
