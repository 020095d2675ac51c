"""Tests of kernel classes in time: by hand, monotone in every amount, and never below the roofline."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.hardware import Device, device_names, load_device
from tapestry.hardware.device import LAUNCHES
from tapestry.hardware.kernels import KernelFigures, figures_of
from tapestry.hardware.timing import block_ticks, seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators.kernel_classes import KERNEL_CLASSES, PRODUCT_CLASSES
from tests.cases import examples
from tests.hardware.test_timing import ROUND

CACHED = replace(ROUND, cache_bytes=1000, cache_bytes_per_s=8e12)
SIZES = st.integers(1, 40_000)
AMOUNTS = st.integers(0, 2**36)
PRODUCT_FIGURES = st.builds(
    KernelFigures,
    efficiency=st.floats(0.3, 1.0),
    memory_efficiency=st.floats(0.5, 0.95),
    k_step=st.sampled_from((None, 8, 32, 128)),
    k_prologue=st.floats(0.0, 256.0),
    wave_share=st.floats(0.0, 1.0),
    wide_columns=st.floats(0.0, 2.0),
    tile_exponent=st.floats(0.2, 3.0),
    split_k=st.sampled_from((1, 4, 16)),
    sharpness=st.none() | st.floats(1.5, 12.0),
)


def with_figures(device: Device, kernels: Mapping[str, KernelFigures]) -> Device:
    """Return the device with these kernel classes alone."""
    return replace(device, kernels=dict(kernels))


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (500, 500 / 8 / 0.5),  # all from the cache: 8 bytes per tick, half of it reached
        (1500, 1000 / 0.5 + 500 / 4),  # 500 of 1500 bytes are still there
        (2000, 2000 / 0.5),  # none: what is read next has been evicted
    ],
)
def test_the_level_of_memory_that_holds_the_working_set(moved: int, expected: float) -> None:
    device = with_figures(CACHED, {"elementwise": KernelFigures(memory_efficiency=0.5, cache_efficiency=0.5)})
    assert block_ticks(device, "vector", 0, moved, "float32") == np.ceil(expected)


@pytest.mark.parametrize(
    ("moved", "cold", "expected"),
    [
        (500, 200, 300 / 4 + 200 / 0.5),  # what is cold is read from the memory
        (500, 900, 500 / 0.5),
        (1500, 700, 1000 / 0.5 + 500 / 4),  # as much was not in the cache anyway
        (1500, 1200, 1200 / 0.5 + 300 / 4),
    ],
)
def test_cold_bytes_come_from_the_memory(moved: int, cold: int, expected: float) -> None:
    device = with_figures(CACHED, {"elementwise": KernelFigures(memory_efficiency=0.5, cache_efficiency=0.5)})
    assert block_ticks(device, "vector", 0, moved, "float32", cold_bytes=cold) == np.ceil(expected)


def test_large_outputs_are_allocated_before_they_are_written() -> None:
    device = replace(with_figures(ROUND, {}), fresh_bytes=1000, fresh_bytes_per_s=1e11)
    written = np.array([0, 999, 1000, 3000])
    ticks = block_ticks(device, "vector", 0, 4000, "float32", written_bytes=written)
    assert (ticks - ticks[0]).tolist() == [0, 0, 10_000, 30_000]


def test_rows_have_the_share_of_their_length_and_one_core_each() -> None:
    # Given shares of 0.8 up to rows of 64 and 0.2 from 1024: 0.4 between them, in logarithms.
    figures = KernelFigures(rows=((64, 0.8), (1024, 0.2)))
    device = with_figures(ROUND, {"softmax": figures})
    for row, share in ((8, 0.8), (64, 0.8), (256, 0.4), (4096, 0.2)):
        assert block_ticks(device, "vector", 0, 800, "float32", kernel="softmax", row=row) == round(
            800 / share
        )
    # When a core moves 0.01 bytes per tick, then one row of 100 elements takes 80,000 ticks, and many rows do not.
    slow = with_figures(ROUND, {"softmax": replace(figures, row_bytes_per_s=1e10)})
    one, many = block_ticks(slow, "vector", 0, [800, 8e9], "float32", kernel="softmax", row=[100, 8])
    assert one == pytest.approx(80_000, rel=1e-2)
    assert many == pytest.approx(1e10, rel=1e-3)


def test_a_long_reduction_of_a_small_output_is_split() -> None:
    figures = KernelFigures(efficiency=0.5)
    sizes = {"m": 16, "n": 16, "k": 4096}
    flops = 2 * 16 * 16 * 4096
    one, four = (
        block_ticks(
            with_figures(ROUND, {"matrix_product": replace(figures, split_k=split)}),
            *("contraction", flops, 0, "float32"),
            **sizes,
        )
        for split in (1, 4)
    )
    partial_sums = 8 * 4 * 16 * 16  # bytes, at 1 byte per tick
    assert one == 4 * flops / 0.5  # one core of four
    assert four == flops / 0.5 + partial_sums


def test_an_eager_launch_adds_the_time_of_the_host() -> None:
    device = with_figures(ROUND, {"elementwise": KernelFigures(eager_s=5e-6)})
    captured, eager = (
        block_ticks(device.launched(launch), "vector", 0, 1000, "float32") for launch in ("captured", "eager")
    )
    assert eager - captured == 5_000_000


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(device_names()),
    kernel=st.sampled_from([name for name in KERNEL_CLASSES if name not in PRODUCT_CLASSES]),
    moved=AMOUNTS,
    more=AMOUNTS,
    row=st.integers(1, 2**20),
    dtype=st.sampled_from(("float32", "float16")),
)
def test_more_bytes_never_take_less_time_nor_beat_their_memory(
    name: str, kernel: str, moved: int, more: int, row: int, dtype: str
) -> None:
    device = load_device(name)
    amounts = np.array([moved, moved + more])
    less, other = block_ticks(device, "vector", 0, amounts, dtype, kernel=kernel, row=row)
    assert less <= other
    cached = device.cache_bytes if device.cache_bytes is not None else 0
    fastest = np.where(
        amounts < 2 * cached, device.cache_bytes_per_s or device.memory_bytes_per_s, device.memory_bytes_per_s
    )
    assert np.all(seconds(np.array([less, other])) >= amounts / fastest)


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(device_names()),
    kernel=st.sampled_from(KERNEL_CLASSES),
    row=SIZES,
    longer=SIZES,
    rows=st.integers(1, 2**16),
)
def test_longer_rows_never_take_less_time(name: str, kernel: str, row: int, longer: int, rows: int) -> None:
    lengths = np.array([row, row + longer])
    moved = 4 * lengths * rows
    less, other = block_ticks(load_device(name), "vector", 0, moved, "float32", kernel=kernel, row=lengths)
    assert less <= other


@settings(max_examples=examples(100))
@given(
    figures=PRODUCT_FIGURES,
    sizes=st.tuples(SIZES, SIZES, SIZES, st.integers(1, 64)),
    more=SIZES,
    name=st.sampled_from(("h100", "a100", "v100", "n150")),
)
def test_a_larger_product_never_takes_less_time_nor_beats_the_peak(
    figures: KernelFigures, sizes: tuple[int, int, int, int], more: int, name: str
) -> None:
    device = with_figures(load_device(name), {"matrix_product": figures})
    grown = np.array(sizes) + more * np.vstack([np.zeros(4), np.eye(4)]).astype(int)
    m, n, k, batch = grown.T
    flops = 2 * grown.prod(1).astype(float)
    moved = 2 * batch * (m * k + k * n + m * n)
    taken = block_ticks(device, "contraction", flops, moved, "bf16", m=m, n=n, k=k, batch=batch)
    assert np.all(taken[0] <= taken[1:])
    least = np.maximum(flops / device.contraction_flops_per_s("bf16"), moved / device.memory_bytes_per_s)
    assert np.all(seconds(taken) >= least)


@settings(max_examples=examples(100))
@given(
    kernel=st.sampled_from(KERNEL_CLASSES),
    dtype=st.sampled_from(("float32", "float16", "bfloat16", "float8_e4m3fn")),
    launch=st.sampled_from(("captured", "eager")),
    flops=AMOUNTS,
    moved=AMOUNTS,
    sizes=st.tuples(SIZES, SIZES, SIZES),
)
def test_an_h200_is_never_slower_than_an_h100(
    kernel: str, dtype: str, launch: str, flops: int, moved: int, sizes: tuple[int, int, int]
) -> None:
    kind = "contraction" if kernel in PRODUCT_CLASSES else "vector"
    shape = dict(zip(("m", "n", "k"), sizes, strict=True)) if kind == "contraction" else {"row": sizes[0]}
    h100, h200 = (
        block_ticks(load_device(name).launched(launch), kind, flops, moved, dtype, kernel=kernel, **shape)  # type: ignore[arg-type]
        for name in ("h100", "h200")
    )
    assert h200 <= h100


@settings(max_examples=examples(100))
@given(
    name=st.sampled_from(("h100", "h200", "a100", "a100-pcie-40gb", "v100", "t4", "l4", "b200", "mi300x")),
    launch=st.sampled_from(("captured", "eager")),
    sizes=st.tuples(SIZES, SIZES, SIZES, st.integers(1, 64)) | st.tuples(*[st.integers(1, 512)] * 4),
)
def test_no_product_is_slower_in_half_precision(
    name: str, launch: str, sizes: tuple[int, int, int, int]
) -> None:
    m, n, k, batch = sizes
    flops, elements = 2 * m * n * k * batch, batch * (m * k + k * n + m * n)
    device = load_device(name).launched(launch)
    half, single = (
        block_ticks(device, "contraction", flops, item * elements, dtype, m=m, n=n, k=k, batch=batch)
        for dtype, item in (("bfloat16", 2), ("float32", 4))
    )
    assert half <= single


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(device_names()),
    launch=st.sampled_from(LAUNCHES[:2]),
    kernel=st.sampled_from([k for k in KERNEL_CLASSES if k not in PRODUCT_CLASSES]),
    rows=st.integers(1, 2**16),
    row=st.integers(1, 2**14),
)
def test_no_inherited_kernel_is_slower_in_half_precision(
    name: str, launch: str, kernel: str, rows: int, row: int
) -> None:
    device, elements = load_device(name).launched(launch), rows * row
    tables = (figures_of(device.kernels, kernel, precision) for precision in ("bf16", "fp32"))
    if not any(table is None or table.origin for table in tables):
        return  # both are measured
    half, single = (
        block_ticks(device, "vector", elements, 2 * item * elements, dtype, kernel=kernel, row=row)
        for dtype, item in (("bfloat16", 2), ("float32", 4))
    )
    assert half <= single


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(device_names()),
    launch=st.sampled_from(LAUNCHES[:2]),
    dtype=st.sampled_from(("float32", "bfloat16", "float16")),
    elements=st.integers(1, 2**32),
)
def test_a_gated_activation_takes_no_longer_than_its_two_functions(
    name: str, launch: str, dtype: str, elements: int
) -> None:
    device, one = load_device(name).launched(launch), elements * item_bytes(dtype)

    def taken(flops: int, inputs: int, kernel: str) -> int:
        moved = (inputs + 1) * one
        return int(block_ticks(device, "vector", flops, moved, dtype, kernel=kernel, written_bytes=one))

    gated = taken(16 * elements, 2, "gated")
    activation, product = taken(15 * elements, 1, "elementwise"), taken(elements, 2, "elementwise")
    assert gated <= activation + product


@given(kernels=st.integers(2, 9), elements=AMOUNTS)
@settings(deadline=None, max_examples=examples(30))
def test_functions_that_are_not_fused_are_kernels_of_their_own(kernels: int, elements: int) -> None:
    captured = replace(CACHED, launch_overhead_s=1e-6)
    unfused = captured.launched("unfused")
    apart = {"kernels": kernels, "separate_elements": elements}
    alone = int(block_ticks(captured, "vector", 0, 4000, "float32"))
    assert int(block_ticks(captured, "vector", 0, 4000, "float32", **apart)) == alone
    taken = int(block_ticks(unfused, "vector", 0, 4000, "float32", **apart))
    assert taken >= kernels * 10**6 and taken >= alone
    assert int(block_ticks(unfused, "vector", 0, 4000, "float32")) == alone


def grouped_ticks(device: Device, channels: np.ndarray, each: int, pixels: int, taps: int) -> np.ndarray:
    """Return the ticks of a float32 convolution of `channels` in groups of `each`, (channels,)."""
    flops, moved = 2.0 * pixels * channels * each * taps, 4.0 * channels * (2 * pixels + each * taps)
    sizes = {"m": pixels, "n": each, "k": each * taps, "batch": channels // each}
    return block_ticks(device, "contraction", flops, moved, "float32", kernel="grouped_convolution", **sizes)


def test_a_depthwise_convolution_is_not_padded_and_a_wide_group_is_a_product() -> None:
    classes = {
        "convolution": KernelFigures(efficiency=0.5),
        "grouped_convolution": KernelFigures(efficiency=0.25),
    }
    device = replace(with_figures(ROUND, classes), memory_bytes_per_s=1e18, vector_flops_per_s=1e12)
    narrow, wide = (int(grouped_ticks(device, np.array([64]), each, 64, 9)[0]) for each in (1, 64))
    assert narrow == 2 * 64 * 64 * 9 / 0.25  # 1 flop per tick on the vector units
    product = {"m": 64, "n": 64, "k": 64 * 9, "kernel": "convolution"}
    assert wide == block_ticks(device, "contraction", 2 * 64 * 64 * 64 * 9, 0, "float32", **product)  # type: ignore[arg-type]
    assert wide < 2 * 64 * 64 * 64 * 9 / 0.25


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(device_names()),
    channels=st.integers(8, 4096),
    pixels=st.integers(1, 2**14),
    taps=st.sampled_from((1, 9, 25)),
)
def test_a_depthwise_convolution_is_between_its_roofline_and_the_dense_one(
    name: str, channels: int, pixels: int, taps: int
) -> None:
    device = load_device(name)
    counts = np.array([channels, channels + 1, 2 * channels])
    taken = seconds(grouped_ticks(device, counts, 1, pixels, taps))
    assert np.all(np.diff(taken) >= 0)
    rate = max(device.vector_flops_per_s, device.contraction_flops_per_s("float32"))
    fastest = max(device.cache_bytes_per_s or 0, device.memory_bytes_per_s)
    assert np.all(taken >= np.maximum(2.0 * pixels * counts * taps / rate, 8.0 * pixels * counts / fastest))
    flops, moved = 2.0 * pixels * counts**2 * taps, 4.0 * counts * (2 * pixels + counts * taps)
    sizes = {"m": pixels, "n": counts, "k": counts * taps}
    dense = seconds(
        block_ticks(device, "contraction", flops, moved, "float32", kernel="convolution", **sizes)
    )
    assert np.all(taken <= dense)


def test_a_class_that_says_nothing_of_the_host_takes_the_time_of_the_others() -> None:
    known = {
        "softmax.fp16": KernelFigures(eager_s=4e-5, dispatch_s=1e-5),
        "elementwise.fp16": KernelFigures(eager_s=2e-5),
        "normalization.fp16": KernelFigures(eager_s=3e-5),
        "gated.fp16": KernelFigures(),
    }
    captured = replace(load_device("h100-sxm5-80gb"), kernels=known)
    eager = captured.launched("eager")

    def added_s(kernel: str) -> float:
        one, other = (block_ticks(d, "vector", 0, 2**16, "float16", kernel=kernel) for d in (eager, captured))
        return float(seconds(one - other))

    assert added_s("elementwise") == pytest.approx(2e-5)
    assert added_s("gated") == pytest.approx(3e-5)
    assert replace(captured, kernels={"gated.fp16": KernelFigures()}).host_times == (0.0, 0.0)
