"""Fits of kernel classes: few figures per class and device, by coordinate descent on logarithms of times.

The loss is the mean absolute logarithm of predicted over measured, and a pull towards the figures that all devices of
the vendor have together, which weighs as much as a few samples. A longer row never takes less time by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from tapestry.hardware.calibration.samples import Samples
from tapestry.hardware.device import Device
from tapestry.hardware.kernels import KernelFigures
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES, ROW_CLASSES, WINDOW_CLASSES

# Lengths at which shares of row classes may be stated: octaves, and what models have between them.
ROW_LENGTHS = (32, 128, 512, 1024, 1280, 1600, 2048, 2560, 3072, 4096, 5120, 6400, 8192, 10240, 16384, 32768)
PULL = 0.15  # weight of the vendor's figures, in samples times logarithm of time per unit of a figure
SMOOTH = 0.2  # the same for the shares of neighboring row lengths
COARSEST, FINEST = 2.0, 0.04  # steps, in units of a figure
FIRST_SHARES = (0.6, 0.15)  # of the memory's rate, from which the shares of rows are fitted
FOLDS = 5
NORMAL_90 = 1.645  # standard deviations that hold 90 % of a normal distribution on both sides
LEAST_ERROR = 0.02
INFORMATIVE = 4  # samples that a figure which not all samples inform needs


@dataclass(frozen=True)
class Figure:
    """A figure that is fitted: bounds and unit of its steps, which are factors if it is a `factor`.

    `values` are all that a whole number may be.
    """

    name: str
    least: float
    most: float
    unit: float
    values: tuple[int, ...] = ()
    factor: bool = False

    def gap(self, one: KernelFigures, other: KernelFigures) -> float:
        """Return the distance of two classes in this figure, in its units."""
        a, b = getattr(one, self.name), getattr(other, self.name)
        if a is None or b is None:
            return 0.0
        return abs(float(np.log(a / b)) if self.factor or self.values else float(a - b)) / self.unit

    def neighbors(self, figures: KernelFigures, step: float) -> list[KernelFigures]:
        """Return the figures a step away along this one."""
        value = getattr(figures, self.name)
        found: list[Any]
        if self.values:
            found = [each for each in self.values if each != value]
        elif self.factor:
            found = [value * float(np.exp(sign * step * self.unit)) for sign in (1, -1)]
        else:
            found = [value + sign * step * self.unit for sign in (1, -1)]
        found = found if self.values else [float(np.clip(each, self.least, self.most)) for each in found]
        return [replace(figures, **{self.name: each}) for each in found if each != value]


# No kernel streams faster than the best benchmark of a memory: BabelStream's 0.93 of a V100's rate.
MEMORY = Figure("memory_efficiency", 0.05, 0.93, 0.1)
OVERHEAD = Figure("overhead_s", 0.0, 2e-5, 2e-6)
EAGER = Figure("eager_s", 0.0, 6e-5, 1e-5)
DISPATCH = Figure("dispatch_s", 0.0, 2e-4, 2e-5)
ASYNCHRONOUS = (
    "Tenstorrent",
)  # vendors whose measured hosts run ahead of the device, unlike PyTorch's events
ROW_RATE = Figure("row_bytes_per_s", 1e9, 1e12, 0.3, factor=True)
ARITHMETIC = Figure("efficiency", 0.02, 1.0, 0.1)
WINDOWED = Figure(
    "efficiency", 0.001, 1.0, 0.5, factor=True
)  # of windows, which libraries compute one by one
CACHE = Figure("cache_efficiency", 0.1, 1.0, 0.1)
PRODUCT = (
    Figure("efficiency", 0.3, 1.0, 0.1),
    MEMORY,
    OVERHEAD,
    Figure("k_prologue", 0.0, 256.0, 32.0),
    Figure("wave_share", 0.0, 1.0, 0.3),
    Figure("wide_columns", 0.0, 2.0, 0.3),
    Figure("tile_exponent", 0.2, 3.0, 0.5),
    Figure("sharpness", 1.5, 12.0, 2.0),
    Figure("k_step", 8, 128, 1.0, (8, 16, 32, 64, 128)),
)
_PRODUCT = KernelFigures(0.85, 0.8, overhead_s=2e-6, k_step=32, wave_share=0.5, split_k=16, sharpness=4.0)
STARTS_OF_PRODUCTS = (
    _PRODUCT,
    replace(_PRODUCT, k_step=8, wave_share=1.0, tile_exponent=0.3),
    replace(_PRODUCT, k_step=128, wave_share=1.0, sharpness=8.0),
)


class Fitted(NamedTuple):
    """The figures of one class on one device, and the logarithms of predicted over measured in folds.

    `samples` are of one precision and launch each; `fold_errors` follow them in their order.
    """

    samples: Sequence[Samples]
    figures: KernelFigures
    fold_errors: np.ndarray

    @property
    def device(self) -> Device:
        """The device that the samples were measured on."""
        return self.samples[0].device

    @property
    def key(self) -> str:
        """The class, with the family of its precisions."""
        return self.samples[0].key

    @property
    def groups(self) -> np.ndarray:
        """The table of each sample."""
        return np.concatenate([each.groups for each in self.samples])


def folds_of(samples: Sequence[Samples]) -> list[np.ndarray]:
    """Return the folds of samples: in each table, samples in the order of their times take turns."""
    groups = np.concatenate([each.groups for each in samples])
    measured_s = np.concatenate([each.measured_s for each in samples])
    folds = np.zeros(len(groups), np.int64)
    for k, group in enumerate(np.unique(groups)):
        mine = np.flatnonzero(groups == group)
        folds[mine[np.argsort(measured_s[mine], kind="stable")]] = (np.arange(len(mine)) + k) % FOLDS
    return np.split(folds, np.cumsum([len(each.groups) for each in samples])[:-1])


def fit_class(devices: Sequence[Sequence[Samples]], *, is_quick: bool = False) -> list[Fitted]:
    """Fit one class on the devices of a vendor: together, then each drawn towards all; and again without each fold.

    If it `is_quick`, folds of products are fitted from one start, not from several: their errors are no smaller.
    """
    folds = [folds_of(samples) for samples in devices]
    errors = [[np.zeros(len(each.groups)) for each in samples] for samples in devices]
    for fold in sorted({int(number) for samples in folds for own in samples for number in own}):
        kept = [_in_fold(samples, own, fold, False) for samples, own in zip(devices, folds, strict=True)]
        fits = _fit_devices(kept, is_quick)
        for samples, own, found, figures in zip(devices, folds, errors, fits, strict=True):
            for each, numbers, mine in zip(samples, own, found, strict=True):
                held = numbers == fold
                mine[held] = each.of(held).log_errors(figures) if held.any() else 0.0
    fitted = []
    for samples, figures, found in zip(devices, _fit_devices(devices), errors, strict=True):
        together = np.concatenate(found)
        fitted.append(Fitted(samples, replace(figures, error=_sigma(together)), together))
    return fitted


def fit_in_sample(devices: Sequence[Sequence[Samples]]) -> list[Fitted]:
    """Fit one class on the devices of a vendor as `fit_class` does, with its errors in sample in place of folds."""
    fitted = []
    for samples, figures in zip(devices, _fit_devices(devices), strict=True):
        errors = log_errors(samples, figures)
        fitted.append(Fitted(samples, replace(figures, error=_sigma(errors)), errors))
    return fitted


def _in_fold(
    samples: Sequence[Samples], folds: Sequence[np.ndarray], fold: int, is_held: bool
) -> list[Samples]:
    """Return the samples in a fold, or those outside; without what has none."""
    masks = [(numbers == fold) == is_held for numbers in folds]
    return [each.of(mask) for each, mask in zip(samples, masks, strict=True) if mask.any()]


def _fit_devices(devices: Sequence[Sequence[Samples]], is_quick: bool = False) -> list[KernelFigures]:
    prior = fit([each for samples in devices for each in samples], is_quick=is_quick)
    return [fit(samples, prior, is_quick=is_quick) for samples in devices] if len(devices) > 1 else [prior]


def small_sample_factor(count: int) -> float:
    """Return by how much an interval of 90 % widens when its width rests on so few samples, at least two.

    That of one further value from the same normal distribution, Student's t times sqrt(1 + 1/n); Hahn and Meeker,
    Statistical Intervals, 1991, section 4.7.
    """
    return float(stdtrit(max(count, 2) - 1, 0.95)) * sqrt(1 + 1 / max(count, 2)) / NORMAL_90


def _sigma(errors: np.ndarray) -> float:
    """Return the standard deviation of a normal distribution with the errors' interval of 90 %."""
    return max(LEAST_ERROR, float(np.quantile(np.abs(errors), 0.9)) / NORMAL_90)


def fit(
    samples: Sequence[Samples], prior: KernelFigures | None = None, *, is_quick: bool = False
) -> KernelFigures:
    """Fit a class's figures to samples of one device, or of several that are taken for one."""
    chosen, start = _chosen(samples, prior)
    if samples[0].kernel in ROW_CLASSES:
        return _fit_rows(samples, chosen, start, prior)
    starts = STARTS_OF_PRODUCTS if samples[0].kernel in PRODUCT_CLASSES and not is_quick else ()
    loss = _loss(samples, chosen, prior)
    return min((_descended(samples, chosen, each, prior) for each in (start, *starts)), key=loss)


def log_errors(samples: Sequence[Samples], figures: KernelFigures) -> np.ndarray:
    """Compute the logarithms of predicted over measured of all samples."""
    return np.concatenate([each.log_errors(figures) for each in samples])


def _chosen(
    samples: Sequence[Samples], prior: KernelFigures | None
) -> tuple[tuple[Figure, ...], KernelFigures]:
    """Return the figures that the samples inform, and where the search starts."""
    kernel = samples[0].kernel
    start = _PRODUCT if kernel in PRODUCT_CLASSES else KernelFigures(memory_efficiency=0.85)
    start = prior or start
    if kernel in PRODUCT_CLASSES:
        chosen: tuple[Figure, ...] = PRODUCT
    else:
        chosen = (OVERHEAD,) if kernel in ROW_CLASSES else (MEMORY, OVERHEAD)
    if kernel in WINDOW_CLASSES:
        chosen, start = (*chosen, WINDOWED), start if prior else replace(start, efficiency=0.1)
    elif sum(map(_by_arithmetic, samples)) > INFORMATIVE:
        chosen = (*chosen, ARITHMETIC)
    eager = [each.launch == "eager" for each in samples]
    if all(eager):  # nothing tells the kernel's own overhead from the host's
        chosen = tuple(figure for figure in chosen if figure is not OVERHEAD)
    if any(eager):
        chosen = (*chosen, DISPATCH if samples[0].device.vendor in ASYNCHRONOUS else EAGER)
    if sum(map(_few_rows, samples)) > INFORMATIVE:
        chosen, start = (*chosen, ROW_RATE), replace(start, row_bytes_per_s=start.row_bytes_per_s or 1e10)
    if kernel not in PRODUCT_CLASSES and sum(map(_in_cache, samples)) > INFORMATIVE:
        chosen, start = (*chosen, CACHE), replace(start, cache_efficiency=start.cache_efficiency or 0.9)
    return chosen, start


def _by_arithmetic(samples: Samples) -> int:
    """Count the samples of kernels without products that spend most of their time on arithmetic.

    Of classes without rows also those that would if they reached all of the best rates.
    """
    if samples.kernel in PRODUCT_CLASSES:
        return 0
    device = samples.device
    arithmetic_s = samples.flops / device.vector_flops_per_s
    by_arithmetic = arithmetic_s > samples.measured_s / 2
    if samples.kernel not in ROW_CLASSES:
        by_arithmetic |= arithmetic_s > samples.moved / (
            device.cache_bytes_per_s or device.memory_bytes_per_s
        )
    return int(np.sum(by_arithmetic))


def _few_rows(samples: Samples) -> int:
    """Count the samples with fewer rows than cores, launched back to back."""
    if "row" not in samples.sizes:
        return 0
    row_bytes = 2 * samples.sizes["row"] * item_bytes(samples.dtype)  # read and written
    return int(np.sum(samples.moved < row_bytes * samples.device.cores)) * (samples.launch != "eager")


def _in_cache(samples: Samples) -> int:
    """Count the samples whose bytes fit into the cache, launched back to back."""
    return int(np.sum(samples.moved < (samples.device.cache_bytes or 0))) * (samples.launch != "eager")


def _descended(
    samples: Sequence[Samples],
    chosen: Sequence[Figure],
    start: KernelFigures,
    prior: KernelFigures | None,
) -> KernelFigures:
    """Minimize the loss by coordinate descent with steps that shrink."""
    loss = _loss(samples, chosen, prior)
    return _minimized(loss, start, lambda best, step: [n for f in chosen for n in f.neighbors(best, step)])


def _loss(
    samples: Sequence[Samples], chosen: Sequence[Figure], prior: KernelFigures | None
) -> Callable[[KernelFigures], float]:
    def loss(figures: KernelFigures) -> float:
        errors = log_errors(samples, figures)
        gap = sum(figure.gap(figures, prior) for figure in chosen) if prior is not None else 0.0
        return float(np.mean(np.abs(errors)) + 0.2 * np.sqrt(np.mean(errors**2)) + PULL * gap / len(errors))

    return loss


def _minimized(
    loss: Callable[[KernelFigures], float],
    start: KernelFigures,
    neighbors: Callable[[KernelFigures, float], Sequence[KernelFigures]],
) -> KernelFigures:
    best, best_loss, step = start, loss(start), COARSEST
    while step > FINEST:
        improved = False
        for trial in neighbors(best, step):
            if (found := loss(trial)) < best_loss - 1e-7:
                best, best_loss, improved = trial, found, True
        step = step if improved else step / 2
    return best


def _fit_rows(
    samples: Sequence[Samples],
    chosen: Sequence[Figure],
    start: KernelFigures,
    prior: KernelFigures | None,
) -> KernelFigures:
    """Fit shares of the memory's rate by row length, and the other figures, in turns; from several shares at first."""
    lengths = sorted({float(x) for each in samples for x in _nodes(each.sizes["row"])})
    starts: list[tuple[Mapping[float, float], Mapping[float, float] | None]]
    if prior is None:
        starts = [(dict.fromkeys(lengths, share), None) for share in FIRST_SHARES]
    else:
        logs, known = np.log(np.array(prior.rows)).T
        shares = {
            x: float(np.exp(np.interp(np.log(x), logs, known))) for x in sorted({*lengths, *dict(prior.rows)})
        }
        starts = [(shares, shares)]
    found = [_fit_rows_from(samples, chosen, start, prior, *each) for each in starts]
    return min(found, key=lambda figures: float(np.mean(np.abs(log_errors(samples, figures)))))


def _fit_rows_from(
    samples: Sequence[Samples],
    chosen: Sequence[Figure],
    start: KernelFigures,
    prior: KernelFigures | None,
    shares: Mapping[float, float],
    expected: Mapping[float, float] | None,
) -> KernelFigures:
    figures = replace(start, memory_efficiency=1.0, rows=monotone(shares))
    for _ in range(3):
        figures = _descended(samples, chosen, figures, prior)
        figures = _fit_shares(samples, figures, expected)
    return figures


def _fit_shares(
    samples: Sequence[Samples], figures: KernelFigures, expected: Mapping[float, float] | None
) -> KernelFigures:
    count = sum(len(each.moved) for each in samples)

    def loss(trial: KernelFigures) -> float:
        logs = np.log([share for _, share in trial.rows])
        if expected is None:
            drawn = SMOOTH * float(np.sum(np.abs(np.diff(logs))))
        else:
            apart = logs - np.log([expected[x] for x, _ in trial.rows])
            drawn = SMOOTH * float(np.sum(np.abs(np.diff(apart)))) + PULL * float(np.mean(np.abs(apart)))
        return float(np.mean(np.abs(log_errors(samples, trial)))) + drawn / count

    def neighbors(best: KernelFigures, step: float) -> list[KernelFigures]:
        shares = dict(best.rows)
        factors = (1 + step / 8, 1 / (1 + step / 8))
        runs = [[x] for x in shares] + [[y for y in shares if y >= x] for x in shares]
        trials = [
            {x: min(1.0, share * factor) if x in run else share for x, share in shares.items()}
            for run in runs
            for factor in factors
        ]
        return [replace(best, rows=monotone(trial)) for trial in trials]

    return _minimized(loss, figures, neighbors)


def _nodes(lengths: np.ndarray) -> set[int]:
    """Return the standard row lengths next to those that occur."""
    standard = np.array(ROW_LENGTHS)
    return {int(standard[np.argmin(np.abs(np.log(standard / length)))]) for length in np.unique(lengths)}


def monotone(shares: Mapping[float, float]) -> tuple[tuple[float, float], ...]:
    """Return pairs of length and share in which a longer row never takes less time: violators share their mean.

    Pools of adjacent violators, Barlow et al. 1972.
    """
    lengths = sorted(shares)
    pools: list[tuple[float, int]] = []  # mean of log(length / share), number of lengths
    for length in lengths:
        pools.append((float(np.log(length / shares[length])), 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    times = [mean for mean, count in pools for _ in range(count)]
    return tuple((x, min(1.0, float(x / np.exp(t)))) for x, t in zip(lengths, times, strict=True))
