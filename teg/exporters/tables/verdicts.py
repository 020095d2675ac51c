"""Verdicts of expressibility: whether a program's framework can place a tensor as the plan does, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable, TensorSharding

OK = "ok"

# The names of DTensor's reductions, by monoid.
DTENSOR_REDUCTIONS = {"sum": "sum", "prod": "product", "max": "max", "min": "min"}


@dataclass(frozen=True)
class Target:
    """A form of shardings; `fault` says why it cannot state that of a tensor, in a sentence, or nothing."""

    name: str
    description: str
    fault: Callable[[ShardingTable, TensorSharding], str]


def verdict(table: ShardingTable, tensor: TensorSharding, target: Target) -> str:
    """Return `ok`, or the reason why the target cannot place this tensor as the plan does."""
    return _dims_fault(tensor) or target.fault(table, tensor) or OK


def verdicts(table: ShardingTable, tensor: TensorSharding) -> dict[str, str]:
    """Return the verdict of each target by its name."""
    return {target.name: verdict(table, tensor, target) for target in TARGETS}


def _dims_fault(tensor: TensorSharding) -> str:
    return "; ".join(f"dimension {k}: {dim.fault}" for k, dim in enumerate(tensor.dims) if dim.fault)


def _split_dims(table: ShardingTable, tensor: TensorSharding) -> Iterator[tuple[int, int, int, int]]:
    """Yield for each split dimension its number, its size, the number of parts, and the size of a chunk."""
    for k, (size, dim) in enumerate(zip(tensor.shape, tensor.dims, strict=True)):
        if dim.axes:
            yield k, size, table.parts(dim.axes), dim.chunk


def _even(table: ShardingTable, tensor: TensorSharding) -> str:
    """Find a dimension that is split into unequal parts."""
    for k, size, parts, chunk in _split_dims(table, tensor):
        if size != parts * chunk:
            return f"dimension {k} of size {size} is split into {parts} unequal parts, and only equal ones are accepted"
    return ""


def _padded(table: ShardingTable, tensor: TensorSharding) -> str:
    """Find a dimension whose chunks are not those that XLA gets by padding at the end."""
    for k, size, parts, chunk in _split_dims(table, tensor):
        if chunk != -(-size // parts):
            return f"dimension {k} of size {size} is split in chunks of {chunk}, and XLA would take {-(-size // parts)}"
    return ""


def nearest_axes(table: ShardingTable, tensor: TensorSharding) -> tuple[tuple[str, ...], ...]:
    """Return the axes of each dimension as XLA can have them: none for what it cannot split as the plan does."""
    return tuple(
        () if tensor.is_boundary and dim.chunk * table.parts(dim.axes) != size else dim.axes
        for size, dim in zip(tensor.shape, tensor.dims, strict=True)
    )


def read_tensors(table: ShardingTable, tensor: TensorSharding) -> dict[str, TensorSharding]:
    """Return the values that a tensor is made of as it reads them, by name; none that it reads in two ways."""
    found: dict[str, TensorSharding | None] = {}
    for read in tensor.reads:
        own = table.by_name.get(read.name)
        is_new = own is not None and read.name not in found
        found[read.name] = (
            replace(own, role=INTERMEDIATE, dims=read.dims, partial=(), reads=()) if own and is_new else None
        )
    return {name: own for name, own in found.items() if own is not None}


def constraint_fault(table: ShardingTable, tensor: TensorSharding) -> str:
    """Return why XLA cannot have a constraint where the terms of a value are combined, or nothing.

    Terms are those of the plan only where all that they are made of is where the plan has it.
    """
    for read in tensor.reads if tensor.partial else ():
        for dim in read.dims:
            if dim.fault:
                return (
                    f"its terms are made of {read.name}, which cannot be placed as the plan does: {dim.fault}"
                )
    return _dims_fault(tensor) or _padded(table, tensor)


def _no_partial(_: ShardingTable, tensor: TensorSharding) -> str:
    if tensor.partial:
        return f"it is left as terms of a {tensor.monoid} over {', '.join(tensor.partial)}, which a constraint reduces"
    return ""


def _of_xla(table: ShardingTable, tensor: TensorSharding) -> str:
    """Find a fault for XLA: arguments and results are split evenly; values in the program may be padded."""
    fits = _even if tensor.is_boundary else _padded
    return fits(table, tensor) or _no_partial(table, tensor)


def _of_shard_map(table: ShardingTable, tensor: TensorSharding) -> str:
    return _even(table, tensor) or _no_partial(table, tensor)


def _of_dtensor(table: ShardingTable, tensor: TensorSharding) -> str:
    if tensor.partial and tensor.monoid not in DTENSOR_REDUCTIONS:
        return f"DTensor has no partial placement for {tensor.monoid}"
    order = list(table.sizes)
    for k, size, parts, chunk in _split_dims(table, tensor):
        axes = tensor.dims[k].axes
        if sorted(axes, key=order.index) != list(axes):
            return f"dimension {k} is split over {', '.join(axes)}, and DTensor splits in the mesh's order"
        wanted = np.minimum(np.arange(parts + 1) * chunk, size)
        found = nested_chunks(size, [table.sizes[axis] for axis in axes])
        if not np.array_equal(np.diff(wanted), np.diff(found)):
            sizes = ", ".join(str(n) for n in np.diff(found)[:8])
            return (
                f"dimension {k} of size {size} is split in chunks of {chunk}, and torch.chunk gives {sizes}"
            )
    return ""


def nested_chunks(size: int, parts: Sequence[int]) -> np.ndarray:
    """Compute the borders of the pieces by `torch.chunk` into `parts[0]`, each of them into `parts[1]`, ..."""
    borders = np.array([0, size])
    for count in parts:
        start, end = borders[:-1, None], borders[1:, None]
        chunk = -(-(end - start) // count)
        inner = np.minimum(start + np.arange(count) * chunk, end)
        borders = np.append(inner.reshape(-1), size)
    return borders


TARGETS: tuple[Target, ...] = (
    Target("jax", "PartitionSpec of jit: arguments, results and with_sharding_constraint", _of_xla),
    Target("shard_map", "in_specs and out_specs of jax.shard_map", _of_shard_map),
    Target("dtensor", "placements of torch.distributed.tensor", _of_dtensor),
    Target("shardy", "sdy.sharding attributes on StableHLO", _of_xla),
)
