"""Tests of times at a quantile: what errs more is longer, the median stays, and the order among exchanges holds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tapestry.hardware import CatalogError, Mesh, load_mesh
from tapestry.hardware.kernels import UNKNOWN_ERROR, KernelFigures
from tapestry.hardware.mesh_text import mesh_text
from tapestry.hardware.timing import STEP_KINDS, block_ticks, copy_ticks, step_ticks
from tapestry.service.store import mesh_of, mesh_to_document
from tapestry.teg.sharding.copies import Round

NINE_IN_TEN = 1.2815515655446004  # standard deviations above the mean of a normal distribution
TWO_NODES = load_mesh("2x-aws-p5")
SIZES = [1, 1000, 10**6, 10**9]


def times(mesh: Mesh) -> np.ndarray:
    """Return ticks of kernels, exchanges on each axis, and copies over all axes, by size."""
    blocks = [
        block_ticks(mesh.device, "vector", SIZES, SIZES, "float16", kernel=kernel)
        for kernel in ("softmax", "elementwise", "gather")
    ]
    product = block_ticks(mesh.device, "contraction", SIZES, SIZES, "bfloat16")
    steps = [step_ticks(a, kind, a.size, SIZES) for a in mesh.axes for kind in STEP_KINDS]
    rounds = [Round(axis.name, "all_reduce", axis.size, 1) for axis in mesh.axes]
    return np.array([*blocks, product, *steps, copy_ticks(mesh, rounds, [[n, n] for n in SIZES])])


def test_the_half_is_the_median_exactly() -> None:
    assert (times(TWO_NODES.at_quantile(0.5)) == times(TWO_NODES)).all()
    assert TWO_NODES.at_quantile(None) is TWO_NODES


def test_times_rise_with_the_quantile() -> None:
    found = [times(TWO_NODES.at_quantile(quantile)) for quantile in (0.5, 0.7, 0.9, 0.99)]
    for less, more in pairwise(found):
        assert (more > less)[:, :-1].all()
        assert (more >= less).all()  # the largest exchanges take what their links take at full rate


def test_a_kernel_is_longer_by_the_error_of_its_class() -> None:
    mesh = load_mesh("dgx-h100")
    kernels = {"softmax": KernelFigures(error=0.2), "sort": KernelFigures(error=0.0)}
    mesh = replace(mesh, device=replace(mesh.device, kernels=kernels))
    late = mesh.at_quantile(0.9)
    for kernel, error in (("softmax", 0.2), ("sort", 0.0)):
        before, after = (
            int(block_ticks(each.device, "vector", 0, 10**9, "float32", kernel=kernel))
            for each in (mesh, late)
        )
        assert after == pytest.approx(before * math.exp(NINE_IN_TEN * error), rel=1e-8)


def test_an_exchange_is_longer_by_the_error_of_what_it_follows_from() -> None:
    (axis,) = load_mesh("dgx-h100").axes
    bare = replace(axis, collectives=())
    before, after = (step_ticks(a, "all_gather", 8, 10**8) for a in (bare, replace(bare, quantile=0.9)))
    assert after == pytest.approx(before * math.exp(NINE_IN_TEN * UNKNOWN_ERROR), rel=1e-8)


@pytest.mark.parametrize("quantile", [0.6, 0.9, 0.999])
def test_half_an_all_reduce_takes_no_longer_than_the_whole(quantile: float) -> None:
    received = np.array(SIZES)
    for axis in TWO_NODES.at_quantile(quantile).axes:
        whole = step_ticks(axis, "all_reduce", axis.size, 2 * received)
        assert (step_ticks(axis, "reduce_scatter", axis.size, received) <= whole).all()
        gathered = step_ticks(axis, "all_gather", axis.size, received)
        assert (step_ticks(axis, "fetch", axis.size, received) >= gathered).all()


def test_parts_of_a_mesh_keep_the_quantile() -> None:
    late, smaller = TWO_NODES.at_quantile(0.9), (("node", 1), ("gpu", 4))
    assert late.part(smaller) == TWO_NODES.part(smaller).at_quantile(0.9)


def test_stored_meshes_and_files_keep_the_quantile(tmp_path: Path) -> None:
    node = load_mesh("dgx-h100")
    late = node.at_quantile(0.9)
    assert mesh_of(mesh_to_document(late)) == late != node
    file = tmp_path / "late.toml"
    file.write_text(mesh_text(late, with_device=True))
    assert load_mesh(file) == late
    file.write_text(file.read_text().replace("quantile = 0.9", "quantile = 90"))
    with pytest.raises(CatalogError, match=r"quantile: expected a number from 0.5 to 0.999, not 90"):
        load_mesh(file)
