"""Marginal times of a plan's blocks: what a block takes at least, and for each further step of an index dimension."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapestry.costmodel.block_cost import costs_of_parts
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.stage_meshes import meshes_of_stages
from tapestry.hardware.timing import SUPPLIED_CLASS, block_class, seconds
from tapestry.teg.costs import states_seconds
from tapestry.teg.graph import Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import part_amounts, work_dtype, work_of
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements


@dataclass(frozen=True)
class StepTime:
    """The seconds of one more step along an index dimension, of which the part has `size`.

    They are a mean over the second half of the part: tiles and waves of a kernel come in jumps.
    """

    dim: str
    size: int
    seconds: float


@dataclass(frozen=True)
class MarginalTime:
    """The time of equal blocks on the device that takes longest: all of it, of a single index point, and per step.

    `time_class` is the class of kernels whose figures count, such as `softmax.fp32`. Each of the blocks runs `rounds`
    times, and the times are those of one.
    """

    sites: tuple[str, ...]
    operator: str
    time_class: str
    seconds: float
    fixed_s: float
    steps: tuple[StepTime, ...]
    rounds: int

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        steps = [{"dim": each.dim, "size": each.size, "step_s": each.seconds} for each in self.steps]
        return {
            "sites": list(self.sites),
            "operator": self.operator,
            "class": self.time_class,
            "rounds": self.rounds,
            "time_s": self.seconds,
            "fixed_s": self.fixed_s,
            "steps": steps,
        }


@dataclass(frozen=True, eq=False)
class _Parts:
    """Equal blocks: their device, definition and types, and the parts that devices compute, `(devices, dims, 2)`."""

    sites: list[str]
    device: Device
    definition: Definition
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    index: np.ndarray
    accumulates: bool
    rounds: int


def marginal_times(
    graph: Graph, placements: Placements, mesh: Mesh, compute_dtype: str | None = None
) -> tuple[MarginalTime, ...]:
    """Compute the marginal times of the blocks of a plan on a mesh, those first that take longest together.

    Equal blocks are one entry; blocks that take no time are left out. Tensors have the layout of the language, without
    the padding of physical ones.
    """
    found = (_marginal_time(parts, compute_dtype) for parts in _equal_parts(graph, placements, mesh))
    taking_time = [each for each in found if each.seconds]
    return tuple(
        sorted(taking_time, key=lambda each: (-each.seconds * each.rounds * len(each.sites), each.sites))
    )


def _equal_parts(graph: Graph, placements: Placements, mesh: Mesh) -> Iterator[_Parts]:
    program = expand(graph, placements, MeshShape(mesh.axis_sizes))
    meshes = meshes_of_stages(mesh.part(program.axes), program.stages)
    known: dict[tuple[object, ...], _Parts] = {}
    rounds = Counter(slot.step.site for slot in program.slots)
    for step in (slot.step for slot in program.slots if not slot.step.round):
        device, times = meshes.of(step.stage).device, rounds[step.site]
        block = program.abstract.by_site[step.site]
        inputs, outputs = program.abstract.input_types(block), program.abstract.output_types(block)
        key = (device, step.definition, inputs, outputs, step.index.tobytes(), step.accumulates, times)
        parts = known.setdefault(
            key,
            _Parts([], device, step.definition, inputs, outputs, step.index, bool(step.accumulates), times),
        )
        parts.sites.append(step.site)
    yield from known.values()


def _marginal_time(parts: _Parts, compute_dtype: str | None) -> MarginalTime:
    """Compute the times of the slowest device's part, of its first point, and of halves of it along each dimension."""
    signature = parts.definition.signature
    names = [] if signature is None else [each.name for each in signature.dims]
    slowest = parts.index[int(_seconds(parts, parts.index, compute_dtype).argmax())]
    sizes = slowest[:, 1] - slowest[:, 0]
    kept = (sizes + 1) // 2
    variants = np.repeat(slowest[None], len(names) + 2, axis=0)
    variants[1, :, 1] = slowest[:, 0] + np.minimum(sizes, 1)
    for k in range(len(names)):
        variants[k + 2, k, 1] = slowest[k, 0] + kept[k]
    whole, point, *halves = (float(each) for each in _seconds(parts, variants, compute_dtype))
    steps = (
        StepTime(name, int(size), (whole - half) / int(size - rest))
        for name, size, rest, half in zip(names, sizes, kept, halves, strict=True)
        if size > rest
    )
    named = _class_of(parts, names, sizes, compute_dtype)
    return MarginalTime(
        tuple(parts.sites), parts.definition.operator, named, whole, point, tuple(steps), parts.rounds
    )


def _seconds(parts: _Parts, index: np.ndarray, compute_dtype: str | None) -> np.ndarray:
    """Compute the seconds of parts of the index space, `(parts, dims, 2)`, one device each."""
    types = (parts.inputs, parts.outputs)
    costs = costs_of_parts(
        parts.definition,
        *types,
        index[:, None],
        parts.device,
        compute_dtype,
        accumulates=parts.accumulates,
    )
    return seconds(costs.ticks)


def _class_of(parts: _Parts, names: list[str], sizes: np.ndarray, compute_dtype: str | None) -> str:
    if states_seconds(parts.definition.costs):
        return SUPPLIED_CLASS.name
    work = work_of(
        operator_named(parts.definition.operator),
        parts.definition,
        parts.inputs,
        parts.outputs,
        accumulates=parts.accumulates,
    )
    return block_class(
        parts.device,
        work.kind,
        work_dtype(parts.inputs, parts.outputs),
        kernel=work.kernel_class,
        compute_dtype=compute_dtype,
        parts=part_amounts(work, names, sizes),
    ).name
