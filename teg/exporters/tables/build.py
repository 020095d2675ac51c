"""Construction of a table of shardings from a plan: the specs of its tensors, in the terms of the program it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    ReadSharding,
    ShardingTable,
    TensorSharding,
)
from tapestry.teg.exporters.tables.user_dims import InexpressibleSplit, factor_groups, joined_split
from tapestry.teg.graph import Block, Graph, Tensor
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.spec import WHOLE, Spec, Split, chunk_size
from tapestry.teg.sharding.stages import check_one_stage
from tapestry.teg.sharding.strategy import consumer_spec, producer_spec, read_of
from tapestry.teg.stored_values import StoredValue

UNKNOWN = "the program has no such value"
ROLE_OF = {"activation": INPUT, "parameter": PARAMETER, "buffer": BUFFER, "optimizer_state": STATE}


@dataclass(frozen=True)
class _Stored:
    """A tensor as the block `site` stores it, and which of its dimensions make up each dimension of the user's."""

    name: str
    role: str
    site: str
    tensor: Tensor
    shape: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] | None
    spec: Spec
    layout: str = ""
    carries: str | None = None


def sharding_table(
    program: Graph, graph: Graph, placements: Placements, mesh_shape: MeshShape, plan: str = ""
) -> ShardingTable:
    """Build the table of a plan: `graph` is its rewritten graph, `program` the imported one that it is a plan for.

    Inputs, parameters and outputs are all in it, and the intermediate values of the imported program that are whole
    tensors of the rewritten graph. Constants are not: they belong to the program's text.

    Raises:
        ValueError: the plan has stages; a table does not say on which a tensor is.
    """
    check_one_stage(placements.stages, "a table of shardings")
    part = mesh_shape.part(placements.devices)
    placed = with_boundary(graph, placements)
    stored = [
        *_sources(program, graph, placed),
        *_sinks(graph, placed),
        *_intermediates(program, graph, placed),
    ]
    tensors = _with_reads(graph, placed, stored, [_in_user_dims(tensor, part) for tensor in stored], part)
    axes = logical_axes(part, tensors)
    return ShardingTable(
        program.name,
        plan,
        mesh_shape.axes,
        placements.devices,
        axes,
        tuple(renamed(tensor, axes) for tensor in tensors),
        "" if placements.rounds is None else str(placements.rounds),
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
        yield _Stored(source.site, role, source.site, tensor, shape, groups, spec, layout)


def _sinks(graph: Graph, placed: Placements) -> Iterator[_Stored]:
    for sink in graph.sinks:
        tensor = graph.tensors[sink.inputs[0]]
        shape = sink.definition.get("logical_shape", tensor.shape)
        placement = placed.of(sink)
        spec = Spec(placement.strategy.splits or (WHOLE,) * len(tensor.shape))
        groups, layout = factor_groups(shape, tensor.shape), placement.read_layout_of(0)
        carries = sink.definition.get("carries")
        yield _Stored(sink.site, OUTPUT, sink.site, tensor, shape, groups, spec, layout, carries)


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
        yield _Stored(name, INTERMEDIATE, block.site, tensor, value.shape, value.dims, spec, layout)


def _with_reads(
    graph: Graph,
    placed: Placements,
    stored: Sequence[_Stored],
    tensors: Sequence[TensorSharding],
    mesh_shape: MeshShape,
) -> list[TensorSharding]:
    """Return the shardings with what the blocks that make them read otherwise than it is left.

    Those of a block that makes an output, and no value that others read, are stated with it. A read of a part, such as
    one with a halo, is not stated. Where a block leaves terms, its reads say which: those that cannot be stated have a
    fault.
    """
    known: dict[str, list[tuple[_Stored, TensorSharding]]] = {}
    for own, tensor in zip(stored, tensors, strict=True):
        if own.role != OUTPUT:
            known.setdefault(own.tensor.site, []).append((own, tensor))

    inside = {own.tensor.site for own in stored if own.role == INTERMEDIATE}

    def maker(own: _Stored) -> Block | None:
        """Return the block that makes a value inside the program, or an output that is none of these."""
        if own.role == OUTPUT and own.tensor.site not in inside:
            made = graph.producers[own.tensor.site]
            return None if made.is_view or made.operator == "source" else made
        return graph.by_site[own.site] if own.role == INTERMEDIATE else None

    def reads(own: _Stored) -> Iterator[ReadSharding]:
        block = maker(own)
        if block is None:
            return
        strategy = placed.of(block).strategy
        for position in range(len(block.inputs)):
            read = read_of(graph, block.site, position)
            shape = graph.tensors[read.root].shape
            spec = consumer_spec(read.rows, shape, block.signature, strategy)
            if read.root not in known and own.spec.partial:
                yield ReadSharding(read.root, tuple(DimSharding(n, fault=UNKNOWN) for n in shape))
            for other, left in known.get(read.root, ()) if not spec.windows else ():
                needed = _in_user_dims(replace(other, spec=spec), mesh_shape).dims
                is_stated = not any(dim.fault for dim in needed)
                is_moved = bool(_places(needed) != _places(left.dims) or left.partial)
                if is_moved if is_stated else own.spec.partial:
                    yield ReadSharding(left.name, needed)

    return [
        replace(tensor, reads=tuple(dict.fromkeys(reads(own))))
        for own, tensor in zip(stored, tensors, strict=True)
    ]


def _places(dims: Sequence[DimSharding]) -> list[tuple[tuple[str, ...], int]]:
    """Return what says where elements are: a granule is in the size of the chunks already."""
    return [(dim.axes, dim.chunk) for dim in dims]


def _values(program: Graph) -> Mapping[str, StoredValue]:
    """Return the intermediate values of a program: a program that was not imported has its tensors for them."""
    if any(source.definition.get("logical_shape") is not None for source in program.sources):
        return program.values
    made = (program.tensors[site] for block in program.blocks for site in block.outputs)
    return {t.site: StoredValue(t.site, t.shape, tuple((k,) for k in range(len(t.shape)))) for t in made}


def _in_user_dims(stored: _Stored, mesh_shape: MeshShape) -> TensorSharding:
    """Return the sharding over the user's dimensions; axes are sub-axes of the plan's mesh still."""
    sizes, splits = stored.tensor.shape, stored.spec.dims
    own = tuple(_dim(n, split, mesh_shape) for n, split in zip(sizes, splits, strict=True))
    groups = stored.groups
    if groups is None:
        fault = "the plan stores the tensor in other dimensions, and splits one of them"
        is_split = any(dim.axes for dim in own)
        dims = tuple(DimSharding(n, fault=fault if is_split else "") for n in stored.shape)
    else:
        dims = tuple(
            _joined(n, [sizes[k] for k in group], [splits[k] for k in group], mesh_shape)
            for n, group in zip(stored.shape, groups, strict=True)
        )
    is_plain = groups == tuple((k,) for k in range(len(sizes)))
    return TensorSharding(
        stored.name,
        stored.role,
        stored.site,
        stored.shape,
        stored.tensor.dtype,
        dims,
        stored.spec.partial,
        stored.spec.monoid,
        None if is_plain else FactoredDims(sizes, groups, own),
        stored.layout,
        stored.carries,
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
