"""Tests of searches that rank plans by a quantile of the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tapestry
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.device import MatrixTile
from tapestry.hardware.kernels import KernelFigures
from tapestry.optimizer import Result
from tapestry.optimizer.run.options import OptionError

SIZE = 4096
PRODUCT_S = 2 * SIZE**3 / 1e14
TIMED = {"objectives": ("time_s",), "inputs": "replicated", "outputs": "gathered"}
QUICK = {"evaluations": 200, "islands": 1}


def two_devices() -> Mesh:
    """Return devices whose products are certain, and whose links, never measured, take 0.4 of a product for half."""
    mesh = load_mesh("dgx-h100")
    device = replace(
        mesh.device,
        peak_flops_per_s={"fp32": 1e14},
        memory_bytes_per_s=1e16,
        launch_overhead_s=0.0,
        cores=1,
        communication_cores=0,
        tiles=(MatrixTile(128, 128, 64),),
        kernels={"matrix_product": KernelFigures(error=0.0), "elementwise": KernelFigures(error=0.0)},
    )
    (axis,) = mesh.axes
    rate = SIZE * SIZE * 4 / 2 / (0.4 * PRODUCT_S)
    bare = replace(axis, size=2, bandwidth_bytes_per_s=rate, latency_s=0.0, collectives=())
    figures = {
        "efficiency": 1.0,
        "ramp_s": 0.0,
        "small_message_bytes_per_s": None,
        "all_reduce_efficiency": None,
    }
    return replace(mesh, device=device, axes=(replace(bare, **figures),), network=None)


def searched(robust: float | None) -> Result:
    with tapestry.program("layer") as p:
        p.output("y", p.input("x", SIZE, SIZE) @ p.parameter("w", SIZE, SIZE))
    return tapestry.optimize(p, two_devices(), robust=robust, **TIMED, **QUICK)


def test_a_plan_that_rests_on_uncertain_times_loses() -> None:
    (usual,), (robust,) = searched(None).frontier, searched(0.9).frontier
    assert usual.cost["traffic_bytes"] > 0 and usual.cost["time_s"] == pytest.approx(
        0.9 * PRODUCT_S, rel=0.02
    )
    assert robust.cost["traffic_bytes"] == 0 and robust.cost["time_s"] == pytest.approx(PRODUCT_S, rel=0.02)


def test_the_half_costs_what_no_quantile_costs() -> None:
    usual, half = searched(None), searched(0.5)
    assert [plan.cost for plan in usual.frontier] == [plan.cost for plan in half.frontier]


def test_plans_are_simulated_at_the_quantile_and_verified_beside_the_median() -> None:
    result = searched(0.6)
    (plan,) = result.frontier
    assert result.mesh == two_devices().at_quantile(0.6)
    late, usual = (
        tapestry.simulate(plan, mesh=mesh, execute=False).makespan_ticks
        for mesh in (result.mesh, two_devices())
    )
    assert late == round(plan.cost["time_s"] * 1e12) > usual
    verified = tapestry.verify(result, plan.id, execute=False)
    assert verified.ok and verified.time is not None
    assert verified.time.seconds == pytest.approx(usual / 1e12, rel=1e-9)


@pytest.mark.parametrize("robust", [0.4, 1, -1, "much"])
def test_what_is_no_quantile_is_refused(robust: object) -> None:
    with pytest.raises(OptionError, match=r"robust: expected a number from 0\.5 to 0\.999"):
        searched(robust)  # type: ignore[arg-type]
