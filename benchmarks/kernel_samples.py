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

    `flops`, `moved`, `measured_s`, `eager`, `groups` and each of `sizes` are `(samples,)`; `eager` where the host
    launched the kernels one by one, `groups` the tables that the samples come from.
    """

    device: Device
    key: str
    kind: str
    dtype: str
    flops: np.ndarray
    moved: np.ndarray
    sizes: Mapping[str, np.ndarray]
    measured_s: np.ndarray
    eager: np.ndarray
    groups: np.ndarray

    @property
    def kernel(self) -> str:
        """The kernel class."""
        return self.key.partition(".")[0]

    def of(self, chosen: np.ndarray) -> Samples:
        """Return the samples that a mask chooses."""
        names = ("flops", "moved", "measured_s", "eager", "groups")
        arrays = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, sizes={name: sizes[chosen] for name, sizes in self.sizes.items()}, **arrays)

    def log_errors(self, figures: KernelFigures) -> np.ndarray:
        """Compute the logarithms of predicted over measured time if the class has these figures."""
        device = replace(self.device, kernels={self.key: replace(figures, eager_s=0.0)})
        ticks = block_ticks(
            device, self.kind, self.flops, self.moved, self.dtype, kernel=self.kernel, **self.sizes
        )
        predicted_s = seconds(ticks) + np.where(self.eager, figures.eager_s, 0.0)
        return np.asarray(np.log(predicted_s / self.measured_s))


@dataclass(frozen=True)
class _Sample:
    device: Device
    key: str
    kind: str
    dtype: str
    flops: float
    moved: float
    sizes: tuple[tuple[str, float], ...]
    measured_s: float
    eager: bool
    group: str


def samples_of(rows: Sequence[Measurement], systems: Systems) -> list[Samples]:
    """Return the samples of all rows of single kernels that have a program, by device and class."""
    found: dict[tuple[str, str], list[_Sample]] = {}
    for row in rows:
        if row.counts and row.question.kind in KINDS and (sample := _sample(row, systems)) is not None:
            found.setdefault((sample.device.name, sample.key), []).append(sample)
    return [_stacked(each) for _, each in sorted(found.items())]


def _sample(row: Measurement, systems: Systems) -> _Sample | None:
    try:
        workload = workload_of(row.question, systems)
    except UnpredictedError:
        return None
    if (
        workload.compute_dtype is not None
    ):  # matrix units that make several passes: not the precision's own kernels
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
    key, eager = f"{work.kernel_class}.{family}", row.question.launch == "eager"
    return _Sample(workload.mesh.device, key, kind, dtype, flops, moved, shape, measured_s, eager, row.group)


def _stacked(samples: Sequence[_Sample]) -> Samples:
    first = samples[0]
    sizes = {name: np.array([dict(s.sizes)[name] for s in samples]) for name, _ in first.sizes}
    numbers = (np.array([getattr(s, name) for s in samples]) for name in ("flops", "moved"))
    measured = (np.array([getattr(s, name) for s in samples]) for name in ("measured_s", "eager", "group"))
    return Samples(first.device, first.key, first.kind, first.dtype, *numbers, sizes, *measured)
