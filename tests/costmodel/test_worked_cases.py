"""Tests of the worked cases of sharding (fp32, 8 devices), by PlanSpace and the reference cost model."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.hardware.timing import block_ticks, step_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.costmodel.programs import GRAPHS, contract, random_genes, weight
from tests.hardware.simulator.programs import cell

EIGHT = load_mesh("dgx-h100")
ALL = ("gpu.0", "gpu.1", "gpu.2")


def on(*splits: Split) -> Placement:
    return Placement(Strategy(splits))


def predicted(graph: Graph, blocks: dict[str, Placement], **options: str) -> np.ndarray:
    """Predict the costs of hand-made placements by genes, and check that the reference cost model agrees."""
    space = PlanSpace(graph, EIGHT, **options)
    cost = space.evaluate(space.genes_of(Placements(blocks)))
    assert cost.tolist() == reference_cost(graph, Placements(blocks, **options), EIGHT).vector().tolist()
    return cost


@pytest.mark.parametrize(("granule", "total_bytes"), [(1, 12_845_056), (2, 2_752_512)])
def test_halo_of_a_strided_convolution(granule: int, total_bytes: int) -> None:
    """Check that chunks of 7 rows lack 28, and aligned ones (stride 2: 8 rows each, device 7 empty) lack 6."""
    b = GraphBuilder("a layer of ResNet")
    x = b.source("x", (16, 128, 56, 56), "float32")
    w = weight(b, "w", 1, 128, 3, 3)
    (y,) = b.apply("conv", (x, w), site="conv", strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
    b.sink(y)
    rows = on(WHOLE, WHOLE, Split(ALL), WHOLE)
    source = on(WHOLE, WHOLE, Split(ALL, granule), WHOLE)
    conv = on(WHOLE, WHOLE, Split(ALL), WHOLE, WHOLE)

    cost = predicted(b.build(), {"x": source, "conv": conv, "conv.out": rows})

    assert cost[TRAFFIC] == total_bytes


def attention_input() -> tuple[Graph, dict[str, Placement]]:
    """Build an attention input: x split by sequence; q, k, v of 12 heads over 8 devices."""
    b = GraphBuilder("attention of GPT-2 small")
    x = b.source("x", (1024, 768), "float32")
    residual = cell(b, "residual", ("mul", ("input", 0), ("const", 2.0)), (x,))
    for name in "qkv":
        contract(b, name, residual, weight(b, f"w{name}", 768, 12, 64), "sc,chd->shd")
    for name in ("q", "k", "v", "residual"):
        b.sink(name)
    sequence, heads = (Split(ALL), WHOLE), (WHOLE, Split(ALL), WHOLE)
    placements = {"x": on(*sequence), "residual": on(*sequence), "residual.out": on(*sequence)}
    for name in "qkv":
        placements |= {f"w{name}": on(*heads), name: on(*heads, WHOLE), f"{name}.out": on(*heads)}
    return b.build(), placements


def test_attention_input_is_gathered_once() -> None:
    graph, placements = attention_input()
    cost = predicted(graph, placements)
    parameters_bytes = 3 * 768 * 2 * 64 * 4
    assert cost[TRAFFIC] == 22_020_096
    assert cost[PEAK] - parameters_bytes == 393_216 + 3_145_728 + 1_572_864 == 5_111_808


def test_a_regather_makes_the_copy_again() -> None:
    graph, placements = attention_input()
    for name, copies in (("k", 2), ("v", 3)):
        placements[name] = Placement(placements[name].strategy, regather=(True, False))
        assert predicted(graph, placements)[TRAFFIC] == copies * 22_020_096


def test_all_reduce_of_a_gradient() -> None:
    b = GraphBuilder("a weight's gradient")
    x, dy = b.source("x", (64, 768), "float32"), b.source("dy", (64, 3072), "float32")
    b.sink(contract(b, "dw", x, dy, "sc,sf->cf"))
    sequence = on(Split(ALL), WHOLE)
    placements = {"x": sequence, "dy": sequence, "dw": on(WHOLE, WHOLE, Split(ALL))}

    cost = predicted(b.build(), placements, outputs="gathered")

    assert cost[TRAFFIC] == 8 * 16_515_072
    # The inputs are gone by then: the terms, their sum, and one incoming slice.
    assert cost[PEAK] == 9_437_184 + 9_437_184 + 9_437_184 // 8


@pytest.mark.parametrize("options", [{"inputs": "replicated"}, {"outputs": "gathered"}], ids=str)
def test_boundary_options_are_part_of_the_plan(options: dict[str, str]) -> None:
    rng = np.random.default_rng(4)
    for name in ("perceptron", "leftovers"):
        graph = GRAPHS[name]()
        space = PlanSpace(graph, EIGHT, **options)
        for _ in range(5):
            genes = random_genes(rng, space)
            placements = space.placements(genes)
            assert (placements.inputs, placements.outputs) == (space.inputs, space.outputs)
            assert (
                space.evaluate(genes).tolist() == reference_cost(graph, placements, EIGHT).vector().tolist()
            )


def test_genes_and_placements_say_the_same() -> None:
    rng = np.random.default_rng(5)
    space = PlanSpace(GRAPHS["attention"](), load_mesh("2x-dgx-h100"))
    for _ in range(20):
        genes = random_genes(rng, space)
        back = space.genes_of(space.placements(genes))
        assert back.strategies.tolist() == genes.strategies.tolist()
        assert back.prefetch.tolist() == genes.prefetch.tolist()
        assert back.regather.tolist() == genes.regather.tolist()


def test_a_strategy_outside_the_view_is_refused() -> None:
    graph, placements = attention_input()
    foreign = Placement(Strategy((Split(("gpu.2", "gpu.0")), WHOLE)))
    with pytest.raises(ValueError, match=r"block 'residual': strategy .* is not one of this view's"):
        PlanSpace(graph, EIGHT).genes_of(Placements(placements | {"residual": foreign}))


@pytest.mark.parametrize(("split", "staged_bytes"), [((Split(ALL), WHOLE), 0), ((WHOLE, Split(ALL)), 65_536)])
def test_a_gather_of_columns_is_staged_and_repacked(split: tuple[Split, ...], staged_bytes: int) -> None:
    """Check the peak of a gather: the eighth held, the whole of 128 x 128 values made, and before that all that lands.

    The copy takes as much longer as a device takes to read and write the whole.
    """
    b = GraphBuilder("gather")
    x = b.source("x", (128, 128), "float32")
    b.sink(x, site="y")
    graph = b.build()
    cost = predicted(graph, {"x": on(*split), "y": on(WHOLE, WHOLE)})
    assert cost[PEAK] == 8_192 + 65_536 + staged_bytes
    assert cost[TRAFFIC] == 8 * 7 * 8_192
    rows = predicted(graph, {"x": on(Split(ALL), WHOLE), "y": on(WHOLE, WHOLE)})
    again = block_ticks(EIGHT.device, "move", 0, 2 * staged_bytes, "float32")
    assert cost[TIME] - rows[TIME] == again


def test_a_gather_on_nvlink_runs_beside_one_on_the_network() -> None:
    """Check a product that reads one factor, split over GPUs, whole, and the columns of another, split over nodes.

    In two queues the shorter gather takes no time. They receive 7/8 of one tensor, and half of a part of the other.
    """
    b = GraphBuilder("two gathers")
    x, y = (b.source(f"{name}_in", (2048, 1024), "float32") for name in "xy")
    x, y = cell(b, "x", ("neg", ("input", 0)), (x,)), cell(b, "y", ("neg", ("input", 0)), (y,))
    b.sink(contract(b, "z", x, y, "km,kn->mn"))
    graph, mesh = b.build(), load_mesh("dgx-h100").by_count(2)
    rows, both, columns = on(Split(ALL), WHOLE), on(Split(("node.0",)), Split(ALL)), on(WHOLE, Split(ALL))
    blocks = {"x": rows, "y": both, "z": on(WHOLE, Split(ALL), WHOLE), "z.out": columns}
    placements = Placements({"x_in": rows, "y_in": both, **blocks})
    whole, (node, gpu) = 2048 * 1024 * 4, mesh.axes
    times = []
    for queues in (1, 2):
        queued = replace(mesh, device=replace(mesh.device, communication_queues=queues))
        space = PlanSpace(graph, queued)
        ticks = int(space.evaluate(space.genes_of(placements))[TIME])
        assert ticks == reference_cost(graph, placements, queued).time_ticks
        run = simulate(expand(graph, placements, space.mesh_shape), queued, dry=True)
        assert ticks == run.makespan_ticks
        times.append(ticks)

    gathers = (
        int(step_ticks(gpu, "all_gather", 8, whole * 7 // 8)),
        int(step_ticks(node, "all_gather", 2, whole // 8 // 2)),
    )
    assert times[0] - times[1] == min(gathers) > 0
