"""The logical mesh of a table: sub-axes of the plan's mesh that all tensors use together are one axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tapestry.teg.exporters.tables.table import DimSharding, LogicalAxis, TensorSharding
from tapestry.teg.sharding.mesh_shape import MeshShape, SubAxis


def logical_axes(mesh_shape: MeshShape, tensors: Iterable[TensorSharding]) -> tuple[LogicalAxis, ...]:
    """Join neighboring sub-axes of one mesh axis that every tensor splits, reduces or replicates together.

    An axis that is joined whole keeps its name; parts of one are numbered. A single device is an axis of size 1.
    """
    splits, partials = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for tensor in tensors:
        splits.update(dim.axes for dim in _all_dims(tensor))
        partials.add(tensor.partial)
    taken = set[str]()
    axes = []
    for name, _ in mesh_shape.axes:
        runs = _runs([s for s in mesh_shape.sub_axes if s.axis == name], splits, partials)
        for k, run in enumerate(runs):
            label = _identifier(name if len(runs) == 1 else f"{name}_{k}", taken)
            axes.append(
                LogicalAxis(label, mesh_shape.size_of(s.name for s in run), tuple(s.name for s in run))
            )
    return tuple(axes) or (LogicalAxis("device", 1, ()),)


def _runs(
    subs: Sequence[SubAxis], splits: Iterable[tuple[str, ...]], partials: Iterable[tuple[str, ...]]
) -> list[list[SubAxis]]:
    runs: list[list[SubAxis]] = []
    for sub in subs:
        last = runs[-1][-1].name if runs else ""
        is_joined = (
            bool(runs)
            and all(_follows(sub.name, last, own) for own in splits)
            and all((sub.name in own) == (last in own) for own in partials)
        )
        if is_joined:
            runs[-1].append(sub)
        else:
            runs.append([sub])
    return runs


def _follows(name: str, last: str, axes: Sequence[str]) -> bool:
    """Return whether both sub-axes are missing, or the one follows the other."""
    if name not in axes or last not in axes:
        return name not in axes and last not in axes
    return axes.index(name) == axes.index(last) + 1


def _identifier(wanted: str, taken: set[str]) -> str:
    """Return a name for an axis that Python, XLA and MLIR accept, and note it as taken."""
    name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "axis"
    name = f"axis_{name}" if name[0].isdigit() else name
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _all_dims(tensor: TensorSharding) -> Iterator[DimSharding]:
    yield from tensor.dims
    for read in tensor.reads:
        yield from read.dims
    if tensor.factored is not None and any(dim.fault for dim in tensor.dims):
        yield from tensor.factored.dims


def renamed(tensor: TensorSharding, axes: Sequence[LogicalAxis]) -> TensorSharding:
    """Return the sharding with logical axes in the place of the sub-axes that they join."""
    first = {axis.sub_axes[0]: axis.name for axis in axes if axis.sub_axes}

    def of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(first[name] for name in names if name in first)

    def over(dims: Sequence[DimSharding]) -> tuple[DimSharding, ...]:
        return tuple(replace(dim, axes=of(dim.axes)) for dim in dims)

    factored = tensor.factored
    if factored is not None:
        is_needed = any(dim.fault for dim in tensor.dims)
        factored = replace(factored, dims=over(factored.dims)) if is_needed else None
    reads = tuple(replace(read, dims=over(read.dims)) for read in tensor.reads)
    return replace(tensor, dims=over(tensor.dims), partial=of(tensor.partial), factored=factored, reads=reads)
