"""Recovery of the abstract graph of an expansion from its shards alone.

Shards with one origin are combined by their index ranges; blocks between them (slices, joins, sums)
are followed back from each input to the shards that made it, and dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Block, Definition, Graph, Tensor
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.materialize import FIXED, MaterializedGraph, materialize, origin_of
from tapestry.teg.sharding.partition import partition_fault
from tapestry.teg.zspace import ZRange

BlockOutput = tuple[str, int]
"""An output of an abstract block: the block's site and the position."""


@dataclass
class _Origin:
    """The common data of the shards of one abstract block; per input the outputs its shards read."""

    definition: Definition
    indices: list[ZRange] = field(default_factory=list)
    inputs: list[set[BlockOutput]] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    boxes: list[list[ZRange]] = field(default_factory=list)
    dtypes: tuple[str, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    after: dict[str, None] = field(default_factory=dict)
    repetition: int = 0


def recover(expanded: ExplicitGraph | MaterializedGraph) -> Graph:
    """Recover the abstract graph that `expanded` is an expansion of; equal to it up to blocks that are not observed.

    Raises:
        ValueError: shards of one block disagree or do not make the whole, or an input mixes several tensors;
            or the expansion is too large to be written out as nodes.
    """
    explicit = materialize(expanded) if isinstance(expanded, ExplicitGraph) else expanded
    origins = _gather(explicit)
    names = {(site, k): t for site, origin in origins.items() for k, t in enumerate(origin.outputs)}
    blocks, tensors = [], {}
    for site, origin in origins.items():
        _check_whole(site, origin)
    for site in _program_order(origins):
        origin = origins[site]
        inputs = tuple(names[_single(site, k, found)] for k, found in enumerate(origin.inputs))
        after = tuple(origin.after)
        blocks.append(
            Block(site, origin.definition, inputs, origin.outputs, after=after, repetition=origin.repetition)
        )
        made = zip(origin.outputs, origin.boxes, origin.dtypes, origin.names, strict=True)
        for name, parts, dtype, dims in made:
            tensors[name] = Tensor(name, _shape(origin.definition, parts), dtype, dims)
    data, external = _data(explicit, tensors), _external(explicit, tensors)
    return Graph(explicit.graph.name, tuple(blocks), tensors, data, external)


def _gather(explicit: MaterializedGraph) -> dict[str, _Origin]:
    """Group the shards by origin, in order of their first appearance."""
    graph, boxes = explicit.graph, explicit.boxes
    made_by: dict[str, frozenset[BlockOutput]] = {}
    origins: dict[str, _Origin] = {}
    for block in graph.blocks:
        if block.index is None:
            passed = frozenset(o for t in block.inputs for o in made_by[t])
            made_by.update(dict.fromkeys(block.outputs, passed))
            continue
        site = origin_of(block.site)
        origin = origins.setdefault(site, _Origin(block.definition, repetition=block.repetition))
        if not origin.indices:
            origin.inputs = [set() for _ in block.inputs]
            origin.outputs = tuple(origin_of(t) for t in block.outputs)
            origin.boxes = [[] for _ in block.outputs]
            origin.dtypes = tuple(graph.tensors[t].dtype for t in block.outputs)
            origin.names = tuple(graph.tensors[t].names for t in block.outputs)
        if (origin.definition, len(origin.inputs)) != (block.definition, len(block.inputs)):
            raise ValueError(f"shard {block.site!r} differs in definition from other shards of {site!r}")
        origin.indices.append(block.index)
        origin.after.update(dict.fromkeys(origin_of(s) for s in block.after))
        for k, tensor in enumerate(block.inputs):
            origin.inputs[k] |= made_by[tensor]
        for k, tensor in enumerate(block.outputs):
            origin.boxes[k].append(boxes[tensor])
            made_by[tensor] = frozenset([(site, k)])
    return origins


def _program_order(origins: Mapping[str, _Origin]) -> list[str]:
    """Sort origins by first appearance, but every view before its readers: the first shard may not read it."""
    order: dict[str, None] = {}

    for first in origins:
        waiting = {first: None}
        while waiting:
            site = next(reversed(waiting))
            missing = [p for found in origins[site].inputs for p, _ in sorted(found) if p not in order]
            if not missing:
                waiting.pop(site)
                order[site] = None
            elif missing[0] in waiting:
                raise ValueError(f"the shards of {missing[0]!r} and {site!r} read each other")
            else:
                waiting[missing[0]] = None
    return list(order)


def _single(site: str, position: int, found: Iterable[BlockOutput]) -> BlockOutput:
    candidates = sorted(found)
    if len(candidates) != 1:
        raise ValueError(f"the shards of {site!r} read at input {position} not one tensor but {candidates}")
    return candidates[0]


def _check_whole(site: str, origin: _Origin) -> None:
    """Check that shards of a block tile its index space; of a view only what is read is there."""
    if origin.definition.is_view:
        return
    signature = origin.definition.signature
    whole = FIXED if signature is None else signature.index_range
    parts = np.array([list(zip(i.start, i.end, strict=True)) for i in origin.indices], dtype=np.int64)
    fault = partition_fault(parts.reshape(len(parts), whole.rank, 2), whole.start, whole.end)
    if fault is not None:
        raise ValueError(f"the shards of {site!r} do not make the whole block: {fault}")


def _shape(definition: Definition, parts: list[ZRange]) -> tuple[int, ...]:
    if definition.is_view:
        return tuple(definition["shape"])
    whole = parts[0]
    for part in parts:
        whole = whole.bounding(part)
    return whole.end


def _data(explicit: MaterializedGraph, tensors: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Combine the values of sources from those of their shards."""
    data: dict[str, np.ndarray] = {}
    for local, part in explicit.graph.data.items():
        tensor = tensors[origin_of(local)]
        whole = data.setdefault(tensor.site, np.empty(tensor.shape, part.dtype))
        box = explicit.boxes[local]
        whole[tuple(map(slice, box.start, box.end))] = part
    for whole in data.values():
        whole.setflags(write=False)
    return data


def _external(explicit: MaterializedGraph, tensors: dict[str, Tensor]) -> dict[str, ExternalData]:
    """Name the values of sources as their shards do."""
    named = {}
    for local, part in explicit.graph.external.items():
        tensor = tensors[origin_of(local)]
        named[tensor.site] = part.whole_of(explicit.boxes[local], tensor.shape)
    return named
