"""Tests of the figures of kernel classes: what is inherited, from whom, and faults of their tables."""

import pytest

from tapestry.hardware import CatalogError
from tapestry.hardware.catalog import device_from_dict
from tapestry.hardware.kernels import Donor, KernelFigures, Relative, averaged, completed, figures_of

DEVICE = {
    "name": "mine",
    "vendor": "me",
    "memory_bytes": 10**9,
    "memory_bytes_per_s": 1e12,
    "peak_flops_per_s": {"fp32": 1e12},
    "vector_flops_per_s": 1e12,
    "cores": 4,
    "tiles": [{"m": 16, "n": 16, "k": 16}],
    "launch_overhead_s": 1e-6,
}
FAST, SLOW = KernelFigures(memory_efficiency=0.9, error=0.04), KernelFigures(memory_efficiency=0.5)


def test_a_class_without_figures_has_those_of_its_parent() -> None:
    kernels = {"elementwise": FAST, "matrix_product.fp16": SLOW}
    assert figures_of(kernels, "gather", "fp32") is FAST
    assert figures_of(kernels, "attention", "bf16") is SLOW
    assert figures_of(kernels, "attention", "fp32") is None


def test_a_device_inherits_from_its_architecture_then_its_vendor_with_more_doubt() -> None:
    kin = Donor("kin", Relative("maker", "new", 4e12, 100.0), {"softmax": SLOW, "elementwise": SLOW})
    near = Donor("near", Relative("maker", "old", 1e12, 100.0), {"softmax": FAST, "gather": FAST})
    far = Donor("far", Relative("maker", "old", 1e12, 900.0), {"gather": SLOW})
    stranger = Donor("stranger", Relative("other", "new", 1e12, 100.0), {"gather": SLOW, "sort": FAST})
    found = completed({"elementwise": FAST}, Relative("maker", "new", 1e12, 90.0), (stranger, far, near, kin))
    assert {key: figures.origin for key, figures in found.items()} == {
        "elementwise": "",
        "softmax": "kin",
        "gather": "near, far",
        "sort": "stranger",
    }
    assert found["sort"].error > FAST.error
    assert 0.85 < found["gather"].memory_efficiency < 0.9


def test_a_class_has_figures_of_another_precision_before_those_of_its_parent() -> None:
    kernels = {"softmax.fp32": FAST, "elementwise.fp16": SLOW, "matrix_product.fp32": FAST}
    assert figures_of(kernels, "softmax", "fp16") is FAST
    assert figures_of(kernels, "gather", "fp32") is SLOW
    assert figures_of(kernels, "matrix_product", "fp16") is None  # other units compute it


@pytest.mark.parametrize(("power", "efficiency"), [(400.0, 0.8), (100.0, 0.4), (1600.0, 0.95)])
def test_products_outside_matrix_units_reach_what_power_allows(power: float, efficiency: float) -> None:
    donor = Donor(
        "donor",
        Relative("maker", "old", 1e12, 400.0, 1e13),
        {"matrix_product.fp32": KernelFigures(0.8, 0.4), "matrix_product.fp16": KernelFigures(0.8, 0.4)},
    )
    found = completed({}, Relative("maker", "new", 1e12, power, 1e13), [donor])
    assert found["matrix_product.fp32"].efficiency == pytest.approx(efficiency)
    assert found["matrix_product.fp32"].memory_efficiency == pytest.approx(efficiency / 2, rel=0.01)
    assert (found["matrix_product.fp16"].efficiency, found["matrix_product.fp16"].memory_efficiency) == (
        0.8,
        0.4,
    )


def test_a_faster_memory_makes_no_product_slower() -> None:
    donor = Donor("donor", Relative("maker", "old", 1e12, 400.0, 1e13), {"matrix_product.fp32": SLOW})
    rates = [10.0 ** (11 + k / 4) for k in range(12)]
    reached = [
        rate
        * completed({}, Relative("maker", "", rate, 400.0, 1e13), [donor])[
            "matrix_product.fp32"
        ].memory_efficiency
        for rate in rates
    ]
    assert reached == sorted(reached)


def test_a_product_takes_no_longer_to_launch_in_half_precision() -> None:
    half = {"matrix_product.fp16": KernelFigures(overhead_s=3e-6, eager_s=2e-5)}
    single = {"matrix_product.fp32": KernelFigures(overhead_s=2e-6, eager_s=1e-5)}
    device = Relative("maker", "new", 1e12, 400.0, 1e13)
    both = [Donor(name, device, kernels) for name, kernels in (("a", half), ("b", single))]
    for own in ({}, half, single):
        found = completed(own, device, both)
        short, long = found["matrix_product.fp16"], found["matrix_product.fp32"]
        assert short.overhead_s <= long.overhead_s
        assert short.eager_s <= long.eager_s
        assert all(found[key] == figures for key, figures in own.items())


def test_means_of_rows_are_taken_at_all_lengths() -> None:
    short = KernelFigures(rows=((64, 0.9), (256, 0.4)))
    long = KernelFigures(rows=((128, 0.6), (1024, 0.1)))
    (figures,) = [averaged((short, long), (1.0, 1.0))]
    assert [length for length, _ in figures.rows] == [64, 128, 256, 1024]
    assert figures.rows[1][1] == pytest.approx(0.6)  # the mean of 0.6 and of 0.6, halfway from 0.9 to 0.4
    assert figures.row_fault() == ""


def test_a_longer_row_may_not_take_less_time() -> None:
    assert KernelFigures(rows=((64, 0.2), (128, 0.4))).row_fault() == ""
    assert "less time" in KernelFigures(rows=((64, 0.2), (128, 0.5))).row_fault()
    assert "rise" in KernelFigures(rows=((64, 0.2), (32, 0.5))).row_fault()


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({"sofmax": {}}, "unknown kernel class; did you mean softmax"),
        ({"softmax.fp8": {}}, "expected a class, or a class with .fp16 or .fp32"),
        ({"softmax": {"memory_efficiency": 80}}, "80 % is 0.8"),
        ({"softmax": {"overhead": 1e-6}}, "unknown key; did you mean overhead_s"),
        ({"softmax": {"rows": [[64, 0.2], [128, 0.9]]}}, "less time"),
        ({"softmax": {"rows": [[64, 2.0]]}}, "at most 1"),
        ({"softmax": {"rows": [64]}}, "pairs of a row length and a share"),
    ],
)
def test_faults_of_kernel_tables_say_where_and_what(table: dict[str, object], fault: str) -> None:
    with pytest.raises(CatalogError, match="kernels") as raised:
        device_from_dict({**DEVICE, "kernels": table})
    assert fault in str(raised.value)
