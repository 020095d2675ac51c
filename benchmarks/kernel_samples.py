"""Samples of kernels from published measurements: every row's program, as arguments of `block_ticks`, and its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.measurements import Measurement, Systems, UnpredictedError
from benchmarks.measurements.prediction import workload_of
from benchmarks.measurements.workload import Workload
from tapestry.hardware.kernels import HALF, KernelFigures
from tapestry.hardware.mesh import SHORT_DTYPES, Device
from tapestry.hardware.timing import block_ticks, seconds
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import flops_of, kernel_sizes, work_dtype, work_of

KINDS = ("gemm", "memory_bound_op", "memory_bandwidth")


@dataclass(frozen=True, eq=False)
class Samples:
    """Blocks of one kernel class on one device: arguments of `block_ticks`, and what was measured.

    All are of one element type, precision and launch. `flops`, `moved`, `measured_s`, `groups` and each of `sizes` are
    `(samples,)`; `groups` are the tables that the samples come from.
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

    @property
    def kernel(self) -> str:
        """The kernel class."""
        return self.key.partition(".")[0]

    def of(self, chosen: np.ndarray) -> Samples:
        """Return the samples that a mask chooses."""
        names = ("flops", "moved", "measured_s", "groups")
        arrays = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, sizes={name: sizes[chosen] for name, sizes in self.sizes.items()}, **arrays)

    def log_errors(self, figures: KernelFigures) -> np.ndarray:
        """Compute the logarithms of predicted over measured time if the class has these figures."""
        device = replace(self.device, kernels={self.key: figures}, launch=self.launch)
        amounts = (device, self.kind, self.flops, self.moved, self.dtype)
        ticks = block_ticks(*amounts, kernel=self.kernel, compute_dtype=self.compute_dtype, **self.sizes)
        return np.asarray(np.log(seconds(ticks) / self.measured_s))


@dataclass(frozen=True)
class _Sample:
    device: Device
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


def samples_of(rows: Sequence[Measurement], systems: Systems) -> list[Samples]:
    """Return the samples of all rows of single kernels that have a program, by device, class, precision and launch."""
    found: dict[tuple[str, str, str, str, str], list[_Sample]] = {}
    for row in rows:
        if row.counts and row.question.kind in KINDS and (sample := _sample(row, systems)) is not None:
            kept = (sample.device.name, sample.key, sample.dtype, str(sample.compute_dtype), sample.launch)
            found.setdefault(kept, []).append(sample)
    return [_stacked(each) for _, each in sorted(found.items())]


def _sample(row: Measurement, systems: Systems) -> _Sample | None:
    try:
        workload = workload_of(row.question, systems)
    except UnpredictedError:
        return None
    amount = workload.amounts.get(row.question.quantity)
    measured_s = row.value if amount is None or row.question.unit == "s" else amount / row.value
    return _of_block(workload, measured_s, row)


def _of_block(workload: Workload, measured_s: float, row: Measurement) -> _Sample | None:
    graph = workload.graph
    blocks = [b for b in graph.blocks if b.operator not in ("source", "sink") and not b.is_view]
    if len(blocks) != 1 or blocks[0].signature is None:
        return None
    (block,) = blocks
    inputs, outputs = graph.input_types(block), graph.output_types(block)
    work = work_of(operator_named(block.operator), block.definition, inputs, outputs)
    dtype = work_dtype(inputs, outputs)
    names = [d.name for d in block.signature.dims]
    sizes = np.array([d.size for d in block.signature.dims], dtype=np.int64)
    family = "fp16" if SHORT_DTYPES.get(dtype, dtype) in HALF else "fp32"
    shape = tuple((name, float(size)) for name, size in kernel_sizes(work, names, sizes).items())
    flops, moved = float(flops_of(work, names, sizes)), float(sum(t.size_bytes for t in (*inputs, *outputs)))
    kind = "vector" if work.kind == "fused" else work.kind
    key, precision = f"{work.kernel_class}.{family}", workload.compute_dtype
    return _Sample(
        *(workload.mesh.device, key, kind, dtype, precision, flops, moved, shape),
        *(measured_s, row.question.launch, row.group),
    )


def _stacked(samples: Sequence[_Sample]) -> Samples:
    first = samples[0]
    sizes = {name: np.array([dict(s.sizes)[name] for s in samples]) for name, _ in first.sizes}
    flops, moved, measured_s, groups = (
        np.array([getattr(s, name) for s in samples]) for name in ("flops", "moved", "measured_s", "group")
    )
    kinds = (first.device, first.key, first.kind, first.dtype, first.compute_dtype)
    return Samples(*kinds, flops, moved, sizes, measured_s, first.launch, groups)
