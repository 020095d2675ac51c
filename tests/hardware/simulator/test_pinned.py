"""Tests of explicit graphs run as they are: where each block runs, and the data fetched, held and priced."""

import numpy as np
import pytest

from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.layouts.native import native_named
from tapestry.hardware.simulator import run_pinned, simulate
from tapestry.hardware.timing import move_ticks, step_ticks
from tapestry.teg.arrays import arrays_named
from tapestry.teg.builder import GraphBuilder, define
from tapestry.teg.costs import cost_table
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.graph import Block, Graph, Tensor, TensorType, attributes
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.materialize import materialize, origin_of
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import first
from tests.end_to_end.twins import mesh_of, random_plans, space_of
from tests.hardware.simulator.programs import MESHES
from tests.hardware.simulator.programs import mesh_of as simulated_mesh
from tests.hardware.simulator.programs import random_placements as simulated_placements
from tests.hardware.simulator.programs import random_program as simulated_program
from tests.teg.sharding.programs import random_placements, random_program
from tests.teg.sharding.test_external_graphs import paper

MESH = load_mesh("dgx-h100")
ALL = Split(("gpu.0", "gpu.1", "gpu.2"))


def test_the_sharded_example_moves_nothing_and_the_fused_one_fetches_a_half() -> None:
    sharded, fused = (run_pinned(paper(concat), MESH, dry=True) for concat in (False, True))
    assert sharded.traffic_bytes == 0
    np.testing.assert_array_equal(sharded.flops, [6, 6, 0, 0, 0, 0, 0, 0])
    # A, B and C parts of 2 x 3 floats each; fused: A1 (freed by the join's end), A2's copy, B, A, C.
    np.testing.assert_array_equal(sharded.peak_memory_bytes[:3], [72, 72, 0])
    assert fused.traffic_bytes == 24 and fused.received_bytes[0] == 24
    np.testing.assert_array_equal(fused.flops, [12, 0, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(fused.peak_memory_bytes[:2], [144, 24])
    assert fused.makespan_ticks > sharded.makespan_ticks > 0


def test_values_come_from_the_parts() -> None:
    ones = np.ones((2, 3), np.float32)
    run = run_pinned(paper(False), MESH, {"A1": ones, "A2": 2 * ones, "B@0": ones, "B@1": ones})
    assert {site: float(v[0, 0]) for site, v in run.outputs.items()} == {"Sink@0": 2.0, "Sink@1": 3.0}


@pytest.mark.parametrize("seed", first(6, range(12)))
def test_an_expansion_moves_no_more_as_nodes_than_slot_by_slot(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    mesh_shape = MeshShape(MESH.axis_sizes)
    program = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    nodes = run_pinned(materialize(program).graph, MESH, dry=True)
    slots = simulate(program, MESH, dry=True)
    # Slot by slot a device without work receives its replicas all the same; as nodes nobody there reads them.
    assert 0.5 * slots.traffic_bytes <= nodes.traffic_bytes <= slots.traffic_bytes
    # Combining partial results is a block among nodes, and part of a copy slot by slot.
    assert (nodes.flops >= slots.flops).all()


def least_memory(graph: Graph, devices: int) -> np.ndarray:
    """Compute what no order of blocks avoids: what outlives the step; and a block's results and largest input."""
    kept, most = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    sizes = {site: tensor.type.size_bytes for site, tensor in graph.tensors.items()}
    carried = {sink.definition.get("carries") for sink in graph.sinks}
    lasting = [
        s for s in graph.sources if s.definition["role"] != "activation" and origin_of(s.site) not in carried
    ]
    stays = {t for s in lasting for t in s.outputs}
    for source in lasting:
        kept[source.device] += sizes[source.outputs[0]]
    for block in graph.blocks:
        if block.index is not None and not block.is_view and block.operator != "source":
            read = [
                sizes[t] for t in block.inputs if t not in stays and graph.producers[t].operator != "view"
            ]
            held = sum(sizes[t] for t in block.outputs) + max(read, default=0)
            most[block.device] = max(most[block.device], held)
    return kept + most


def assert_peaks_where_planned(program: ExplicitGraph, mesh: Mesh) -> None:
    """Check that nodes run one by one hold on no device more than slots: all they collect goes to its place.

    They may hold less: a slot allocates its copies together, ends them together, and replicates for devices that have
    no work; nodes come one after the other. So the factor is one, and the bound below is what any order needs.
    In tiles, a run of elements is padded to whole ones where it waits, which slots do not count: there the peak of the
    plan holds, not that of each device.
    """
    graph = materialize(program).graph
    # Times are not compared; every device has a peak of this type.
    nodes = run_pinned(graph, mesh, dry=True, compute_dtype="fp32").peak_memory_bytes
    run = simulate(program, mesh, dry=True, capacity_check=False, compute_dtype="fp32")
    slots = run.peak_memory_bytes
    tiled = native_named(mesh.device.layouts[0]).tiles is not None
    assert nodes.max() <= slots.max() if tiled else (nodes <= slots).all()
    assert (nodes >= least_memory(graph, mesh.device_count)).all()


@pytest.mark.parametrize("device", ["h100-sxm5-80gb", "wormhole-n150"])
@pytest.mark.parametrize("seed", first(5, range(30)))
def test_nodes_hold_no_more_than_their_plan_counts(seed: int, device: str) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape = MESHES[seed % len(MESHES)]
    graph = simulated_program(rng, state=bool(seed % 2))
    program = expand(graph, simulated_placements(rng, graph, mesh_shape), mesh_shape)
    assert_peaks_where_planned(program, simulated_mesh(mesh_shape, device))


@pytest.mark.parametrize("mesh", first(1, ["4", "2x4"]))
@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("gpt2_small_b1_s1024", ".winputs"),
        pytest.param("resnet50_b16_224", "", marks=pytest.mark.slow),
        ("train_mlp_784_4x4096_b1024_sgd", ""),
        ("train_heat_inverse_20steps_grads", ""),
    ],
)
def test_models_hold_no_more_than_their_plans_count(model: str, form: str, mesh: str) -> None:
    space = space_of(model, form, mesh)
    for genes in random_plans(space, 2, seed=5):
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        assert_peaks_where_planned(program, mesh_of(mesh))


def product(k: int) -> Graph:
    b = GraphBuilder("product")
    x, w = b.source("x", (8, k), "float32"), b.source("w", (k, 64), "float32", "parameter")
    (y,) = b.apply("contract", [x, w], site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    return b.build()


@pytest.mark.parametrize(
    ("out", "peak"),
    [
        (
            (WHOLE, WHOLE),
            2 * 2048 + 256,
        ),  # all-reduce: the partial product, the sum, and a slice of an eighth
        (
            (ALL, WHOLE),
            2048 + 2 * 256,
        ),  # reduce-scatter: the partial product, an eighth of the sum, and a term of it
    ],
)
def test_a_reduction_holds_its_result_and_one_incoming_slice(out: tuple[Split, ...], peak: int) -> None:
    mesh_shape = MeshShape(MESH.axis_sizes)
    splits = {"x": (WHOLE, ALL), "w": (ALL, WHOLE), "y": (WHOLE, WHOLE, ALL), "out": out}
    placements = Placements({site: Placement(Strategy(s)) for site, s in splits.items()})
    program = expand(product(8), placements, mesh_shape)
    slots = simulate(program, MESH, dry=True).peak_memory_bytes
    # 8 x 1 of x is given up after the product; 1 x 64 of w stays.
    np.testing.assert_array_equal(slots, 256 + peak)
    nodes = run_pinned(materialize(program).graph, MESH, dry=True).peak_memory_bytes
    assert (nodes <= slots).all() and nodes.max() >= 256 + peak - 2048


def test_a_part_that_is_repacked_is_staged() -> None:
    """Check a gather of 8 x 64: by rows it lands in place; by columns all of it lands before it is placed."""
    b = GraphBuilder("gather")
    b.sink(b.source("x", (8, 64), "float32"), site="out")
    mesh_shape = MeshShape(MESH.axis_sizes)
    for splits, peak in (((ALL, WHOLE), 256 + 2048), ((WHOLE, ALL), 256 + 2 * 2048)):
        program = expand(b.build(), Placements({"x": Placement(Strategy(splits))}), mesh_shape)
        nodes = run_pinned(materialize(program).graph, MESH, dry=True)
        np.testing.assert_array_equal(nodes.peak_memory_bytes, peak)
        np.testing.assert_array_equal(simulate(program, MESH, dry=True).peak_memory_bytes, peak)
        assert nodes.traffic_bytes == 8 * 7 * 256


def test_a_sender_packs_what_is_no_run_of_memory() -> None:
    """Check 64 x 64 on two devices, of which each sends a quarter: rows of its columns as they are, columns packed."""
    b = GraphBuilder("exchange")
    b.sink(b.source("x", (64, 64), "float32"), site="out")
    mesh = simulated_mesh(MeshShape.of(gpu=2))
    half, size_bytes = Split(("gpu.0",)), 32 * 32 * 4
    crossing = int(step_ticks(mesh.axes[0], "fetch", 2, size_bytes))
    packing = int(move_ticks(mesh.device, size_bytes))
    own, all_of_it = (int(move_ticks(mesh.device, n * size_bytes)) for n in (1, 2))
    for held, needed, ticks, staged in (
        ((half, WHOLE), (WHOLE, half), packing + crossing + own, 1),
        ((WHOLE, half), (half, WHOLE), crossing + all_of_it, 2),  # all that landed is moved to its place
    ):
        placed = {"x": Placement(Strategy(held)), "out": Placement(Strategy(needed))}
        program = expand(b.build(), Placements(placed), MeshShape(mesh.axis_sizes))
        nodes, slots = (
            run_pinned(materialize(program).graph, mesh, dry=True),
            simulate(program, mesh, dry=True),
        )
        assert nodes.traffic_bytes == slots.traffic_bytes == 2 * size_bytes
        assert nodes.peak_memory_bytes.max() == slots.peak_memory_bytes.max() == (4 + staged) * size_bytes
        assert nodes.makespan_ticks == ticks


def assembly(*continuations: tuple[int, int]) -> Graph:
    """Build an open assembly of eight numbers with the first four, and continuations of it from `start` to `end`."""
    four, eight = (TensorType((n,), "float32") for n in (4, 8))
    source, _ = define("source", attributes(shape=(4,), dtype="float32", role="activation"), ())
    sink, _ = define("sink", (), (eight,))
    begun, _ = define(
        "assemble", attributes(shape=(8,), boxes=(((0,), (4,)),), firsts=(0,), open=True), (four,)
    )
    blocks = [Block(t, source, (), (t,), device=0) for t in ("a", "b")]
    blocks.append(Block("begun", begun, ("a",), ("begun",), device=0))
    for k, (start, end) in enumerate(continuations):
        place = attributes(shape=(8,), boxes=(((start,), (end,)),), firsts=(0,), onto=True)
        further, _ = define("assemble", place, (eight, four))
        blocks.append(Block(f"c{k}", further, ("begun", "b"), (f"c{k}",), device=0))
        blocks.append(Block(f"out{k}", sink, (f"c{k}",), (), device=0))
    tensors = {t: Tensor(t, b.definition.get("shape"), "float32") for b in blocks for t in b.outputs}
    return Graph("assembly", tuple(blocks), tensors)


def test_an_assembly_is_continued_in_place_only_where_nobody_has_written() -> None:
    once, twice, over = (assembly(*c) for c in ([(4, 8)], [(4, 8), (4, 8)], [(2, 6)]))
    assert run_pinned(once, MESH, dry=True).peak_memory_bytes[0] == 2 * 16 + 32
    # Two continuations, or one that overwrites, make tensors of their own.
    assert run_pinned(twice, MESH, dry=True).peak_memory_bytes[0] == 16 + 3 * 32
    assert run_pinned(over, MESH, dry=True).peak_memory_bytes[0] == 16 + 2 * 32
    values = {"a": np.ones(4, np.float32), "b": np.full(4, 2, np.float32)}
    assert run_pinned(over, MESH, values).outputs["out0"].tolist() == [1, 1, 2, 2, 2, 2, 0, 0]


def test_a_device_that_is_not_there_is_refused() -> None:
    graph = paper(False)
    far = graph.replace(
        [type(b)(b.site, b.definition, b.inputs, b.outputs, b.index, 9) for b in graph.blocks]
    )
    with pytest.raises(ValueError, match=r"devices 0 to 7, but the graph pins 'A1' on device 9.* and 3 more"):
        run_pinned(far, MESH, dry=True)


def priced() -> Graph:
    b = GraphBuilder("priced")
    x = b.source("x", (4, 6), "float32")
    table = cost_table({"gpu": 3, "flops": 10}, {"a": {"ram": 2}})
    given = {"expr": ("neg", ("input", 0)), "labels": (("a", "b"),), "dims": (("a", 4), ("b", 6))}
    b.apply("cell", (x,), site="y", costs=table, dtype="float32", **given)
    b.sink("y", site="z")
    return b.build()


def test_the_programs_own_costs_are_summed() -> None:
    graph = priced()
    run = run_pinned(graph, MESH, random_inputs(graph, np.random.default_rng(0)))
    assert run.resources == {"flops": 10, "gpu": 3, "ram": 8}
    assert run.flops[0] == 10


def test_torch_computes_the_values_and_counts_are_the_same() -> None:
    pytest.importorskip("torch")
    graph = paper(concat=True)
    inputs = random_inputs(graph, np.random.default_rng(3))
    here, there = (run_pinned(graph, MESH, inputs, xp=arrays_named(name)) for name in ("numpy", "torch"))
    for site, value in here.outputs.items():
        assert isinstance(there.outputs[site], np.ndarray)
        np.testing.assert_allclose(there.outputs[site], value, rtol=1e-6)
    assert (there.makespan_ticks, there.traffic_bytes) == (here.makespan_ticks, here.traffic_bytes)
