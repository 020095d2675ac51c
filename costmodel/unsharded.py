"""The costs of a program on one device, computed directly: no strategies, no tables, nothing compiled.

All columns of a plan's costs (`costmodel.kernel_arrays.COLUMNS`) and the program's own resources are counted, equal
to those of the reference cost model for the same program on one device that stores rows: time, flops, energy and
resources are sums over the blocks, the peak that of the live bytes in schedule order. A search that rewrites many
graphs evaluates them here first, and compiles those that are worth it. Padded layouts and windows that read less than
all are ignored, and so are copies to and from the host.

Columns that compare devices are what they are on one:

- `traffic_bytes` is zero, for there is no other device to receive from;
- `memory_waste_bytes` is zero, for every live tensor is there once and unpadded;
- `compute_waste_flops` is zero, for no block is computed twice;
- totals and maxima over devices are those of the only one.

So a search that is to rank unsharded programs learns nothing from columns in `CONSTANT_COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import given
from tapestry.costmodel.resources import Resource, counted
from tapestry.costmodel.space_compiler import LIVES_ON
from tapestry.costmodel.tally import CostTally
from tapestry.hardware.device import Device
from tapestry.hardware.timing import block_ticks, cold_tensors, energy_pj
from tapestry.teg.costs import supplied_seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Work, flops_of, kernel_sizes, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.host import is_on_host
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, scheduled_blocks
from tapestry.teg.sharding.rounds import Rounds, time_axis

# Columns that are zero for every unsharded program.
CONSTANT_COLUMNS = frozenset({"traffic_bytes", "memory_waste_bytes", "compute_waste_flops"})


class BlockSums(NamedTuple):
    """Costs of a block, or of all blocks of a program together, in whatever order they run."""

    time_ticks: int
    compute_flops: int
    energy_pj: int


class UnshardedCosts:
    """Costs of programs on one device; equal blocks are costed once.

    `resources` are those of the programs' own that are counted.
    """

    def __init__(
        self, device: Device, compute_dtype: str | None = None, resources: Sequence[Resource] = ()
    ) -> None:
        self.device, self.compute_dtype, self.resources = device, compute_dtype, tuple(resources)
        self._sums: dict[
            tuple[Definition, tuple[TensorType, ...], tuple[int, ...], tuple[bool, ...]], BlockSums
        ] = {}
        self._amounts: dict[Definition, tuple[int, ...]] = {}

    def cost(self, graph: Graph, order: str = SCHEDULE_ORDERS[0]) -> CostTally:
        """Compute the costs of a program whose blocks run in this schedule order."""
        return self.tally(graph, self.sums(graph), max(live_bytes(graph, order), default=0))

    def tally(self, graph: Graph, sums: BlockSums, peak_bytes: int) -> CostTally:
        """Build the costs of a program from its `sums` and its peak memory."""
        amounts = self._resources(graph) if self.resources else ()
        return CostTally(
            time_ticks=sums.time_ticks,
            peak_memory_bytes=peak_bytes,
            total_memory_bytes=peak_bytes,
            compute_flops=sums.compute_flops,
            peak_compute_flops=sums.compute_flops,
            energy_pj=sums.energy_pj,
            peak_per_device=[peak_bytes],
            resources={c: n for r, n in zip(self.resources, amounts, strict=True) for c in r.columns},
        )

    def time_ticks(self, graph: Graph) -> int:
        """Compute the time of the program, in whatever order its blocks run."""
        return self.sums(graph).time_ticks

    def sums(self, graph: Graph) -> BlockSums:
        """Compute the costs of the program that are sums over its blocks, in whatever order these run.

        Raises:
            ValueError: a block takes longer than any clock counts.
        """
        found = self.by_site(graph).values()
        return BlockSums(*map(sum, zip(*found, strict=True))) if found else BlockSums(0, 0, 0)

    def by_site(self, graph: Graph) -> dict[str, BlockSums]:
        """Compute the costs of each block that works, in program order.

        Raises:
            ValueError: a block takes longer than any clock counts.
        """
        sizes, roots = buffers_of(graph)
        cold = cold_tensors(graph, self.device)
        return {
            block.site: self._block(
                graph,
                block,
                tuple(sizes[roots[t]] for t in block.inputs),
                tuple(t in cold for t in block.inputs),
            )
            for block in graph.blocks
            if block.operator not in ("source", "sink") and not block.is_view
        }

    def _resources(self, graph: Graph) -> tuple[int, ...]:
        """Count the program's own resources over its blocks, each in units of one over its scale."""
        priced = (
            b.definition for b in graph.blocks if b.definition.costs is not None and b.operator != "view"
        )
        nothing = (0,) * len(self.resources)
        return tuple(map(sum, zip(nothing, *map(self._priced, priced), strict=True)))

    def _priced(self, definition: Definition) -> tuple[int, ...]:
        """Count the resources of a block."""
        if definition not in self._amounts:
            dims = definition.signature.dims if definition.signature is not None else ()
            sizes = np.array([d.size for d in dims], dtype=np.int64)
            self._amounts[definition] = tuple(int(counted(definition, r, sizes)) for r in self.resources)
        return self._amounts[definition]

    def _block(
        self, graph: Graph, block: Block, buffers: tuple[int, ...], cold: tuple[bool, ...]
    ) -> BlockSums:
        """Return the costs of a block that reads from buffers of these sizes in bytes, `cold` ones from memory."""
        inputs = graph.input_types(block)
        key = (block.definition, inputs, buffers, cold)
        if key not in self._sums:
            outputs = graph.output_types(block)
            self._sums[key] = self._measured(block.definition, inputs, outputs, buffers, cold)
        return self._sums[key]

    def _measured(
        self,
        definition: Definition,
        inputs: tuple[TensorType, ...],
        outputs: tuple[TensorType, ...],
        buffers: tuple[int, ...],
        cold: tuple[bool, ...],
    ) -> BlockSums:
        work = work_of(operator_named(definition.operator), definition, inputs, outputs)
        dtype = work_dtype(inputs, outputs)
        dims = definition.signature.dims if definition.signature is not None else ()
        names, sizes = [d.name for d in dims], np.array([d.size for d in dims], dtype=np.int64)
        flops, moved = given(definition, "flops", sizes), given(definition, "bytes", sizes)
        if flops is None:
            flops = flops_of(work, names, sizes)
        cold_bytes = written_bytes = 0
        if moved is None:
            read = _read(work, dict(zip(names, sizes, strict=True)), inputs, buffers)
            if read is not None:
                written_bytes = sum(t.size_bytes for t in outputs)
                cold_bytes = sum(size for size, is_cold in zip(read, cold, strict=True) if is_cold)
            moved = np.array(sum(read or ()) + written_bytes)
        parts = part_amounts(work, names, sizes)
        ticks = block_ticks(
            self.device,
            work.kind,
            flops,
            moved,
            dtype,
            cold_bytes=cold_bytes,
            written_bytes=written_bytes,
            compute_dtype=self.compute_dtype,
            parts=parts,
            **kernel_sizes(work, names, sizes),
            kernel=work.kernel_class,
            supplied_s=supplied_seconds(definition.costs, names, sizes),
        )
        energy = 0
        if self.device.missing_energy_figure is None:
            used = self.compute_dtype or dtype
            energy = int(energy_pj(self.device, used, flops, moved, 0, kind=work.kind, parts=parts))
        return BlockSums(int(ticks), int(flops), energy)


def _read(
    work: Work, extent: Mapping[str, int], inputs: Sequence[TensorType], buffers: Sequence[int]
) -> list[int] | None:
    """Count the bytes that a block reads of each input, of a repeated view those of its buffer; None: it moves none."""
    if work.kind == "none" or 0 in extent.values():
        return None
    found = []
    for k, (of, buffer) in enumerate(zip(inputs, buffers, strict=True)):
        if k in work.reads:
            elements = int(np.prod([extent[n] for n in work.reads[k]], dtype=np.int64))
            found.append(elements * item_bytes(of.dtype))
        else:
            found.append(min(of.size_bytes, buffer))
    return found


def buffers_of(graph: Graph) -> tuple[dict[str, int], Mapping[str, str]]:
    """Return the bytes of every buffer, and the buffer of each tensor: a view shares the buffer of its input.

    What lies on the host takes none of the device.
    """
    sizes: dict[str, int] = {}
    roots: dict[str, str] = {}
    for block in graph.blocks:
        for t in block.outputs:
            roots[t] = roots[block.inputs[0]] if block.is_view else t
            if roots[t] == t:
                sizes[t] = 0 if is_on_host(block) else graph.tensors[t].type.size_bytes
    return sizes, roots


def lasting_buffers(graph: Graph, roots: Mapping[str, str]) -> set[str]:
    """Return the buffers that live to the end: of results, and of sources that last and have no next value."""
    lasting = {t for b in graph.sources for t in b.outputs if b.definition["role"] in LIVES_ON}
    lasting -= graph.carried  # what has a next value is given up after its last reader
    return lasting | {roots[block.inputs[0]] for block in graph.sinks}


def live_bytes(
    graph: Graph, schedule_order: str = SCHEDULE_ORDERS[0], rounds: Rounds | None = None
) -> list[int]:
    """Compute the live bytes while each block works, in this schedule order, after those of the sources.

    Sources live from the start, sinks and lasting roles to the end. With `rounds`, of loops one round is counted, and
    of what is made and read in one loop alone, a slice.
    """
    sizes, roots = buffers_of(graph)
    blocks = scheduled_blocks(graph, schedule_order)
    if rounds is not None:
        time = time_axis(graph, rounds)
        blocks = tuple(chain.from_iterable(time.segments(blocks)))
        levels: dict[str, set[int]] = {}
        for block in blocks:
            for t in (*block.inputs, *block.outputs):
                levels.setdefault(roots[t], set()).add(time.levels[block.site])
        made = {t for block in blocks for t in block.outputs}
        for t in time.slices.keys() & made:
            if len(levels[t]) == 1:
                sizes[t] //= rounds.count
    last: dict[str, int] = {}
    lasting = lasting_buffers(graph, roots)
    for k, block in enumerate(blocks):
        last.update((roots[t], k) for t in (*block.inputs, *block.outputs))
    live = sum(sizes[t] for block in graph.sources for t in block.outputs)
    found = [live]
    for k, block in enumerate(blocks):
        live += sum(sizes[t] for t in block.outputs)
        found.append(live)
        done = {roots[t] for t in (*block.inputs, *block.outputs)}
        live -= sum(sizes[t] for t in done if last[t] == k and t not in lasting)
    return found
