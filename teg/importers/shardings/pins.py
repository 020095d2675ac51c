"""Conversion of stated shardings to pins: the specs of a program's blocks on the mesh of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tapestry.teg.exporters.tables.user_dims import InexpressibleSplit, factor_groups, factored_splits
from tapestry.teg.faults import no_such
from tapestry.teg.graph import Block, Graph
from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedAxis,
    StatedSharding,
    StatedShardings,
)
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.strategy import Strategy, consumer_spec, read_of
from tapestry.teg.stored_values import StoredValue


class _Stored(NamedTuple):
    """A named tensor of a program: the block that is pinned for it, its shape, its storage and its factors."""

    block: Block
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] | None


def pins_of(stated: StatedShardings, graph: Graph, mesh_shape: MeshShape) -> dict[str, str]:
    """Return the pins (the text of a spec by site) that place a program's tensors as stated.

    Tensors are found by the names of inputs and outputs, of the intermediate values that the import kept, or of
    blocks. An output that carries state is pinned by its source. A value that is stated in terms of a reduction which
    only a rewritten program has in its block is not pinned.

    Raises:
        ShardingError: the meshes differ, there is no such tensor, its dimensions cannot be split so where the graph
            stores them, or two names of one tensor are placed differently; all faults are listed.
    """
    sub_axes = _sub_axes(stated.axes, mesh_shape)
    pins: dict[str, tuple[str, str]] = {}
    faults: list[str] = []
    for tensor in stated.tensors:
        try:
            stored = _found(graph, tensor.name)
            if tensor.partial and not _reduces(stored.block, tensor.monoid):
                continue
            site, pin = _pin(graph, stored, _over_sub_axes(tensor, sub_axes), mesh_shape)
        except (ShardingError, InexpressibleSplit) as error:
            faults.append(f"{tensor.name}: {error}")
            continue
        name, other = pins.setdefault(site, (tensor.name, pin))
        if other != pin:
            faults.append(f"{tensor.name} is stored where {name} is, which is placed as {other}, not {pin}")
    if faults:
        raise ShardingError(*faults)
    return {site: pin for site, (_, pin) in pins.items()}


def _sub_axes(axes: Sequence[StatedAxis], mesh_shape: MeshShape) -> dict[str, tuple[str, ...]]:
    """Return the sub-axes of the mesh that each stated axis joins, by their names or in row-major order.

    Raises:
        ShardingError: the meshes have different numbers of devices, or a stated axis ends within a prime factor.
    """
    count = prod(axis.size for axis in axes)
    if count != mesh_shape.device_count:
        raise ShardingError(
            f"the shardings are for {count} devices and the mesh has {mesh_shape.device_count}; use a mesh of {count}"
        )
    named = {axis.name: axis.sub_axes for axis in axes}
    if all(
        set(axis.sub_axes) <= mesh_shape.positions.keys() and mesh_shape.size_of(axis.sub_axes) == axis.size
        for axis in axes
    ):
        return named
    waiting = list(mesh_shape.sub_axes)
    found = {}
    for axis in axes:
        own: list[str] = []
        while mesh_shape.size_of(own) < axis.size and waiting:
            own.append(waiting.pop(0).name)
        if mesh_shape.size_of(own) != axis.size:
            factors = ", ".join(f"{sub.name}={sub.size}" for sub in mesh_shape.sub_axes)
            raise ShardingError(
                f"axis {axis.name!r} of size {axis.size} joins no factors in a row of {factors}"
            )
        found[axis.name] = tuple(own)
    return found


def _over_sub_axes(tensor: StatedSharding, sub_axes: Mapping[str, tuple[str, ...]]) -> StatedSharding:
    def over(axes: Sequence[str]) -> tuple[str, ...]:
        for axis in axes:
            if axis not in sub_axes:
                raise ShardingError(no_such("axis", axis, list(sub_axes)))
        return tuple(sub for axis in axes for sub in sub_axes[axis])

    dims = tuple(Split(own, split.granule) if (own := over(split.axes)) else WHOLE for split in tensor.dims)
    used = [sub for split in dims for sub in split.axes] + list(over(tensor.partial))
    if len(set(used)) != len(used):
        raise ShardingError("an axis is used twice")
    return StatedSharding(tensor.name, dims, over(tensor.partial), tensor.monoid, tensor.factors)


def _found(graph: Graph, name: str) -> _Stored:
    """Find a tensor of the user's program.

    Raises:
        ShardingError: there is none of this name, or it is a view of another one.
    """
    block = graph.by_site.get(name)
    if name in graph.values and (block is None or block.operator not in ("source", "sink")):
        return _of_value(graph, graph.values[name])
    if block is None or not (block.inputs or block.outputs):
        known = [b.site for b in (*graph.sources, *graph.sinks)] + list(graph.values)
        raise ShardingError(no_such("tensor", name, known))
    tensor = graph.tensors[(block.outputs or block.inputs)[0]]
    shape = block.definition.get("logical_shape", tensor.shape)
    if block.operator not in ("source", "sink"):
        return _of_value(graph, StoredValue(tensor.site, shape, tuple((k,) for k in range(len(shape)))))
    return _Stored(block, shape, tensor.shape, factor_groups(shape, tensor.shape))


def _of_value(graph: Graph, value: StoredValue) -> _Stored:
    block = graph.producers[value.tensor]
    if block.is_view:
        raise ShardingError("it is a view of another tensor; state the sharding of that")
    if block.outputs[0] != value.tensor:
        raise ShardingError(f"it is not the first output of {block.site!r}, whose sharding is pinned")
    return _Stored(block, value.shape, graph.tensors[value.tensor].shape, value.dims)


def _reduces(block: Block, monoid: str | None) -> bool:
    return block.signature is not None and any(dim.kind == monoid for dim in block.signature.dims)


def _pin(graph: Graph, stored: _Stored, tensor: StatedSharding, mesh_shape: MeshShape) -> tuple[str, str]:
    """Return the site to pin, and the text of its spec."""
    splits = tuple(_splits(stored, tensor, mesh_shape))
    block = stored.block
    if block.operator != "sink":
        return block.site, str(Spec(splits, tensor.partial, tensor.monoid))
    source = graph.carriers.get(block.site)
    if source is not None:
        return source.site, str(Spec(splits))
    read = read_of(graph, block.site, 0)
    shape = graph.tensors[read.root].shape
    return block.site, str(consumer_spec(read.rows, shape, block.signature, Strategy(splits)))


def _splits(stored: _Stored, tensor: StatedSharding, mesh_shape: MeshShape) -> Iterator[Split]:
    """Yield the split of each stored dimension."""
    if tensor.factors is not None:
        if tensor.factors != stored.stored or len(tensor.dims) != len(stored.stored):
            raise ShardingError(
                f"it is stated over factors {list(tensor.factors)}, and stored as {list(stored.stored)}"
            )
        yield from tensor.dims
        return
    if len(tensor.dims) > len(stored.shape):
        raise ShardingError(
            f"{len(tensor.dims)} dimensions are stated, and it has shape {list(stored.shape)}"
        )
    found = [WHOLE] * len(stored.stored)
    if any(split.axes for split in tensor.dims):
        if stored.groups is None:
            raise ShardingError(
                f"it is stored as {list(stored.stored)}, where its dimensions are no dimensions"
            )
        for group, split in zip(stored.groups, tensor.dims, strict=False):
            if not group and split.axes:
                raise ShardingError("a dimension that is broadcast or has size 1 cannot be split")
            sizes = [stored.stored[k] for k in group]
            for k, own in zip(group, factored_splits(sizes, split, mesh_shape), strict=True):
                found[k] = own
    yield from found
