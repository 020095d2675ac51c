"""The cost of a program on one device, computed directly: no strategies, no tables, nothing compiled.

The time is the sum of the blocks' times, the peak that of the live bytes in program order. This equals the
reference cost model of the same program on one device that stores rows: a search that rewrites many graphs evaluates
them here first, and compiles those that are worth it. Padded layouts and windows that read less than all are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import given, tile_sizes
from tapestry.costmodel.plan_space import LIVES_ON
from tapestry.hardware.mesh import Device
from tapestry.hardware.timing import block_ticks
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Work, flops_of, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, schedule_order


class UnshardedCost(NamedTuple):
    """The cost of a program: ticks of 1 ps, and bytes."""

    time_ticks: int
    peak_memory_bytes: int


class UnshardedCosts:
    """Costs of programs on one device; equal blocks are costed once."""

    def __init__(self, device: Device, compute_dtype: str | None = None) -> None:
        self.device, self.compute_dtype = device, compute_dtype
        self._ticks: dict[tuple[Definition, tuple[TensorType, ...], tuple[int, ...]], int] = {}

    def cost(self, graph: Graph) -> UnshardedCost:
        """Compute the time and peak memory of the program, its blocks in program order."""
        return UnshardedCost(self.time_ticks(graph), max(live_bytes(graph), default=0))

    def time_ticks(self, graph: Graph) -> int:
        """Compute the time of the program, in whatever order its blocks run."""
        sizes, roots = _buffers(graph)
        total = 0
        for block in graph.blocks:
            if block.operator not in ("source", "sink") and not block.is_view:
                total += self._block(graph, block, tuple(sizes[roots[t]] for t in block.inputs))
        return total

    def _block(self, graph: Graph, block: Block, buffers: tuple[int, ...]) -> int:
        """Return the ticks of a block that reads from buffers of these sizes in bytes."""
        inputs = graph.input_types(block)
        key = (block.definition, inputs, buffers)
        if key not in self._ticks:
            self._ticks[key] = self._measured(block.definition, inputs, graph.output_types(block), buffers)
        return self._ticks[key]

    def _measured(
        self,
        definition: Definition,
        inputs: tuple[TensorType, ...],
        outputs: tuple[TensorType, ...],
        buffers: tuple[int, ...],
    ) -> int:
        work = work_of(operator_named(definition.operator), definition, inputs, outputs)
        dims = definition.signature.dims if definition.signature is not None else ()
        names, sizes = [d.name for d in dims], np.array([d.size for d in dims], dtype=np.int64)
        flops, moved = given(definition, "flops", sizes), given(definition, "bytes", sizes)
        ticks = block_ticks(
            self.device,
            work.kind,
            flops_of(work, names, sizes) if flops is None else flops,
            _moved(work, dict(zip(names, sizes, strict=True)), inputs, outputs, buffers)
            if moved is None
            else moved,
            work_dtype(inputs, outputs),
            compute_dtype=self.compute_dtype,
            parts=part_amounts(work, names, sizes),
            **tile_sizes(definition, work, sizes),
        )
        return int(ticks)


def _moved(
    work: Work,
    extent: Mapping[str, int],
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    buffers: Sequence[int],
) -> int:
    """Count the bytes that a block reads and writes; of a repeated view only those of its buffer."""
    if work.kind == "none" or 0 in extent.values():
        return 0
    moved = sum(t.size_bytes for t in outputs)
    for k, (of, buffer) in enumerate(zip(inputs, buffers, strict=True)):
        if k in work.reads:
            moved += int(np.prod([extent[n] for n in work.reads[k]], dtype=np.int64)) * item_bytes(of.dtype)
        else:
            moved += min(of.size_bytes, buffer)
    return moved


def _buffers(graph: Graph) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return the bytes of every buffer, and the buffer of each tensor: a view shares the buffer of its input."""
    sizes: dict[str, int] = {}
    roots: dict[str, str] = {}
    for block in graph.blocks:
        for t in block.outputs:
            roots[t] = roots[block.inputs[0]] if block.is_view else t
            if roots[t] == t:
                sizes[t] = graph.tensors[t].type.size_bytes
    return sizes, roots


def live_bytes(graph: Graph, order: str = SCHEDULE_ORDERS[0]) -> list[int]:
    """Compute the live bytes while each block works, in this schedule order, after those of the sources.

    Sources live from the start, sinks and lasting roles to the end.
    """
    sizes, roots = _buffers(graph)
    blocks = schedule_order(graph, order)
    last: dict[str, int] = {}
    lasting = {t for b in graph.sources for t in b.outputs if b.definition["role"] in LIVES_ON}
    lasting -= graph.carried  # what has a next value is given up after its last reader
    for k, block in enumerate(blocks):
        last.update((roots[t], k) for t in (*block.inputs, *block.outputs))
        if block.operator == "sink":
            lasting.add(roots[block.inputs[0]])
    live = sum(sizes[t] for block in graph.sources for t in block.outputs)
    found = [live]
    for k, block in enumerate(blocks):
        live += sum(sizes[t] for t in block.outputs)
        found.append(live)
        done = {roots[t] for t in (*block.inputs, *block.outputs)}
        live -= sum(sizes[t] for t in done if last[t] == k and t not in lasting)
    return found
