"""Calibration: the rates of this machine and the figures of its kernels, from programs of one operator that it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from tapestry.hardware.calibration.choice import FEWEST, LAUNCH, by_need, sampled, too_long
from tapestry.hardware.calibration.fitting import Fitted, fit, fit_class, small_sample_factor
from tapestry.hardware.calibration.host import Host, RunError
from tapestry.hardware.calibration.memory_terms import MemoryTerm, memory_terms, unmeasured
from tapestry.hardware.calibration.probes import GPU_SIZES, PROCESSOR_SIZES, Probe, probes
from tapestry.hardware.calibration.runs import Progress, TimedRuns, Timing, fewest_s, unreported
from tapestry.hardware.calibration.samples import KernelSample, Samples, stacked
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import on_one_device
from tapestry.hardware.device import SHORT_DTYPES, Device, MatrixTile
from tapestry.hardware.kernels import KernelFigures
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.ranges import RANGES
from tapestry.hardware.relations import slow_precisions
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES

DTYPES = ("float32", "bfloat16")
LONGEST_SHARE = 0.01  # of the time limit that one run of a probe may take that figures do not need
LOADING_SHARE = 0.4  # of the time before the fits that loading may take
PASSES_SHARE = 0.8  # of the time left that the fewest passes may take: the longest probes are left out first
FIT_S = 12.0  # for the fits of all classes
SHARE_TO_EXPECT = 0.25  # of the needed probes from which the time of all of them follows
SURELY = 0.7  # of the time that a part of the needed probes lets expect; with less, no more are loaded
ROOM = 1.2  # of the least time, in what is advised
# What the best streaming kernels reach of a memory's rate (BabelStream), and what products reach of a peak.
BEST_STREAM, BEST_PRODUCT = 0.93, 0.95
# Processors have kernels for few rows, down to a vector, at a lower rate of arithmetic.
TILES = tuple(MatrixTile(m, 32, 32, m / (m + 4)) for m in (1, 4, 8, 16, 32))
# Those of CUTLASS's and cuBLAS's kernels; how fast each is, is fitted (`tile_exponent`).
GPU_TILES = tuple(
    MatrixTile(m, n, 32, efficiency)
    for m, n, efficiency in (
        *(
            (256, 128, 1.0),
            (128, 256, 1.0),
            (128, 128, 1.0),
            (128, 64, 0.95),
            (64, 128, 0.95),
            (64, 64, 0.85),
        ),
        *((32, 128, 0.7), (64, 32, 0.6), (32, 64, 0.6), (32, 32, 0.4)),
    )
)
CACHE_SHARE = 0.7  # caches are tried between half of a stream, which none of it fits, and all of it
LARGE_SHARE = 0.1  # of the largest output of a stream: from which size on outputs may be allocated anew
FRESH = "the outputs of streams that take longer for each byte; measured by tapestry calibrate"
SEEN = "measured by tapestry calibrate"


@dataclass(frozen=True)
class Calibration:
    """A mesh of one device that was measured, the measured times of its probes, and what was left out and why.

    `unmeasured` are figures of the device that are not measured here, with the reasons.
    """

    mesh: Mesh
    timings: Mapping[str, Timing]
    left_out: Mapping[str, str]
    unmeasured: Mapping[str, str]


def calibrate(
    name: str,
    host: Host,
    setting: Setting,
    limit_s: float,
    clock: Callable[[], float],
    progress: Progress = unreported,
) -> Calibration:
    """Measure the machine for `limit_s` seconds in all, and fit a device called `name` to what was measured.

    Raises:
        RunError: PyTorch runs none of the probes here, or the time is too short for those that figures rest on.
    """
    start, left_out = clock(), dict[str, str]()
    everything = list(probes(DTYPES, GPU_SIZES if setting.device == "cuda" else PROCESSOR_SIZES))
    with TimedRuns(setting) as runs:
        left = _Time(limit_s, clock, start)
        loaded = _loaded(runs, everything, left, left_out, progress)
        measuring_s = max(left.seconds() - FIT_S, 0.0)
        for probe in too_long(loaded, runs.loaded, PASSES_SHARE * measuring_s):
            loaded.remove(probe)
            left_out[probe.name] = f"a run takes {runs.loaded[probe.name]:.2g} s, too long for the time limit"
        held = memory_terms(runs, loaded) if setting.device == "cpu" else {}
        timings = runs.measure([p.name for p in loaded], measuring_s, clock, progress)
    measured = [(probe, timings[probe.name]) for probe in loaded]
    mesh = fitted_mesh(name, host, setting, measured, held)
    return Calibration(mesh, timings, left_out, unmeasured(mesh.device, setting.device))


class _Time(NamedTuple):
    """The time that is left of a limit, by a clock that showed `start` when it began."""

    limit_s: float
    clock: Callable[[], float]
    start: float

    def seconds(self) -> float:
        return self.limit_s - (self.clock() - self.start)


def _loaded(
    runs: TimedRuns, everything: Sequence[Probe], left: _Time, left_out: dict[str, str], progress: Progress
) -> list[Probe]:
    """Load the probes that figures need, then others for a share of the time that measuring and fits leave.

    Raises:
        RunError: none runs, or the time is too short for those that are needed.
    """
    needed, others = by_need(everything)
    found, begin_s, started_s = list[Probe](), left.seconds(), 0.0
    for count, probe in enumerate((*needed, *others)):
        is_needed = count < len(needed)
        if not is_needed and left.seconds() < begin_s - LOADING_SHARE * (begin_s - FIT_S):
            left_out[probe.name] = "no time to load it"
            continue
        progress(0.0, f"loading {probe.name}")
        try:
            runs.load(probe.name, on_one_device(probe.graph), is_part=True)
        except RunError as error:
            left_out[probe.name] = str(error)
            continue
        if not is_needed and runs.loaded[probe.name] > LONGEST_SHARE * left.limit_s:
            left_out[probe.name] = f"a run takes {runs.loaded[probe.name]:.2g} s"
            continue
        found.append(probe)
        started_s = started_s or begin_s - left.seconds()  # with the first probe, what runs them
        if is_needed:
            _check_time(runs, found, left, started_s, (count + 1) / len(needed))
    if not found:
        raise RunError(f"PyTorch runs none of the probes: {next(iter(left_out.values()))}")
    return found


def _check_time(runs: TimedRuns, found: Sequence[Probe], left: _Time, started_s: float, share: float) -> None:
    """Check that the time suffices for the probes that figures need, of which this share is loaded.

    Raises:
        RunError: it does not; the message says how long they take.
    """
    passes_s = sum(fewest_s(runs.loaded[probe.name]) for probe in found)
    if left.seconds() >= passes_s + FIT_S or share < SHARE_TO_EXPECT:
        return
    least_s = started_s + (left.limit_s - left.seconds() - started_s + passes_s) / share + FIT_S
    if share == 1.0 or left.limit_s < SURELY * least_s:
        raise RunError(
            f"{left.limit_s:g} s are too few for the probes that figures rest on, which take about {least_s:.0f} s "
            f"here: take --seconds {10 * ceil(ROOM * least_s / 10)}"
        )


def fitted_mesh(
    name: str,
    host: Host,
    setting: Setting,
    measured: Sequence[tuple[Probe, Timing]],
    held: Mapping[str, MemoryTerm] | None = None,
) -> Mesh:
    """Return a mesh of one device that takes about as long for these probes as was measured.

    `held` are its figures of memory beside the tensors, by name.
    """
    found = (sampled(probe, timing.seconds) for probe, timing in measured)
    samples = [sample for sample in found if sample is not None]
    device = _with_kernels(
        _rates(name, host, setting, samples), samples, may_be_fresh=setting.device == "cpu"
    )
    terms = held or {}
    sizes: dict[str, Any] = {key: term.size_bytes for key, term in terms.items()}
    device = replace(
        device,
        **sizes,
        sources={**device.sources, **{key: term.source for key, term in terms.items()}},
    )
    alone = MeshAxis("process", 1, "switch", device.memory_bytes_per_s, 0.0)
    return Mesh(name, device, (alone,))


def _rates(name: str, host: Host, setting: Setting, samples: Sequence[KernelSample]) -> Device:
    """Return the device by the best rates that any probe reached; its kernels are not fitted yet."""
    streams = [s for s in samples if s.kernel not in PRODUCT_CLASSES]
    largest = max(s.moved for s in streams)
    memory = max(s.moved / s.measured_s for s in streams if s.moved > largest / 4) / BEST_STREAM
    cache = max(memory, *(s.moved / s.measured_s for s in streams))
    products = [s for s in samples if s.kernel == "matrix_product"]
    peaks = {
        dtype: max(s.flops / s.measured_s for s in products if SHORT_DTYPES[s.dtype] == dtype) / BEST_PRODUCT
        for dtype in sorted({SHORT_DTYPES[s.dtype] for s in products})
    }
    emulated = {name: name for name, _, _ in slow_precisions(peaks, {})}
    how = "captured as CUDA graphs" if setting.device == "cuda" else f"{setting.threads} threads"
    seen = f"measured by tapestry calibrate on {datetime.now(UTC):%Y-%m-%d}, {how}, {host.title}"
    return Device(
        name=name,
        vendor=host.vendor,
        memory_bytes=host.memory_bytes,
        memory_bytes_per_s=memory,
        peak_flops_per_s=peaks,
        vector_flops_per_s=max(s.flops / s.measured_s for s in streams),
        cores=host.cores,
        tiles=GPU_TILES if setting.device == "cuda" else TILES,
        layouts=("row_major",),
        launch=LAUNCH,
        launch_overhead_s=min(s.measured_s for s in samples) / 2,
        cache_bytes=host.cache_bytes,
        cache_bytes_per_s=cache,
        compute_dtype_default={**dict.fromkeys(("int16", "int32", "int64", "bool"), "vector"), **emulated},
        sources={
            "memory_bytes": "stated by the operating system",
            "cache_bytes": "the working set up to which the rate of streams stays high; " + seen,
            "memory_bytes_per_s": f"the best rate of large streams over {BEST_STREAM}; {seen}",
            "cache_bytes_per_s": f"the best rate of any stream; {seen}",
            "vector_flops_per_s": f"the best rate of element-wise kernels; {seen}",
            "peak_flops_per_s": f"the best rate of matrix products over {BEST_PRODUCT}; {seen}",
            "launch_overhead_s": f"half of the shortest run of any operator; {seen}",
        },
    )


def _with_kernels(device: Device, samples: Sequence[KernelSample], *, may_be_fresh: bool) -> Device:
    """Return the device with figures fitted for every class that has probes enough, and the cache that fits best.

    Outputs `may_be_fresh`: memory that the operating system hands out anew, which graphs on GPUs do not take.
    """
    classes: dict[str, list[KernelSample]] = {}
    for sample in samples:
        classes.setdefault(sample.key, []).append(sample)
    streams = classes.get("elementwise.fp32", [])
    if len(streams) >= FEWEST:
        allocations = _allocations(device, streams) if may_be_fresh else (device,)
        trials = (each for fresh in allocations for each in _caches(fresh, streams))
        device = min(trials, key=lambda trial: _loss(stacked(trial, streams)))
    fitted = {
        key: fit_class([[stacked(device, each)]], is_quick=True)[0]
        for key, each in classes.items()
        if len(each) >= FEWEST
    }
    sources = {f"kernels.{key}": f"{len(found.groups)} probes; {SEEN}" for key, found in fitted.items()}
    return replace(
        device,
        kernels={key: _widened(found) for key, found in fitted.items()},
        sources={**device.sources, **sources},
    )


def _widened(fitted: Fitted) -> KernelFigures:
    """Return a class's figures with the error that so few probes leave."""
    error = fitted.figures.error * small_sample_factor(len(fitted.groups))
    return replace(fitted.figures, error=min(error, RANGES["error"].most))


def _allocations(device: Device, streams: Sequence[KernelSample]) -> Iterator[Device]:
    """Yield the device as it is, and with outputs from each size on allocated anew.

    The rate is the median over these outputs of what is left of their times without arithmetic and memory.
    """
    yield device
    written = np.array([dict(s.sizes)["written_bytes"] for s in streams])
    busy_s = np.array(
        [s.moved / device.memory_bytes_per_s + s.flops / device.vector_flops_per_s for s in streams]
    )
    left_s = np.array([s.measured_s for s in streams]) - busy_s
    for size in np.unique(written[written >= LARGE_SHARE * written.max()]):
        fresh = (written >= size) & (left_s > 0)
        if np.count_nonzero(fresh) >= FEWEST:
            rate = float(np.median(written[fresh] / left_s[fresh]))
            sources = {**device.sources, "fresh_bytes": FRESH, "fresh_bytes_per_s": FRESH}
            yield replace(device, fresh_bytes=round(size), fresh_bytes_per_s=rate, sources=sources)


def _caches(device: Device, streams: Sequence[KernelSample]) -> Iterator[Device]:
    """Yield the device with caches of the sizes that streams tell apart; larger than stated is none."""
    for moved in sorted({sample.moved for sample in streams}):
        yield replace(device, cache_bytes=round(CACHE_SHARE * moved))


def _loss(samples: Samples) -> float:
    return float(np.mean(np.abs(samples.log_errors(fit([samples])))))
