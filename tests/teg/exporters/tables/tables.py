"""Tables written down in a line per tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tapestry.teg.exporters.tables.table import DimSharding, LogicalAxis, ShardingTable, TensorSharding

Row = tuple[str, str, tuple[int, ...], Sequence[tuple[str, ...]]]


def table_of(axes: Mapping[str, int], *rows: Row) -> ShardingTable:
    """Build a table of `(name, role, shape, axes per dimension)`; chunks are those of an even split, rounded up."""
    tensors = [
        TensorSharding(
            name,
            role,
            name,
            shape,
            "float32",
            tuple(
                DimSharding(-(-n // prod(axes[a] for a in own)), own)
                for n, own in zip(shape, split, strict=True)
            ),
        )
        for name, role, shape, split in rows
    ]
    logical = tuple(LogicalAxis(name, size, (f"{name}.0",)) for name, size in axes.items())
    return ShardingTable("written", "", tuple(axes.items()), "", logical, tuple(tensors))
