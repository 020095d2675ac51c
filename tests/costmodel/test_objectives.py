"""Tests of objectives: a plan costed by hand on a mesh with round figures, and refusals by name."""

from dataclasses import replace

import pytest

from tapestry.costmodel.kernel_arrays import (
    ENERGY,
    FLOPS,
    FLOPS_WASTE,
    MEMORY_WASTE,
    PEAK,
    PEAK_FLOPS,
    TIME,
    TOTAL,
    TRAFFIC,
)
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objectives import NAMES, OBJECTIVES
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_device, mesh_from_dict
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.report import costs_of, goal_of
from tests.costmodel.programs import product_of

ROUND = {
    "name": "round",
    "vendor": "nobody",
    "memory_bytes": 10**9,
    "memory_bytes_per_s": 1e12,
    "peak_flops_per_s": {"fp32": 1e12},
    "vector_flops_per_s": 1e12,
    "cores": 1,
    "tiles": [{"m": 8, "n": 8, "k": 8}],
    "layouts": ["row_major"],
    "launch_overhead_s": 1e-6,
    "idle_power_w": 100.0,
    "joules_per_flop": {"fp32": 1e-12, "vector": 2e-12},
    "joules_per_memory_byte": 1e-11,
    "joules_per_link_byte": 1e-10,
    "price_usd_per_hour": 3.6,
    "context_bytes": 1000,
    "workspace_bytes": 200,
    "allocator_bytes": 30,
    "communicator_bytes": 4,
}
PAIR = {
    "name": "pair",
    "device": ROUND,
    "axes": [{"name": "g", "size": 2, "topology": "switch", "bandwidth_bytes_per_s": 1e9, "latency_s": 1e-6}],
}


def gathered_weight(mesh: Mesh) -> tuple[PlanSpace, Genes]:
    """Build a plan: both devices compute `y = x @ w` of 8 x 8; the rows of `w` are split and gathered."""
    space = PlanSpace(product_of(8, 8, 8), mesh)
    genes = space.abstract_genes()
    w = space.gene_of["w"]
    genes.strategies[w] = [str(s) for s in space.families[w].strategies].index("(g.0, -)")
    return space, genes


def test_a_plan_costed_by_hand() -> None:
    mesh = mesh_from_dict(PAIR)
    space, genes = gathered_weight(mesh)

    cost = space.evaluate(genes)

    one = 8 * 8 * 4
    # Half of w comes in: latency and 128 B at 1 GB/s. Then launch, and 1024 flops at 1 Tflop/s.
    assert cost[TIME] == (1_000_000 + 128_000) + (1_000_000 + 1_024)
    # x, half of w, w gathered, y; after the product w is kept as a parameter.
    assert cost[PEAK] == one + one // 2 + one + one
    assert cost[TOTAL] == 2 * cost[PEAK]
    assert cost[FLOPS] == 2 * 1024
    assert cost[PEAK_FLOPS] == 1024
    assert cost[FLOPS_WASTE] == 1024
    assert cost[TRAFFIC] == one
    assert cost[MEMORY_WASTE] == 2 * cost[PEAK] - 3 * one
    # Twice: 1024 flops at 1 pJ, three tensors of 256 B at 10 pJ, and half of w, which is there already, is read and
    # written; 256 B over the links at 100 pJ.
    assert cost[ENERGY] == 2 * (1024 + 3 * one * 10 + one * 10) + one * 100


def test_objectives_in_their_units() -> None:
    mesh = mesh_from_dict(PAIR)
    space, genes = gathered_weight(mesh)
    raw = space.evaluate(genes)

    cost = costs_of(raw, mesh)

    assert tuple(cost) == NAMES
    assert cost["time_s"] == 2.129024e-6
    assert cost["energy_j"] == pytest.approx(100 * 2 * 2.129024e-6 + 48_128e-12, rel=1e-12)
    assert raw[ENERGY] == 48_128
    assert cost["price_usd"] == pytest.approx(2 * 3.6 / 3600 * 2.129024e-6, rel=1e-12)
    assert cost["traffic_bytes"] == 256
    assert isinstance(cost["peak_memory_bytes"], int)
    goal = goal_of(OBJECTIVES, (), mesh, 0.005)
    for objective, form, constant in zip(OBJECTIVES, goal.weights, goal.constants, strict=True):
        assert form @ raw + constant == pytest.approx(cost[objective.name], rel=1e-12), objective.name


def test_a_device_holds_more_than_tensors_and_buffers_of_each_axis_in_use() -> None:
    two_axes = PAIR | {"axes": [PAIR["axes"][0], PAIR["axes"][0] | {"name": "h", "size": 3}]}  # type: ignore[index]
    mesh = mesh_from_dict(two_axes)
    for part, communicators in (
        (mesh, 2),
        (mesh.part((("g", 1), ("h", 3))), 1),
        (mesh.part((("g", 1), ("h", 1))), 0),
    ):
        space = PlanSpace(product_of(8, 8, 8), part)
        cost = costs_of(space.evaluate(space.abstract_genes()), part)
        assert cost["device_memory_bytes"] - cost["peak_memory_bytes"] == 1230 + 4 * communicators
        assert isinstance(cost["device_memory_bytes"], int)


@pytest.mark.parametrize(
    "figure", ["context_bytes", "workspace_bytes", "allocator_bytes", "communicator_bytes"]
)
def test_device_memory_is_refused_by_the_figure_that_is_missing(figure: str) -> None:
    mesh = mesh_from_dict(PAIR | {"device": {name: of for name, of in ROUND.items() if name != figure}})
    with pytest.raises(ValueError, match=f"'device_memory_bytes' cannot be computed: .*no {figure}"):
        KnownObjectives().require(["device_memory_bytes"], mesh.device)


def test_idle_power_and_price_count_the_devices_of_the_part_that_is_used() -> None:
    mesh = mesh_from_dict(PAIR)
    alone = mesh.part((("g", 1),))
    space = PlanSpace(product_of(8, 8, 8), alone)

    cost = costs_of(space.evaluate(space.abstract_genes()), alone)

    assert cost["time_s"] == 1.001024e-6
    assert cost["energy_j"] == pytest.approx(100 * 1.001024e-6 + (1024 + 7680) * 1e-12, rel=1e-12)
    assert cost["price_usd"] == pytest.approx(0.001 * 1.001024e-6, rel=1e-12)


def test_unknown_names_are_answered_with_near_ones() -> None:
    device = load_device("h100-sxm5-80gb")
    with pytest.raises(ValueError, match=r"there is no objective 'time'; did you mean time_s\?"):
        KnownObjectives().require(["time"], device)
    with pytest.raises(ValueError, match="did you mean peak_memory_bytes or total_memory_bytes"):
        KnownObjectives().require(["peak_memory_byte"], device)
    with pytest.raises(ValueError, match="known are time_s, peak_memory_bytes"):
        KnownObjectives().require(["zzz"], device)
    with pytest.raises(ValueError, match="'time_s' is named twice"):
        KnownObjectives().require(["time_s", "traffic_bytes", "time_s"], device)
    with pytest.raises(ValueError, match="name at least one objective"):
        KnownObjectives().require([], device)


@pytest.mark.parametrize(
    ("objective", "figure"),
    [
        ("energy_j", "idle_power_w"),
        ("energy_j", "joules_per_flop"),
        ("energy_j", "joules_per_memory_byte"),
        ("energy_j", "joules_per_link_byte"),
        ("price_usd", "price_usd_per_hour"),
    ],
)
def test_an_objective_that_lacks_a_figure_is_refused_not_zero(objective: str, figure: str) -> None:
    device = replace(mesh_from_dict(PAIR).device, **{figure: None})
    with pytest.raises(
        ValueError, match=f"objective '{objective}' cannot be computed.*'round' has no {figure}"
    ):
        KnownObjectives().require(["time_s", objective], device)

    mesh = replace(mesh_from_dict(PAIR), device=device)
    space, genes = gathered_weight(mesh)
    assert objective not in costs_of(space.evaluate(genes), mesh), "nor is it reported"


@pytest.mark.parametrize("precision", ["vector", "fp32"])
def test_energy_needs_a_figure_per_precision_but_nothing_else_does(precision: str) -> None:
    rates = {name: rate for name, rate in PAIR["device"]["joules_per_flop"].items() if name != precision}
    mesh = mesh_from_dict({**PAIR, "device": {**PAIR["device"], "joules_per_flop": rates}})
    with pytest.raises(
        ValueError, match=f"'energy_j' cannot be computed.*has no joules_per_flop.{precision}"
    ):
        KnownObjectives().require(["energy_j"], mesh.device)

    space, genes = gathered_weight(mesh)
    cost = costs_of(space.evaluate(genes), mesh)
    assert "energy_j" not in cost
    whole, _ = gathered_weight(mesh_from_dict(PAIR))
    known = costs_of(whole.evaluate(genes), mesh_from_dict(PAIR))
    assert cost == {name: value for name, value in known.items() if name != "energy_j"}
    assert (
        reference_cost(space.graph, space.placements(genes), mesh).vector().tolist()
        == space.evaluate(genes).tolist()
    )


def test_an_objective_without_any_figure_missing_is_taken_whatever_else_is_unknown() -> None:
    device = replace(mesh_from_dict(PAIR).device, idle_power_w=None, price_usd_per_hour=None)
    assert [o.name for o in KnownObjectives().require(["traffic_bytes", "time_s"], device)] == [
        "traffic_bytes",
        "time_s",
    ]
