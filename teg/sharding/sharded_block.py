"""A block under a strategy on a mesh: the parts that each device computes, reads and writes.

Blocks of equal form, as in equal layers, share them, and so do the plans that place them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.rounds import TimeAxis
from tapestry.teg.sharding.spec import Spec, boxes
from tapestry.teg.sharding.strategy import Read, Strategy, consumer_spec, index_boxes, producer_spec, read_of
from tapestry.teg.views import RootRow, ViewMap, root_of


class ReadForm(NamedTuple):
    """The form of a read: the shape of the root tensor, the view of it, and the rows over the root."""

    shape: tuple[int, ...]
    view: ViewMap
    rows: tuple[RootRow, ...]


@dataclass(frozen=True)
class BlockForm:
    """All of a block and its tensors but their names: the definition, the reads, and the shapes written."""

    definition: Definition
    reads: tuple[ReadForm, ...]
    written: tuple[tuple[int, ...], ...]


class NumberedForm(NamedTuple):
    """The form of a block of a graph, the number that stands for it in keys, and the root tensors that it reads."""

    number: int
    form: BlockForm
    roots: tuple[str, ...]


class ShardedRead(NamedTuple):
    """A read under a strategy: the spec needed, its boxes, and the range of the view, `(devices, rank, 2)` both."""

    needed: Spec
    part: np.ndarray
    wanted: np.ndarray


class ShardedBlock(NamedTuple):
    """A block under a strategy: its index boxes, its reads, and the spec and boxes of each output.

    Index boxes are `(devices, dims, 2)`, boxes of tensors `(devices, rank, 2)`.
    """

    index_boxes: np.ndarray
    reads: tuple[ShardedRead, ...]
    written: tuple[tuple[Spec, np.ndarray], ...]


def forms_of(graph: Graph, cache: ResultCache) -> Mapping[str, NumberedForm]:
    """Return the forms of a graph's blocks, by site; views have none."""
    stored = [block for block in graph.blocks if not block.is_view]
    return cache.known(("forms", graph), lambda: {b.site: _numbered(graph, b, cache) for b in stored})


def _numbered(graph: Graph, block: Block, cache: ResultCache) -> NumberedForm:
    reads, roots = [], []
    for position, tensor in enumerate(block.inputs):
        read = read_of(graph, block.site, position)
        _, view = root_of(graph, tensor)
        reads.append(ReadForm(graph.tensors[read.root].shape, view, read.rows))
        roots.append(read.root)
    written = tuple(graph.tensors[tensor].shape for tensor in block.outputs)
    form = BlockForm(block.definition, tuple(reads), written)
    number, form = cache.known(("form", form), lambda: (cache.next_number(), form))
    return NumberedForm(number, form, tuple(roots))


def shard_block(form: NumberedForm, strategy: Strategy, cache: ResultCache) -> ShardedBlock:
    """Compute the parts of a block under a strategy."""
    key = ("block", form.number, strategy)
    return cache.known(key, lambda: _sharded(form.form, strategy, cache))


def shard_in_round(
    numbered: NumberedForm, block: Block, strategy: Strategy, time: TimeAxis, number: int, cache: ResultCache
) -> ShardedBlock:
    """Compute the parts of a block in a round, as boxes in whole index spaces and tensors."""
    roots = tuple(time.slices.get(root) for root in numbered.roots)
    written = tuple(time.slices.get(tensor) for tensor in block.outputs)
    dim = time.dims.get(block.site)
    key = ("in round", numbered.number, strategy, dim, roots, written, time.count, number)
    return cache.known(
        key, lambda: _in_round(numbered.form, numbered.roots, block, strategy, time, number, cache)
    )


def _in_round(
    form: BlockForm,
    roots: Sequence[str],
    block: Block,
    strategy: Strategy,
    time: TimeAxis,
    number: int,
    cache: ResultCache,
) -> ShardedBlock:
    """Compute the parts of a slice, and move them to where the slice lies."""
    definition, dim = time.definition_of(block), time.dims.get(block.site)
    signature = definition.signature
    index = index_boxes(signature, strategy, cache.mesh_shape)
    if signature is not None and dim is not None:
        index[:, dim] += number * signature.dims[dim].size
    cache.freeze(index)
    reads = []
    for position, (root, read) in enumerate(zip(roots, form.reads, strict=True)):
        shape, origin = time.slice_of(root, read.shape, number)
        rows = time.read_in(Read(root, read.rows), read.shape).rows
        needed = consumer_spec(rows, shape, signature, strategy, definition.carries)
        part = _moved(spec_boxes(needed, shape, cache), origin, cache)
        wanted = cache.freeze(view_ranges(form.definition, position, read.view.shape, index))
        reads.append(ShardedRead(needed, part, wanted))
    made = []
    for position, (tensor, whole) in enumerate(zip(block.outputs, form.written, strict=True)):
        shape, origin = time.slice_of(tensor, whole, number)
        spec = producer_spec(signature, position, len(shape), strategy)
        made.append((spec, _moved(spec_boxes(spec, shape, cache), origin, cache)))
    return ShardedBlock(index, tuple(reads), tuple(made))


def _moved(parts: np.ndarray, origin: tuple[int, ...], cache: ResultCache) -> np.ndarray:
    """Return boxes of a slice as boxes of the tensor; equal ones are one array."""
    if not any(origin):
        return parts
    key = ("moved", cache.key_of(parts), origin)
    return cache.known(key, lambda: parts + np.array(origin, dtype=np.int64)[:, None])


def _sharded(form: BlockForm, strategy: Strategy, cache: ResultCache) -> ShardedBlock:
    signature = form.definition.signature
    index = cache.known(
        ("index", signature, strategy), lambda: index_boxes(signature, strategy, cache.mesh_shape)
    )
    reads = tuple(_read(form, position, strategy, index, cache) for position in range(len(form.reads)))
    specs = [producer_spec(signature, k, len(shape), strategy) for k, shape in enumerate(form.written)]
    pairs = zip(specs, form.written, strict=True)
    return ShardedBlock(index, reads, tuple((spec, spec_boxes(spec, shape, cache)) for spec, shape in pairs))


def _read(
    form: BlockForm, position: int, strategy: Strategy, index: np.ndarray, cache: ResultCache
) -> ShardedRead:
    read, definition = form.reads[position], form.definition
    needed = consumer_spec(read.rows, read.shape, definition.signature, strategy, definition.carries)
    key = ("ranges", definition.signature, position, read.view.shape, cache.key_of(index))
    wanted = cache.known(key, lambda: view_ranges(definition, position, read.view.shape, index))
    return ShardedRead(needed, spec_boxes(needed, read.shape, cache), wanted)


def spec_boxes(spec: Spec, shape: tuple[int, ...], cache: ResultCache) -> np.ndarray:
    """Return the boxes of a spec, `(devices, rank, 2)`."""
    return cache.known(("boxes", spec, shape), lambda: boxes(spec, shape, cache.mesh_shape))


def view_ranges(
    definition: Definition, position: int, shape: tuple[int, ...], index: np.ndarray
) -> np.ndarray:
    """Compute the range of input `position` each device reads, clipped to the tensor, `(devices, rank, 2)`."""
    result = np.zeros((len(index), len(shape), 2), dtype=np.int64)
    result[:, :, 1] = shape
    if definition.signature is None:
        return result
    empty = np.any(index[:, :, 1] <= index[:, :, 0], axis=1)
    rows = definition.signature.inputs[position]
    for k, (offset, extent, size) in enumerate(zip(rows.start.offset, rows.shape, shape, strict=True)):
        coefficients = np.array(rows.start.matrix[k], dtype=np.int64)
        first, last = coefficients * index[:, :, 0], coefficients * (index[:, :, 1] - 1)
        start = np.clip(np.minimum(first, last).sum(axis=1) + offset, 0, size)
        end = np.clip(np.maximum(first, last).sum(axis=1) + offset + extent, start, size)
        result[:, k, 0] = start
        result[:, k, 1] = np.where(empty, start, end)
    return result
