"""The traffic of a plan, copy by copy: what is redistributed for which blocks, in which rounds, over which mesh axes.

The simulator counts, without values: nothing of the cost model is repeated here. Sums over copies and blocks equal the
totals of the run, because they are taken from it slot by slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import ClockSpan, Execution
from tapestry.hardware.simulator.run import Simulation, simulation_of
from tapestry.teg.brief import counted, shown
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import Buffer, CopyStep, ExplicitGraph, Slot, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.stopping import CheckStop, never_stop


class StoredForm(NamedTuple):
    """The form in which devices store what a round has of a tensor: its spec, shape and layout, and their stage."""

    spec: Spec
    shape: tuple[int, ...]
    layout: str
    stage: int


class TensorRead(NamedTuple):
    """An input of a block: its site, and the position of the input."""

    site: str
    position: int


class ExchangeClass(NamedTuple):
    """A mesh axis, a kind of exchange, and the number of devices that take part along the axis."""

    axis: str
    kind: str
    members: int


@dataclass
class Redistribution:
    """A copy of a tensor from one form into another, with all times that it is made.

    `reads` are the inputs that it serves; the first of them made it necessary. `exchanges` have the bytes that devices
    receive; without any, each device moves what it holds, to or from its host where a layout says so. `ticks` are from
    the begin of each copy to its end, added up; copies and blocks run side by side.
    """

    tensor: str
    source: StoredForm
    result: StoredForm
    reads: dict[TensorRead, None] = field(default_factory=dict)
    rounds: set[int] = field(default_factory=set)
    times: int = 0
    exchanges: dict[ExchangeClass, int] = field(default_factory=lambda: defaultdict(int))
    ticks: int = 0

    @property
    def traffic_bytes(self) -> int:
        """The bytes that devices receive from others."""
        return sum(self.exchanges.values())


@dataclass
class BlockTotals:
    """The costs of a block in all rounds: flops, bytes accessed and energy of all devices, ticks of the slowest one.

    The energy is without idle power, and 0 where a device lacks a figure for it.
    """

    times: int = 0
    flops: int = 0
    accessed_bytes: int = 0
    ticks: int = 0
    energy_pj: int = 0


@dataclass(frozen=True, eq=False)
class PlanTraffic:
    """The traffic of a plan, with the costs of its blocks by site, and the run that counted both.

    `received_bytes` `(axes, devices)` is what each device that works receives over each mesh axis; `devices` are their
    numbers in the whole mesh, stage by stage. `has_energy` is false where a device lacks a figure for energy.
    """

    program: ExplicitGraph
    execution: Execution
    redistributions: tuple[Redistribution, ...]
    blocks: Mapping[str, BlockTotals]
    received_bytes: np.ndarray
    devices: tuple[int, ...]
    has_energy: bool

    def __repr__(self) -> str:
        sizes = counted(len(self.redistributions), "redistribution"), f"{self.execution.traffic_bytes:,} B"
        return shown("PlanTraffic", sizes)


def plan_traffic(
    graph: Graph,
    placements: Placements,
    mesh: Mesh,
    compute_dtype: str | None = None,
    check_stop: CheckStop = never_stop,
) -> PlanTraffic:
    """Count what a plan moves, for every copy and block of it. `check_stop` is called before each slot.

    Raises:
        ValueError: the placements do not fit the graph and the mesh.
    """
    mesh_shape = MeshShape(mesh.axis_sizes)
    program = expand(graph, placements, mesh_shape)
    used = mesh.part(program.axes)
    run = simulation_of(program, used, None, dry=True, capacity_check=False, compute_dtype=compute_dtype)
    count = _Count(program, run)
    run.begin()
    for number, slot in enumerate(program.slots):
        check_stop()
        count.slot(number, slot)
    found = tuple(count.found.values())
    devices = _devices(program, mesh_shape)
    has_energy = all(kind.device.missing_energy_figure is None for kind in run.meshes.kinds)
    return PlanTraffic(program, run.finish(), found, count.blocks, count.received_bytes, devices, has_energy)


class _Count:
    """Runs slots one after the other, and assigns what each adds to the totals of the run."""

    def __init__(self, program: ExplicitGraph, run: Simulation) -> None:
        self.program, self.run = program, run
        self.found: dict[object, Redistribution] = {}
        self.blocks: dict[str, BlockTotals] = defaultdict(BlockTotals)
        self.axes = [name for name, _ in program.axes]
        self.received_bytes = np.zeros((len(self.axes), program.device_count), dtype=np.int64)
        self.reads: dict[str, list[tuple[TensorRead, int]]] = defaultdict(list)
        for slot in program.slots:
            for position, read in enumerate(slot.step.reads):
                self.reads[read.buffer].append((TensorRead(slot.step.site, position), slot.step.round))

    def slot(self, number: int, slot: Slot) -> None:
        """Run a slot, and count its copies and its block."""
        flops, accessed = self.run.flops.sum(), self.run.accessed_bytes.sum()
        energy = self.run.energy_pj.sum()
        known = len(self.run.spans)
        self.run.run_slot(number)
        *copies, block = self.run.spans[known:]
        for copy, span in zip(slot.issued, copies, strict=True):
            self._copy(copy, span)
        totals = self.blocks[slot.step.site]
        totals.times += 1
        totals.flops += int(self.run.flops.sum() - flops)
        totals.accessed_bytes += int(self.run.accessed_bytes.sum() - accessed)
        totals.ticks += _longest(block)
        totals.energy_pj += int(self.run.energy_pj.sum() - energy)

    def _copy(self, copy: CopyStep, span: ClockSpan) -> None:
        buffers = self.program.buffers
        source, result = buffers[copy.source], buffers[copy.result]
        reads = self.reads[copy.result]
        key = (source.tensor, form_of(source), form_of(result), reads[0][0])
        entry = self.found.setdefault(key, Redistribution(source.tensor, key[1], key[2]))
        entry.times += 1
        entry.ticks += _longest(span)
        for read, round_ in reads:
            entry.reads[read] = None
            entry.rounds.add(round_)
        for exchange in self.run.backend.copy(copy).exchanges:
            axis, kind, members, _ = exchange.round
            entry.exchanges[ExchangeClass(axis, kind, members)] += int(exchange.received_bytes.sum())
            np.add.at(self.received_bytes[self.axes.index(axis)], span.numbers, exchange.received_bytes)


def form_of(buffer: Buffer) -> StoredForm:
    """Return the form in which a buffer is stored."""
    return StoredForm(buffer.spec, buffer.shape, buffer.layout, buffer.stage)


def _longest(span: ClockSpan) -> int:
    return int((span.end_ticks - span.start_ticks).max())


def _devices(program: ExplicitGraph, mesh_shape: MeshShape) -> tuple[int, ...]:
    """Return the numbers in the whole mesh of the devices that run a program."""
    if program.stages is not None:
        return tuple(program.stages.devices.reshape(-1).tolist())
    places = tuple(program.mesh_shape.axis_coordinates.T)
    sizes = [size for _, size in mesh_shape.axes]
    return tuple(np.ravel_multi_index(places, sizes).tolist()) if sizes else (0,)
