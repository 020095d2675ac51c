"""Tests of numbers: bad inputs, empty parts, half precision, replicas, and work that is done once."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tapestry.hardware.simulator import arrays, shards, simulate
from tapestry.hardware.simulator.parts import flat_parts, same_bits
from tapestry.teg.arrays import ArrayNamespace
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ComputeStep, ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.hardware.simulator.programs import cell, mesh_of

EIGHT, GRID = MeshShape.of(gpu=8), MeshShape.of(node=2, gpu=4)
ALL = Split(("gpu.0", "gpu.1", "gpu.2"))


def product(k: int = 3, dtype: str = "float32") -> Graph:
    """Build `y = x @ w` with `k` terms per element."""
    b = GraphBuilder("product")
    x, w = b.source("x", (4, k), dtype), b.source("w", (k, 6), dtype, "parameter")
    b.sink(b.apply("contract", (x, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))[0])
    return b.build()


def test_inputs_that_do_not_fit_are_listed() -> None:
    program = expand(product(), Placements(), EIGHT)
    with pytest.raises(ValueError) as caught:
        simulate(program, mesh_of(EIGHT), {"x": np.zeros((4, 4), np.float32), "v": np.zeros(1)})
    assert str(caught.value) == (
        "program 'product' cannot be run: source 'x' needs shape (4, 3) and type float32, not shape (4, 4) "
        "and type float32; source 'w' needs a value of shape (3, 6) and type float32; there is no source 'v'"
    )


def test_values_that_the_graph_brings_along() -> None:
    b = GraphBuilder("with data")
    x = b.source("x", (2, 3), "float32", "constant", np.arange(6, dtype=np.float32).reshape(2, 3))
    b.sink(cell(b, "y", ("neg", ("input", 0)), (x,)), site="out")
    run = simulate(expand(b.build(), Placements(), GRID), mesh_of(GRID))
    assert run.outputs["out"].tolist() == [[0, -1, -2], [-3, -4, -5]]


@pytest.mark.parametrize("monoid", ["sum", "max", "min", "prod", "logsumexp"])
def test_devices_without_terms_hold_the_identity(monoid: str) -> None:
    """Check three terms over eight devices: five devices hold a partial that changes nothing."""
    b = GraphBuilder("few terms")
    x = b.source("x", (3, 5), "float64")
    attrs = {"monoid": monoid, "labels": ("k", "n"), "output": ("n",)}
    b.sink(b.apply("reduce", (x,), site="y", **attrs)[0], site="out")
    graph = b.build()
    program = expand(graph, Placements({"y": Placement(Strategy((WHOLE, ALL)))}), EIGHT)
    inputs = random_inputs(graph, np.random.default_rng(0))

    run = simulate(program, mesh_of(EIGHT), inputs)

    np.testing.assert_allclose(run.outputs["out"], evaluate(graph, inputs)["out"], rtol=1e-12)
    assert (run.received_bytes > 0).all(), "they take part in the reduction"


@pytest.mark.parametrize("monoid", ["any", "all"])
def test_truth_values_combine(monoid: str) -> None:
    b = GraphBuilder("truth")
    x = b.source("x", (5, 4), "bool")
    attrs = {"monoid": monoid, "labels": ("k", "n"), "output": ("n",)}
    b.sink(b.apply("reduce", (x,), site="y", **attrs)[0], site="out")
    program = expand(b.build(), Placements({"y": Placement(Strategy((WHOLE, ALL)))}), EIGHT)
    value = np.random.default_rng(0).random((5, 4)) < 0.5
    run = simulate(program, mesh_of(EIGHT), {"x": value})
    assert run.outputs["out"].tolist() == getattr(value, monoid)(axis=0).tolist()


def test_half_precision_moves_half_the_bytes() -> None:
    placements = Placements({"y": Placement(Strategy((WHOLE, WHOLE, ALL)))})
    runs = {}
    for dtype in ("float32", "bfloat16"):
        graph = product(16, dtype)
        inputs = random_inputs(graph, np.random.default_rng(0))
        runs[dtype] = simulate(expand(graph, placements, EIGHT), mesh_of(EIGHT), inputs)
    assert runs["bfloat16"].outputs["y.out"].dtype == ml_dtypes.bfloat16
    assert 2 * runs["bfloat16"].traffic_bytes == runs["float32"].traffic_bytes
    np.testing.assert_allclose(
        runs["bfloat16"].outputs["y.out"].astype(np.float32), runs["float32"].outputs["y.out"], atol=0.05
    )


@pytest.mark.parametrize("mesh_shape", [EIGHT, GRID], ids=["flat", "grid"])
def test_what_replicas_share_is_computed_once(mesh_shape: MeshShape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a replicated block that reads gathered copies of a split block is computed once for all devices."""
    b = GraphBuilder("shared")
    x = b.source("x", (8, 4), "float32")
    a = cell(b, "a", ("neg", ("input", 0)), (x,))
    b.sink(cell(b, "b", ("exp", ("input", 0)), (a,)), site="out")
    rows = Placement(Strategy((Split(tuple(s.name for s in mesh_shape.sub_axes[:2])), WHOLE)))
    program = expand(b.build(), Placements({"x": rows, "a": rows}), mesh_shape)
    computed: list[str] = []

    def counted(xp: ArrayNamespace, program: ExplicitGraph, step: ComputeStep, *others: Any) -> Any:
        computed.append(step.site)
        return shards.run_shard(xp, program, step, *others)

    monkeypatch.setattr(arrays, "run_shard", counted)
    run = simulate(program, mesh_of(mesh_shape), {"x": np.ones((8, 4), np.float32)})
    assert computed == ["a"] * 4 + ["b"]
    assert (run.flops == run.flops[0]).all(), "but it is counted on every device"
    assert (run.memory_bytes[1, 0] == run.memory_bytes[1, 0, 0]).all()


def test_replicas_that_disagree_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the sink finds a device whose arithmetic is off by the last bit."""

    def faulty(
        xp: ArrayNamespace, program: ExplicitGraph, step: ComputeStep, device: int, read: Any
    ) -> Sequence[np.ndarray]:
        made = shards.run_shard(xp, program, step, device, read)
        return made if device != 5 else [np.nextafter(m, np.float32(9)) for m in made]

    monkeypatch.setattr(arrays, "run_shard", faulty)
    rows = Placement(Strategy((Split(("gpu.0", "gpu.1")), WHOLE, WHOLE)))
    graph = product()
    # Without sharing, so that device 5 computes for itself.
    monkeypatch.setattr("tapestry.hardware.simulator.parts.memory_key", id)
    program = expand(
        graph, Placements({"y": rows, "y.out": Placement(Strategy((rows.strategy.splits[0], WHOLE)))}), EIGHT
    )
    with pytest.raises(RuntimeError, match=r"sink 'y.out': devices 4 and 5 disagree on zr\[2:3, 0:6\]"):
        simulate(program, mesh_of(EIGHT), random_inputs(graph, np.random.default_rng(0)))


def test_inputs_are_left_alone() -> None:
    inputs = random_inputs(product(), np.random.default_rng(0))
    before = {name: value.copy() for name, value in inputs.items()}
    run = simulate(expand(product(), Placements(), GRID), mesh_of(GRID), inputs)
    assert all(value.flags.writeable and same_bits(value, before[name]) for name, value in inputs.items())
    assert not run.outputs["y.out"].flags.writeable


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (4, 1, 3)])
def test_flat_slices_as_boxes(shape: tuple[int, ...]) -> None:
    numbers = np.arange(np.prod(shape)).reshape(shape)
    for start in range(numbers.size + 1):
        for end in range(start, numbers.size + 1):
            found = [n for part in flat_parts(shape, start, end) for n in numbers[part].reshape(-1).tolist()]
            assert found == list(range(start, end))


def test_not_a_numbers_are_equal_bit_by_bit() -> None:
    a = np.array([np.nan, -0.0])
    assert same_bits(a, a.copy())
    assert not same_bits(a, np.array([np.nan, 0.0]))
