"""Reads that no cache serves: of sources, which were last read before all else that the program touches.

A program is taken to run again and again, as training steps, requests and measured programs do.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TypeAlias

from tapestry.hardware.device import Device
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import work_of

Types: TypeAlias = tuple[TensorType, ...]


def cold_tensors(graph: Graph, device: Device, device_count: int = 1) -> frozenset[str]:
    """Return the tensors that blocks read from the memory of a device, whatever its cache could hold.

    These are all sources, and views of them, if between two runs of a block the program touches more than twice the
    cache of each device, were everything split evenly over the devices.
    """
    if device.cache_bytes is None:
        return frozenset()
    if not _touches_more(graph, 2 * device.cache_bytes * device_count):
        return frozenset()
    found = {tensor for block in graph.sources for tensor in block.outputs}
    for block in graph.blocks:
        if block.is_view and block.inputs[0] in found:
            found.update(block.outputs)
    return frozenset(found)


def _touches_more(graph: Graph, limit_bytes: int) -> bool:
    """Return whether the blocks of a program touch more than so many bytes, each of a tensor's once."""
    roots: dict[str, str] = {}
    touched: dict[str, int] = {}
    total = 0
    for block in graph.blocks:
        is_source = block.operator == "source"
        inputs, outputs = graph.input_types(block), graph.output_types(block)
        reads = () if is_source or block.is_view else _read_bytes(block.definition, inputs, outputs)
        for tensor, size in zip(block.inputs, reads, strict=False):
            root = roots[tensor]
            more = min(size, graph.tensors[root].type.size_bytes) - touched[root]
            if more > 0:
                touched[root] += more
                total += more
        for tensor, kind in zip(block.outputs, outputs, strict=True):
            roots[tensor] = roots[block.inputs[0]] if block.is_view else tensor
            if roots[tensor] == tensor:
                touched[tensor] = 0 if is_source else kind.size_bytes
                total += touched[tensor]
        if total > limit_bytes:
            return True
    return False


@lru_cache(maxsize=1 << 14)
def _read_bytes(definition: Definition, inputs: Types, outputs: Types) -> tuple[int, ...]:
    """Count the bytes that a block reads of each input; none that it does not touch."""
    work = work_of(operator_named(definition.operator), definition, inputs, outputs)
    if work.kind == "none":
        return (0,) * len(inputs)
    dims = {d.name: d.size for d in definition.signature.dims} if definition.signature is not None else {}
    return tuple(
        prod(dims[name] for name in work.reads[k]) * item_bytes(kind.dtype)
        if k in work.reads
        else kind.size_bytes
        for k, kind in enumerate(inputs)
    )
