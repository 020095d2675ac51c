"""Tests of worked cases of the conventions in `docs/sharding.md`, computed by hand: fp32, 8 devices."""

import numpy as np
import pytest

from tapestry.hardware.simulator import Execution, simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.hardware.simulator.programs import mesh_of

EIGHT = MeshShape.of(gpu=8)
ALL = ("gpu.0", "gpu.1", "gpu.2")


def on(*splits: Split, **others: bool) -> Placement:
    return Placement(Strategy(splits), **others)


def run_both(
    graph: Graph, placements: dict[str, Placement], **options: str
) -> tuple[ExplicitGraph, Execution]:
    """Return the program and its wet run; check that a dry run is equal and the values are the reference's."""
    program = expand(graph, Placements(placements, **options), EIGHT)
    inputs = random_inputs(graph, np.random.default_rng(0))
    run = simulate(program, mesh_of(EIGHT), inputs)
    dry = simulate(program, mesh_of(EIGHT), dry=True)
    assert (run.memory_bytes == dry.memory_bytes).all()
    assert (run.link_bytes == dry.link_bytes).all()
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_allclose(run.outputs[site], value, rtol=1e-4, atol=1e-4)
    return program, run


@pytest.mark.parametrize(("granule", "rows", "total_bytes"), [(1, 28, 12_845_056), (8, 6, 2_752_512)])
def test_halo_of_a_strided_convolution(granule: int, rows: int, total_bytes: int) -> None:
    b = GraphBuilder("a layer of ResNet")
    x = b.source("x", (16, 128, 56, 56), "float32")
    w = b.source("w", (1, 128, 3, 3), "float32", "parameter")
    (y,) = b.apply("conv", (x, w), site="conv", strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1)
    b.sink(y)
    over_rows = on(WHOLE, WHOLE, Split(ALL, granule), WHOLE)
    # Index dimensions of the convolution: n, o, y0, y1, c.
    graph = b.build()
    assert [d.name for d in graph.by_site["conv"].signature.dims] == ["n", "o", "y0", "y1", "c"]
    placements = {
        "x": over_rows,
        "conv": on(WHOLE, WHOLE, Split(ALL), WHOLE, WHOLE),
        "conv.out": on(WHOLE, WHOLE, Split(ALL), WHOLE),
    }

    program, run = run_both(graph, placements)

    conv = program.slots[0]
    assert conv.step.index[:, 2].tolist() == [[min(4 * d, 28), min(4 * d + 4, 28)] for d in range(8)]
    needed = program.buffers[conv.issued[0].result].boxes[:, 2].tolist()
    assert needed[:7] == [[max(8 * d - 1, 0), min(8 * d + 8, 56)] for d in range(7)]
    assert needed[7][0] == needed[7][1], "device 7 computes nothing and needs nothing"
    assert total_bytes == rows * 16 * 128 * 56 * 4
    assert run.traffic_bytes == total_bytes
    assert run.axis_bytes == {"gpu": total_bytes}


def test_attention_input_is_gathered_once() -> None:
    b = GraphBuilder("attention of GPT-2 small")
    x = b.source("x", (1024, 768), "float32")
    residual = b.apply(
        "cell", (x,), site="residual", expr=("mul", ("input", 0), ("const", 2.0)),
        labels=(("s", "c"),), dims=(("s", 1024), ("c", 768)), dtype="float32",
    )[0]  # fmt: skip
    for name in "qkv":
        w = b.source(f"w{name}", (768, 12, 64), "float32", "parameter")
        labels, output = (("s", "c"), ("c", "h", "d")), ("s", "h", "d")
        b.apply("contract", (residual, w), site=name, labels=labels, output=output)
    for name in ("q", "k", "v", "residual"):
        b.sink(name)
    by_sequence, by_head = (Split(ALL), WHOLE), (WHOLE, Split(ALL), WHOLE)
    placements = {
        "x": on(*by_sequence),
        "residual": on(*by_sequence),
        "residual.out": on(*by_sequence),
        **{f"w{name}": on(*by_head) for name in "qkv"},
        **{name: on(*by_head, WHOLE) for name in "qkv"},
        **{f"{name}.out": on(*by_head) for name in "qkv"},
    }

    program, run = run_both(b.build(), placements)

    assert sum(len(slot.issued) for slot in program.slots) == 1
    assert run.traffic_bytes == 22_020_096
    assert (run.received_bytes == 22_020_096 // 8).all(), "also the two devices without heads"
    slots = [slot.step.site for slot in program.slots]
    parameters_bytes = 3 * 768 * 2 * 64 * 4
    at_projection = run.memory_bytes[slots.index("v"), 1]
    assert at_projection[0] - parameters_bytes == 393_216 + 3_145_728 + 1_572_864 == 5_111_808
    assert at_projection[7] == 393_216 + 3_145_728, "no heads, no parameters, but the gathered input"


def test_all_reduce_of_a_gradient() -> None:
    b = GraphBuilder("a weight's gradient")
    x = b.source("x", (64, 768), "float32")
    dy = b.source("dy", (64, 3072), "float32")
    (gradient,) = b.apply("contract", (x, dy), site="dw", labels=(("s", "c"), ("s", "f")), output=("c", "f"))
    b.sink(gradient)
    by_sequence = on(Split(ALL), WHOLE)
    placements = {"x": by_sequence, "dy": by_sequence, "dw": on(WHOLE, WHOLE, Split(ALL))}

    _, run = run_both(b.build(), placements, outputs="gathered")

    assert 768 * 3072 * 4 == 9_437_184
    assert run.received_bytes.tolist() == [16_515_072] * 8
    assert [s.tolist() for s in run.staging_bytes.values()] == [[9_437_184 // 8] * 8]
