"""Construction of a table of shardings from a plan: the specs of its tensors, in the terms of the program it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tapestry.teg.exporters.tables.logical_mesh import logical_axes, renamed
from tapestry.teg.exporters.tables.table import (
    BUFFER,
    INPUT,
    INTERMEDIATE,
    OUTPUT,
    PARAMETER,
    STATE,
    DimSharding,
    FactoredDims,
    ShardingTable,
    TensorSharding,
)
from tapestry.teg.exporters.tables.user_dims import InexpressibleSplit, factor_groups, joined_split
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.spec import WHOLE, Spec, Split, chunk_size
from tapestry.teg.sharding.strategy import producer_spec
from tapestry.teg.stored_values import StoredValue

ROLE_OF = {"activation": INPUT, "parameter": PARAMETER, "buffer": BUFFER, "optimizer_state": STATE}


@dataclass(frozen=True)
class _Stored:
    """A tensor as the plan stores it: its spec over `stored`, and which of its dimensions make up the user's."""

    name: str
    role: str
    site: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] | None
    dtype: str
    spec: Spec
    layout: str = ""
    carries: str | None = None


def sharding_table(
    program: Graph, graph: Graph, placements: Placements, mesh_shape: MeshShape, plan: str = ""
) -> ShardingTable:
    """Build the table of a plan: `graph` is its rewritten graph, `program` the imported one that it is a plan for.

    Inputs, parameters and outputs are all in it, and the intermediate values of the imported program that are whole
    tensors of the rewritten graph. Constants are not: they belong to the program's text.
    """
    part = mesh_shape.part(placements.devices)
    placed = with_boundary(graph, placements)
    stored = [
        *_sources(program, graph, placed),
        *_sinks(graph, placed),
        *_intermediates(program, graph, placed),
    ]
    tensors = [_in_user_dims(tensor, part) for tensor in stored]
    axes = logical_axes(part, tensors)
    return ShardingTable(
        program.name,
        plan,
        mesh_shape.axes,
        placements.devices,
        axes,
        tuple(renamed(tensor, axes) for tensor in tensors),
    )


def _sources(program: Graph, graph: Graph, placed: Placements) -> Iterator[_Stored]:
    for source in program.sources:
        role = ROLE_OF.get(source.definition["role"])
        if role is None:
            continue
        tensor = program.tensors[source.outputs[0]]
        shape = source.definition.get("logical_shape", tensor.shape)
        block = graph.by_site.get(source.site)
        spec, layout = Spec((WHOLE,) * len(tensor.shape)), ""
        if block is not None:
            placement = placed.of(block)
            spec = producer_spec(block.signature, 0, len(tensor.shape), placement.strategy)
            layout = placement.layout_of(0)
        groups = factor_groups(shape, tensor.shape)
        yield _Stored(source.site, role, source.site, shape, tensor.shape, groups, tensor.dtype, spec, layout)


def _sinks(graph: Graph, placed: Placements) -> Iterator[_Stored]:
    for sink in graph.sinks:
        tensor = graph.tensors[sink.inputs[0]]
        shape = sink.definition.get("logical_shape", tensor.shape)
        placement = placed.of(sink)
        spec = Spec(placement.strategy.splits or (WHOLE,) * len(tensor.shape))
        groups, layout = factor_groups(shape, tensor.shape), placement.read_layout_of(0)
        carries = sink.definition.get("carries")
        yield _Stored(
            sink.site, OUTPUT, sink.site, shape, tensor.shape, groups, tensor.dtype, spec, layout, carries
        )


def _intermediates(program: Graph, graph: Graph, placed: Placements) -> Iterator[_Stored]:
    taken = {block.site for block in (*program.sources, *program.sinks)}
    for name, value in _values(program).items():
        tensor = graph.tensors.get(value.tensor)
        if name in taken or tensor is None or tensor.type != program.tensors[value.tensor].type:
            continue
        block = graph.producers[tensor.site]
        if block.is_view or block.operator == "source":
            continue
        placement, position = placed.of(block), block.outputs.index(tensor.site)
        spec = producer_spec(block.signature, position, len(tensor.shape), placement.strategy)
        layout = placement.layout_of(position)
        yield _Stored(
            name,
            INTERMEDIATE,
            block.site,
            value.shape,
            tensor.shape,
            value.dims,
            tensor.dtype,
            spec,
            layout,
        )


def _values(program: Graph) -> Mapping[str, StoredValue]:
    """Return the intermediate values of a program: a program that was not imported has its tensors for them."""
    if any(source.definition.get("logical_shape") is not None for source in program.sources):
        return program.values
    made = (program.tensors[site] for block in program.blocks for site in block.outputs)
    return {t.site: StoredValue(t.site, t.shape, tuple((k,) for k in range(len(t.shape)))) for t in made}


def _in_user_dims(tensor: _Stored, mesh_shape: MeshShape) -> TensorSharding:
    """Return the sharding over the user's dimensions; axes are sub-axes of the plan's mesh still."""
    own = tuple(_dim(n, split, mesh_shape) for n, split in zip(tensor.stored, tensor.spec.dims, strict=True))
    groups = tensor.groups
    if groups is None:
        fault = "the plan stores the tensor in other dimensions, and splits one of them"
        is_split = any(dim.axes for dim in own)
        dims = tuple(DimSharding(n, fault=fault if is_split else "") for n in tensor.shape)
    else:
        dims = tuple(
            _joined(n, [tensor.stored[k] for k in group], [tensor.spec.dims[k] for k in group], mesh_shape)
            for n, group in zip(tensor.shape, groups, strict=True)
        )
    is_plain = groups == tuple((k,) for k in range(len(tensor.stored)))
    return TensorSharding(
        tensor.name,
        tensor.role,
        tensor.site,
        tensor.shape,
        tensor.dtype,
        dims,
        tensor.spec.partial,
        tensor.spec.monoid,
        None if is_plain else FactoredDims(tensor.stored, groups, own),
        tensor.layout,
        tensor.carries,
    )


def _dim(size: int, split: Split, mesh_shape: MeshShape) -> DimSharding:
    if not split.axes:
        return DimSharding(size)
    chunk = chunk_size(size, mesh_shape.size_of(split.axes), split.granule)
    return DimSharding(chunk, split.axes, split.granule)


def _joined(size: int, sizes: Sequence[int], splits: Sequence[Split], mesh_shape: MeshShape) -> DimSharding:
    try:
        return _dim(size, joined_split(sizes, splits, mesh_shape), mesh_shape)
    except InexpressibleSplit as error:
        return DimSharding(size, fault=str(error))
