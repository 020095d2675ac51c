"""Samples of kernels: blocks as arguments of `block_ticks`, and the seconds that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapestry.hardware.device import SHORT_DTYPES, Device
from tapestry.hardware.kernels import HALF, KernelFigures
from tapestry.hardware.timing import block_ticks, seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Graph
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES, WINDOW_CLASSES
from tapestry.teg.operators.operator import (
    PartAmounts,
    flops_of,
    kernel_sizes,
    part_amounts,
    work_dtype,
    work_of,
)

# Sizes that are nothing where a sample has none; the others are one.
ABSENT = dict.fromkeys(("separate_elements", "cold_bytes", "written_bytes"), 0.0)


@dataclass(frozen=True, eq=False)
class Samples:
    """Blocks of one kernel class on one device: arguments of `block_ticks`, and what was measured.

    All are of one element type, precision and launch. `flops`, `moved`, `measured_s`, `groups` and each of `sizes` are
    `(samples,)`, and so are the amounts of `parts`, those of a fused product; `groups` are the tables that the samples
    come from.
    """

    device: Device
    key: str
    kind: str
    dtype: str
    compute_dtype: str | None
    flops: np.ndarray
    moved: np.ndarray
    sizes: Mapping[str, np.ndarray]
    measured_s: np.ndarray
    launch: str
    groups: np.ndarray
    parts: tuple[PartAmounts, ...] = ()

    @property
    def kernel(self) -> str:
        """The kernel class."""
        return self.key.partition(".")[0]

    def of(self, chosen: np.ndarray) -> Samples:
        """Return the samples that a mask chooses."""
        names = ("flops", "moved", "measured_s", "groups")
        arrays = {name: getattr(self, name)[chosen] for name in names}
        arrays["sizes"] = {name: sizes[chosen] for name, sizes in self.sizes.items()}
        parts = (
            part._replace(flops=part.flops[chosen], tiles={role: n[chosen] for role, n in part.tiles.items()})
            for part in self.parts
        )
        return replace(self, parts=tuple(parts), **arrays)

    def log_errors(self, figures: KernelFigures) -> np.ndarray:
        """Compute the logarithms of predicted over measured time if the class has these figures."""
        device = replace(self.device, kernels={self.key: figures}, launch=self.launch)
        given: dict[str, Any] = {**self.sizes, "kernel": self.kernel, "compute_dtype": self.compute_dtype}
        given |= {"parts": self.parts} if self.parts else {}
        ticks = block_ticks(device, self.kind, self.flops, self.moved, self.dtype, **given)
        return np.asarray(np.log(seconds(ticks) / self.measured_s))


class KernelSample(NamedTuple):
    """A block of one kernel class, what it was measured to take, and the table `group` that says so."""

    key: str
    kind: str
    dtype: str
    compute_dtype: str | None
    flops: float
    moved: float
    sizes: tuple[tuple[str, float], ...]
    measured_s: float
    launch: str
    group: str
    parts: tuple[PartAmounts, ...] = ()

    @property
    def kernel(self) -> str:
        """The kernel class."""
        return self.key.partition(".")[0]


def sample_of(
    graph: Graph,
    measured_s: float,
    group: str,
    launch: str,
    compute_dtype: str | None = None,
    *,
    is_part: bool = False,
) -> KernelSample | None:
    """Return the sample of a program of one block; None for programs of several, or without index dimensions.

    If it `is_part` of larger programs, its parameters were read from memory.
    """
    blocks = [b for b in graph.blocks if b.operator not in ("source", "sink") and not b.is_view]
    if len(blocks) != 1 or blocks[0].signature is None:
        return None
    (block,) = blocks
    assert block.signature is not None
    inputs, outputs = graph.input_types(block), graph.output_types(block)
    work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
    dtype = work_dtype(inputs, outputs)
    dims = {d.name: d.size for d in block.signature.dims}
    sizes = np.array([*dims.values()], dtype=np.int64)
    read = [
        prod(dims[name] for name in work.reads[k]) * item_bytes(t.dtype) if k in work.reads else t.size_bytes
        for k, t in enumerate(inputs)
    ]
    roles = (graph.producers[t].definition.get("role") for t in block.inputs)
    cold = sum(size for size, role in zip(read, roles, strict=True) if is_part and role == "parameter")
    extents: dict[str, Any] = kernel_sizes(work, [*dims], sizes)
    extents |= {"cold_bytes": cold} if cold else {}
    extents |= {"written_bytes": sum(t.size_bytes for t in outputs)} if is_part else {}
    is_product = work.kind == "fused" and work.kernel_class in PRODUCT_CLASSES
    kind = "vector" if work.kind == "fused" or work.kernel in WINDOW_CLASSES else work.kind
    return KernelSample(
        key=f"{work.kernel_class}.{'fp16' if SHORT_DTYPES.get(dtype, dtype) in HALF else 'fp32'}",
        kind="fused" if is_product else kind,
        dtype=dtype,
        compute_dtype=compute_dtype,
        flops=float(flops_of(work, [*dims], sizes)),
        moved=float(sum(read) + sum(t.size_bytes for t in outputs)),
        sizes=tuple((name, float(size)) for name, size in extents.items()),
        measured_s=measured_s,
        launch=launch,
        group=group,
        parts=tuple(part_amounts(work, [*dims], sizes)) if is_product else (),
    )


def stacked(device: Device, samples: Sequence[KernelSample]) -> Samples:
    """Return samples of one class, element type, precision and launch on a device as arrays."""
    first = samples[0]
    known = dict.fromkeys(name for s in samples for name, _ in s.sizes)
    sizes = {
        name: np.array([dict(s.sizes).get(name, ABSENT.get(name, 1.0)) for s in samples]) for name in known
    }
    flops, moved, measured_s, groups = (
        np.array([getattr(s, name) for s in samples]) for name in ("flops", "moved", "measured_s", "group")
    )
    kinds = (device, first.key, first.kind, first.dtype, first.compute_dtype)
    parts = tuple(map(_stacked_part, zip(*(s.parts for s in samples), strict=True)))
    return Samples(*kinds, flops, moved, sizes, measured_s, first.launch, groups, parts)


def _stacked_part(alike: Sequence[PartAmounts]) -> PartAmounts:
    """Return one part of several samples as arrays."""
    first = alike[0]
    tiles = {role: np.array([float(part.tiles[role]) for part in alike]) for role in first.tiles}
    return first._replace(flops=np.array([float(part.flops) for part in alike]), tiles=tiles)
