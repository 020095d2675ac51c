"""Calibration: the rates of this machine and the figures of its kernels, from programs of one operator that it ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from tapestry.hardware.calibration.fitting import fit, fit_class
from tapestry.hardware.calibration.host import Host, RunError
from tapestry.hardware.calibration.probes import Probe, probes
from tapestry.hardware.calibration.runs import Progress, TimedRuns, Timing, fewest_s, unreported
from tapestry.hardware.calibration.samples import KernelSample, Samples, sample_of, stacked
from tapestry.hardware.calibration.timed import Setting
from tapestry.hardware.calibration.validation import on_one_device
from tapestry.hardware.mesh import SHORT_DTYPES, Device, MatrixTile, Mesh, MeshAxis
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES

DTYPES = ("float32", "bfloat16")
LONGEST_SHARE = 0.01  # of the time limit that one run of a probe may take
LEAST_SHARE = 0.5  # of the time limit that is spent on measuring, however long loading took
PASSES_SHARE = 0.8  # of the time left that the fewest passes may take: the longest probes are left out first
# What the best streaming kernels reach of a memory's rate (BabelStream), and what products reach of a peak.
BEST_STREAM, BEST_PRODUCT = 0.93, 0.95
# Processors have kernels for few rows, down to a vector, at a lower rate of arithmetic.
TILES = tuple(MatrixTile(m, 32, 32, m / (m + 4)) for m in (1, 4, 8, 16, 32))
CACHE_SHARE = 0.7  # caches are tried between half of a stream, which none of it fits, and all of it
LAUNCH = "unfused"  # how exported modules run
LARGE_SHARE = 0.1  # of the largest output of a stream: from which size on outputs may be allocated anew
FEWEST = 3  # probes of a class that get figures of their own
FRESH = "the outputs of streams that take longer for each byte; measured by tapestry calibrate"
SEEN = "measured by tapestry calibrate"


@dataclass(frozen=True)
class Calibration:
    """A mesh of one device that was measured, the measured times of its probes, and what was left out and why."""

    mesh: Mesh
    timings: Mapping[str, Timing]
    left_out: Mapping[str, str]


def calibrate(
    name: str,
    host: Host,
    setting: Setting,
    limit_s: float,
    clock: Callable[[], float],
    progress: Progress = unreported,
) -> Calibration:
    """Measure the machine for about `limit_s` seconds, and fit a device called `name` to what was measured.

    Raises:
        RunError: PyTorch runs none of the probes here.
    """
    start, left_out, loaded = clock(), dict[str, str](), list[Probe]()
    with TimedRuns(setting) as runs:
        for probe in probes(DTYPES):
            progress(0.0, f"loading {probe.name}")
            try:
                runs.load(probe.name, on_one_device(probe.graph), is_part=True)
            except RunError as error:
                left_out[probe.name] = str(error)
                continue
            if runs.loaded[probe.name] > LONGEST_SHARE * limit_s:
                left_out[probe.name] = f"a run takes {runs.loaded[probe.name]:.2g} s"
                continue
            loaded.append(probe)
        if not loaded:
            raise RunError(f"PyTorch runs none of the probes: {next(iter(left_out.values()))}")
        left_s = max(limit_s - (clock() - start), LEAST_SHARE * limit_s)
        for probe in too_long(loaded, runs.loaded, PASSES_SHARE * left_s):
            loaded.remove(probe)
            left_out[probe.name] = f"a run takes {runs.loaded[probe.name]:.2g} s, too long for the time limit"
        timings = runs.measure([p.name for p in loaded], left_s, clock, progress)
    measured = [(probe, timings[probe.name]) for probe in loaded]
    return Calibration(fitted_mesh(name, host, setting, measured), timings, left_out)


def too_long(loaded: Sequence[Probe], once_s: Mapping[str, float], left_s: float) -> list[Probe]:
    """Return the longest probes, without which the fewest passes over the others take at most `left_s` seconds.

    Each class keeps as many as get figures of their own, however long they take.
    """
    longest = sorted(loaded, key=lambda probe: once_s[probe.name], reverse=True)
    left = Counter(map(class_of, loaded))
    total_s = sum(fewest_s(once_s[probe.name]) for probe in loaded)
    found = []
    for probe in longest:
        if total_s <= left_s:
            break
        if left[class_of(probe)] > FEWEST:
            left[class_of(probe)] -= 1
            total_s -= fewest_s(once_s[probe.name])
            found.append(probe)
    return found


def class_of(probe: Probe) -> str:
    """Return the class of kernel that a probe times; its own name where it has none."""
    sample = sample_of(probe.graph, 1.0, probe.name, LAUNCH, is_part=True)
    return probe.name if sample is None else sample.key


def fitted_mesh(name: str, host: Host, setting: Setting, measured: Sequence[tuple[Probe, Timing]]) -> Mesh:
    """Return a mesh of one device that takes about as long for these probes as was measured."""
    found = (
        sample_of(probe.graph, timing.seconds, probe.name.split()[0], LAUNCH, is_part=True)
        for probe, timing in measured
    )
    samples = [sample for sample in found if sample is not None]
    device = _with_kernels(_rates(name, host, setting, samples), samples)
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
    seen = f"measured by tapestry calibrate on {datetime.now(UTC):%Y-%m-%d}, {setting.threads} threads, {host.title}"
    return Device(
        name=name,
        vendor=host.vendor,
        memory_bytes=host.memory_bytes,
        memory_bytes_per_s=memory,
        peak_flops_per_s=peaks,
        vector_flops_per_s=max(s.flops / s.measured_s for s in streams),
        cores=host.cores,
        tiles=TILES,
        layouts=("row_major",),
        launch=LAUNCH,
        launch_overhead_s=min(s.measured_s for s in samples) / 2,
        cache_bytes=host.cache_bytes,
        cache_bytes_per_s=cache,
        compute_dtype_default=dict.fromkeys(("int16", "int32", "int64", "bool"), "vector"),
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


def _with_kernels(device: Device, samples: Sequence[KernelSample]) -> Device:
    """Return the device with figures fitted for every class that has probes enough, and the cache that fits best."""
    classes: dict[str, list[KernelSample]] = {}
    for sample in samples:
        classes.setdefault(sample.key, []).append(sample)
    streams = classes.get("elementwise.fp32", [])
    if len(streams) >= FEWEST:
        trials = (each for fresh in _allocations(device, streams) for each in _caches(fresh, streams))
        device = min(trials, key=lambda trial: _loss(stacked(trial, streams)))
    fitted = {
        key: fit_class([[stacked(device, each)]])[0] for key, each in classes.items() if len(each) >= FEWEST
    }
    sources = {f"kernels.{key}": f"{len(found.groups)} probes; {SEEN}" for key, found in fitted.items()}
    return replace(
        device,
        kernels={key: found.figures for key, found in fitted.items()},
        sources={**device.sources, **sources},
    )


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
