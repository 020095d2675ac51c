"""Tests of fits of kernel classes: known figures are found again, and rows stay monotone."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fit import rounded
from tapestry.hardware import load_device
from tapestry.hardware.calibration.fitting import (
    WINDOWED,
    fit,
    folds_of,
    log_errors,
    monotone,
    small_sample_factor,
)
from tapestry.hardware.calibration.samples import Samples
from tapestry.hardware.kernels import KernelFigures


def samples(key: str, figures: KernelFigures, sizes: dict[str, np.ndarray], moved: np.ndarray) -> Samples:
    """Return samples on a T4 that were measured exactly as these figures have it."""
    count = len(moved)
    zeros = np.zeros(count)
    kind = "contraction" if "m" in sizes else "vector"
    flops = 2 * sizes["m"] * sizes["n"] * sizes["k"] if "m" in sizes else zeros
    tables = np.array(["one", "other"])[np.arange(count) % 2]
    found = Samples(
        *(load_device("t4"), key, kind, "float32", None, flops, moved, sizes),
        *(np.ones(count), "captured", tables),
    )
    return replace(found, measured_s=np.exp(found.log_errors(figures)))


def test_the_share_of_a_memory_and_an_overhead_are_found_again() -> None:
    known = KernelFigures(memory_efficiency=0.7, overhead_s=4e-6)
    found = fit([samples("elementwise.fp32", known, {}, np.geomspace(1e6, 1e10, 12))])
    assert found.memory_efficiency == pytest.approx(0.7, abs=0.01)
    assert found.overhead_s == pytest.approx(4e-6, abs=4e-7)


def test_shares_by_row_length_are_found_again() -> None:
    known = KernelFigures(rows=((1024, 0.8), (4096, 0.5), (16384, 0.4)))
    row = np.repeat([1024.0, 4096.0, 16384.0], 4)
    given = samples("softmax.fp32", known, {"row": row}, 8e4 * row)
    assert np.abs(log_errors([given], fit([given]))).max() < 0.02


def test_a_row_that_is_faster_than_a_shorter_one_shares_its_time() -> None:
    assert np.allclose(monotone({1000: 0.5, 2000: 0.5}), ((1000, 0.5), (2000, 0.5)))
    (_, first), (_, second) = monotone({1000: 0.25, 2000: 1.0})  # 4000 and 2000: the mean is 2828
    assert (first, second) == (pytest.approx(0.3536, abs=1e-4), pytest.approx(0.7071, abs=1e-4))
    (_, first), (_, second) = rounded(((1000, first), (2000, second)))
    assert second <= 2 * first


def test_folds_take_turns_within_each_table_by_size() -> None:
    given = samples("elementwise.fp32", KernelFigures(), {}, np.geomspace(1e6, 1e9, 20))
    (folds,) = folds_of([given])
    for table in ("one", "other"):
        mine = folds[given.groups == table]  # measured times rise
        assert mine.tolist() == [(mine[0] + k) % 5 for k in range(10)]


def test_steps_stay_within_the_range_of_a_figure() -> None:
    top, bottom = (KernelFigures(efficiency=value) for value in (WINDOWED.most, WINDOWED.least))
    for step in (1.0, 3.0, 10.0):
        assert [found.efficiency for found in WINDOWED.neighbors(top, step)] < [WINDOWED.most]
        assert min(found.efficiency for found in WINDOWED.neighbors(bottom, step)) > WINDOWED.least


def test_an_interval_from_few_samples_is_wider() -> None:
    """Student's t of 2, 7 and infinitely many degrees of freedom: 2.920, 1.895 and 1.645."""
    factors = [small_sample_factor(n) for n in (3, 8, 10**6)]
    assert factors == pytest.approx(
        [2.920 * (4 / 3) ** 0.5 / 1.645, 1.895 * (9 / 8) ** 0.5 / 1.645, 1.0], rel=1e-3
    )
