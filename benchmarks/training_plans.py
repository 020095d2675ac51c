"""Training configurations as placements: data, tensor, sequence and pipeline parallelism, sharded states, rounds,
recomputation.

What Megatron-LM's and DeepSpeed's users set by numbers, applied to a graph by the sizes of its dimensions. Nothing here
uses the search, except that what is computed again comes from `optimizer.structure.recomputation`, where gradients are
reduced in rounds from `optimizer.structure.reductions`, and the parts of pipelines from `optimizer.structure.division`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.measurements.gpt import FULL, SELECTIVE, STORED
from benchmarks.measurements.named_programs import outer_and_inner
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import Mesh
from tapestry.optimizer.structure.division import divided
from tapestry.optimizer.structure.recomputation import recomputations
from tapestry.optimizer.structure.reductions import reductions
from tapestry.rewrites import apply_all, catalog
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements, whole_strategy
from tapestry.teg.sharding.possible_rounds import rounds_of
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.stages import StageLayout, Stages
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.signature import PARALLEL


@dataclass(frozen=True)
class ModelSizes:
    """Sizes by which dimensions are told apart: of the batch, the sequence, and what tensor parallelism splits."""

    batch: int
    sequence: tuple[int, ...]
    tensor: tuple[int, ...]


@dataclass(frozen=True)
class Configuration:
    """Degrees of data and tensor parallelism, and whether the rest is split along the sequence.

    `states` is the depth to which states are sharded over the data (ZeRO): 1 the optimizer's, 2 gradients, too, which
    are then reduced in every round, 3 also parameters, which are then gathered for each reader. A `pipeline` of so many
    stages works by 1F1B, on the outermost axes.
    """

    data: int
    tensor: int = 1
    sequence: bool = False
    states: int = 0
    rounds: int = 1
    recompute: str = STORED
    pipeline: int = 1

    @property
    def name(self) -> str:
        """The degrees as text: `data 4, tensor 2, sequence, states 1, 2 rounds, selective`."""
        parts = [
            f"pipeline {self.pipeline}" if self.pipeline > 1 else "",
            f"data {self.data}",
            f"tensor {self.tensor}" if self.tensor > 1 else "",
        ]
        parts += ["sequence" if self.sequence else "", f"states {self.states}" if self.states else ""]
        parts += [f"{self.rounds} rounds" if self.rounds > 1 else ""]
        return ", ".join([*filter(None, parts), *([] if self.recompute == STORED else [self.recompute])])


def programs(graph: Graph, mesh: Mesh) -> dict[str, Graph]:
    """Return the program with everything stored, and with part and nearly all of it computed again.

    Selective is the way of the best trade: the least product of time and memory.
    """
    costs = UnshardedCosts(mesh.device)
    ways = recomputations(graph, costs)
    if not ways:
        return dict.fromkeys((STORED, SELECTIVE, FULL), graph)
    time = costs.time_ticks(graph)
    best = min(ways, key=lambda way: (time + way.ticks) * way.peak_bytes)
    again = {SELECTIVE: best, FULL: ways[-1]}
    rewritten = {name: apply_all(graph, way.moves, catalog()).graph for name, way in again.items()}
    return {STORED: graph, **rewritten}


def program_of(forms: Mapping[str, Graph], configuration: Configuration) -> Graph:
    """Return the form, of those by recomputation, that a configuration places: with waypoints for split gradients."""
    graph = forms[configuration.recompute]
    if configuration.states < 2 or configuration.rounds == 1:
        return graph
    return apply_all(graph, reductions(graph, _rounds(graph, configuration)), catalog()).graph


def _rounds(graph: Graph, configuration: Configuration) -> Rounds:
    possible = rounds_of(graph, configuration.rounds)
    if not possible:
        raise ValueError(f"{configuration.name}: no dimension can be cut into {configuration.rounds} rounds")
    return possible[0]


def placed(graph: Graph, mesh: Mesh, sizes: ModelSizes, configuration: Configuration) -> Placements:
    """Compute the placements of a configuration, data parallelism on the outer axes of the mesh, or of a stage.

    Raises:
        ValueError: the degrees do not multiply up to the devices, or no dimension allows the rounds.
    """
    whole = MeshShape(mesh.axis_sizes)
    fitting = (
        d for d in whole.parts() if whole.part(d).device_count * configuration.pipeline == whole.device_count
    )
    devices = next(fitting, "")
    data, tensor = _axes(whole.part(devices), configuration)
    parts = dict[str, int]()
    if configuration.pipeline > 1:
        layout = StageLayout(whole, whole.part(devices), configuration.pipeline)
        axis = mesh.axis(layout.route(0, 1).axis)
        parts = dict(divided(graph, (mesh.device,) * configuration.pipeline, axis.bandwidth_bytes_per_s))
    updates = _updates(graph)
    lay = partial(_strategy, sizes, configuration, data, tensor)
    depth = configuration.states
    states = {"optimizer_state": depth >= 1, "parameter": depth >= 3}
    placements = {}
    for block in graph.blocks:
        if block.is_view or block.signature is None:
            continue
        is_spread = (block.site in updates and depth >= 1) or (block.operator == "waypoint" and depth >= 2)
        if block.operator == "source":
            is_spread = states.get(block.definition["role"], False)
        elif block.site in graph.carriers:
            is_spread = states.get(graph.carriers[block.site].definition["role"], False)
        again = tuple(depth >= 3 and _is_parameter(graph, t) for t in block.inputs)
        placements[block.site] = Placement(
            lay(block, is_spread), regather=again if any(again) else (), part=parts.get(block.site, 0)
        )
    for site, part in parts.items():  # those that have no dimensions to split
        placements.setdefault(site, Placement(whole_strategy(graph.by_site[site]), part=part))
    found = Placements(placements, devices=devices)
    if configuration.pipeline > 1:
        found = replace(found, stages=Stages(configuration.pipeline))
    if configuration.rounds == 1:
        return found
    return replace(found, rounds=_rounds(graph, configuration))


def _is_parameter(graph: Graph, tensor: str) -> bool:
    """Return whether a tensor is a parameter, or a view of one."""
    block = graph.producers[tensor]
    while block.is_view:
        block = graph.producers[block.inputs[0]]
    return block.operator == "source" and block.definition["role"] == "parameter"


def _axes(mesh_shape: MeshShape, configuration: Configuration) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Divide the sub-axes of the mesh: the outer ones for the data, the inner ones for tensors."""
    found = outer_and_inner(mesh_shape, configuration.tensor)
    if found is None or configuration.data * configuration.tensor != mesh_shape.device_count:
        raise ValueError(f"{configuration.name} is not for {mesh_shape.device_count} devices")
    return found


def _strategy(
    sizes: ModelSizes,
    configuration: Configuration,
    data: tuple[str, ...],
    tensor: tuple[str, ...],
    block: Block,
    is_spread: bool,
) -> Strategy:
    assert block.signature is not None
    dims, allowed = block.signature.dims, splittable(block.signature)
    splits = [WHOLE] * len(dims)

    def split(wanted: Callable[[int], bool], axes: tuple[str, ...]) -> bool:
        """Split the first dimension that is free and wanted; return whether there is one."""
        free = (k for k, d in enumerate(dims) if allowed[k] and splits[k] is WHOLE and wanted(d.size))
        k = next(free, None)
        if k is not None and axes:
            splits[k] = Split(axes)
        return k is not None

    has_batch = split(lambda size: size == sizes.batch, data)
    found = any(split(lambda size, n=n: size == n, tensor) for n in sizes.tensor)
    if configuration.sequence and has_batch and not found:
        split(lambda size: size in sizes.sequence, tensor)
    if is_spread and not has_batch:
        split(lambda size: size % configuration.data == 0, data)
    return Strategy(tuple(splits))


def _updates(graph: Graph) -> set[str]:
    """Return the sites of the blocks that make next values of carried state and nothing else, element by element."""
    found: set[str] = set()
    for block in reversed(graph.blocks):
        readers = [r for t in block.outputs for r, _ in graph.readers[t]]
        is_parallel = block.signature is not None and all(d.kind == PARALLEL for d in block.signature.dims)
        if is_parallel and readers and all(r.site in found or r.site in graph.carriers for r in readers):
            found.add(block.site)
    return found


def standard(devices: int, sequence: Sequence[bool] = (False, True)) -> list[Configuration]:
    """List sixteen configurations that people try on so many devices."""
    half, quarter = devices // 2, devices // 4
    return [
        Configuration(devices),
        Configuration(devices, states=1),
        Configuration(devices, states=3),
        Configuration(devices, states=1, recompute=SELECTIVE),
        Configuration(devices, states=3, recompute=FULL),
        Configuration(half, 2),
        Configuration(half, 2, sequence=True, states=1),
        Configuration(half, 2, sequence=True, states=1, recompute=SELECTIVE),
        Configuration(quarter, 4, sequence=True),
        Configuration(half, 2, sequence=True, states=1, rounds=2),
        Configuration(half, 2, sequence=True, states=2, rounds=2),
        Configuration(quarter, 4, sequence=True, states=3, rounds=2, recompute=SELECTIVE),
        Configuration(quarter, 4, sequence=True, states=3, rounds=4, recompute=FULL),
        Configuration(half, pipeline=2, rounds=2),
        Configuration(quarter, 2, sequence=True, states=1, pipeline=2, rounds=4, recompute=SELECTIVE),
        Configuration(1, 2, sequence=True, pipeline=quarter * 2, rounds=8),
    ]
