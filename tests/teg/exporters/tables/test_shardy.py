"""Tests of Shardy annotations: XLA compiles the user's module for eight devices with the shardings of the table."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.shardy import SHARDY, annotated_stablehlo
from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable
from tapestry.teg.exporters.tables.verdicts import OK, verdict
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_stablehlo
from tapestry.teg.importers.shardings.pins import pins_of
from tapestry.teg.importers.shardings.shardy_file import from_shardy
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.teg.exporters.tables.plans import random_strategy
from tests.teg.exporters.tables.test_jax_module import by_jax
from tests.teg.importers.models import GRAPHS

pytest.importorskip("jaxlib")

MODULE = """
module @two_layers attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @old = <["x"=4]>
  func.func public @main(
      %arg0: tensor<16x24xf32> {sdy.sharding = #sdy.sharding<@old, [{"x"}, {}]>},
      %arg1: tensor<24x32xf32>, %arg2: tensor<32x10xf32>) -> (tensor<16x10xf32>, tensor<10xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
        : (tensor<16x24xf32>, tensor<24x32xf32>) -> tensor<16x32xf32>
    %1 = sdy.sharding_constraint %0 <@old, [{}, {"x"}]> : tensor<16x32xf32>
    %2 = call @act(%1) : (tensor<16x32xf32>) -> tensor<16x32xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0]
        : (tensor<16x32xf32>, tensor<32x10xf32>) -> tensor<16x10xf32>
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [0]
        : (tensor<16x10xf32>, tensor<f32>) -> tensor<10xf32>
    return %3, %4 : tensor<16x10xf32>, tensor<10xf32>
  }
  func.func private @act(%arg0: tensor<16x32xf32>) -> tensor<16x32xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<16x32xf32>
    return %0 : tensor<16x32xf32>
  }
}
"""

# Reads [[module, shapes of arguments], ...]; prints per module each argument's and result's box per device as compiled,
# and the sum of each result as computed.
WITNESS = """
import json, sys
import jax, numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib.mlir import ir

devices = tuple(jax.devices())
options = xla_client.CompileOptions()
options.num_replicas, options.num_partitions = 1, 8
build = options.executable_build_options
build.num_replicas, build.num_partitions = 1, 8
build.use_spmd_partitioning = build.use_shardy_partitioner = True
build.device_assignment = xla_client.DeviceAssignment.create(np.arange(8).reshape(1, 8))

def boxes(sharding, shape):
    parts = sharding.devices_indices_map(tuple(shape))
    return [[list(s.indices(n)[:2]) for s, n in zip(parts[d], shape)] for d in devices]

found = []
for text, shapes, results in json.load(open(sys.argv[1])):
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        made = devices[0].client.compile_and_load(module, xla_client.DeviceList(devices), options)
    ins = [GSPMDSharding(devices, s) for s in made.get_parameter_shardings()]
    outs = [GSPMDSharding(devices, s) for s in made.get_output_shardings()]
    rng = np.random.default_rng(0)
    given = [jax.device_put(rng.normal(size=n).astype("float32"), s) for n, s in zip(shapes, ins)]
    ran = made.execute_sharded(given).disassemble_into_single_device_arrays()
    sums = []
    for parts, sharding, shape in zip(ran, outs, results):
        whole = np.zeros(shape)
        for part, box in zip(parts, boxes(sharding, shape)):
            whole[tuple(slice(*side) for side in box)] = np.asarray(part)
        sums.append(float(whole.sum()))
    found.append([[boxes(s, n) for s, n in zip(ins, shapes)], [boxes(s, n) for s, n in zip(outs, results)], sums])
json.dump(found, sys.stdout)
"""


def random_table(graph: Graph, rng: np.random.Generator, mesh_shape: MeshShape) -> ShardingTable:
    placed = {
        b.site: Placement(random_strategy(rng, graph, b.site, mesh_shape))
        for b in graph.blocks
        if not b.is_view and b.signature is not None
    }
    return sharding_table(graph, graph, Placements(placed), mesh_shape)


@pytest.mark.slow
def test_xla_compiles_and_runs_a_module_with_the_shardings_of_the_table(tmp_path: Path) -> None:
    graph = from_stablehlo(MODULE)
    rng = np.random.default_rng(0)
    shapes = [MeshShape.of(gpu=8), MeshShape.of(x=2, y=4), MeshShape.of(a=2, b=2, c=2)]
    tables = [random_table(graph, rng, shapes[k % 3]) for k in range(9)]
    texts = [annotated_stablehlo(table, MODULE) for table in tables]
    inputs, outputs = ["arg0", "arg1", "arg2"], ["result0", "result1"]
    sizes = [[list(tables[0].by_name[name].shape) for name in names] for names in (inputs, outputs)]

    found = by_jax(tmp_path, WITNESS, [[text, *sizes] for text in texts])

    split = 0
    for table, (arguments, results, sums) in zip(tables, found, strict=True):
        for name, boxes in zip([*inputs, *outputs], [*arguments, *results], strict=True):
            if verdict(table, table.by_name[name], SHARDY) == OK:
                assert boxes == table.boxes(table.by_name[name]).tolist(), name
                split += bool(table.by_name[name].axes)
        np.testing.assert_allclose(sums, found[0][2], rtol=1e-4)
    assert split > 15


def test_values_inside_get_constraints_and_earlier_shardings_of_the_module_are_gone() -> None:
    graph = from_stablehlo(MODULE)
    assert {"dot_general.1", "tanh.1"} <= set(graph.values)
    table = random_table(graph, np.random.default_rng(3), MeshShape.of(gpu=8))
    inside = [t for t in table.of_roles([INTERMEDIATE]) if verdict(table, t, SHARDY) == OK]
    assert len(inside) > 0

    text = annotated_stablehlo(table, MODULE)

    assert "@old" not in text
    constraints = [line for line in text.splitlines() if "sdy.sharding_constraint" in line]
    assert sum("frontend_attributes" not in line for line in constraints) == len(inside)
    assert sum("tapestry.read_by" in line for line in constraints) > 0
    assert "mhlo.num_partitions = 8" in text
    again = from_stablehlo(text)
    assert again.structural_hash == graph.structural_hash


def test_a_function_called_twice_has_a_constraint_where_both_calls_are_placed_alike() -> None:
    twice = MODULE.replace(
        "%3 = stablehlo.dot_general %2",
        "%5 = call @act(%2) : (tensor<16x32xf32>) -> tensor<16x32xf32>\n    %3 = stablehlo.dot_general %5",
    )
    graph = from_stablehlo(twice)
    alike, unlike = ({"tanh.1": "(gpu.0, -)", "tanh.2": second} for second in ("(gpu.0, -)", "(-, gpu.0)"))
    counts = []
    for strategies in (alike, unlike):
        placed = {site: Placement(parse_strategy(text)) for site, text in strategies.items()}
        table = sharding_table(graph, graph, Placements(placed), MeshShape.of(gpu=2))
        text = annotated_stablehlo(table, twice)
        counts.append(text.partition("@act(%arg0")[2].count("sdy.sharding_constraint"))
    assert counts == [1, 0]


def test_operands_that_are_moved_and_values_left_as_terms_have_constraints_and_come_back() -> None:
    """Split what the second product contracts: its operands are moved there, and its terms combined before use."""
    graph, mesh = from_stablehlo(MODULE), MeshShape.of(gpu=8)
    strategies = {
        "arg0": "(gpu.0, -)",
        "arg1": "(-, -)",
        "arg2": "(-, -)",
        "dot_general.1": "(gpu.0, -, -)",
        "tanh.1": "(gpu.0, -)",
        "dot_general.2": "(-, -, gpu.0*gpu.1)",
        "result0": "(gpu.0, -)",
    }
    placed = Placements({site: Placement(parse_strategy(text)) for site, text in strategies.items()})
    table = sharding_table(graph, graph, placed, mesh)
    made = table.by_name["dot_general.2"]
    assert {read.name: [dim.axes for dim in read.dims] for read in made.reads} == {
        "tanh.1": [(), ("gpu_0", "gpu_1")],
        "arg2": [("gpu_0", "gpu_1"), ()],
    }

    text = annotated_stablehlo(table, MODULE)

    moved, right = [line for line in text.splitlines() if 'read_by = "dot_general.2"' in line]
    assert '[{}, {"gpu_0", "gpu_1"}]' in moved and '%arg2 <@mesh, [{"gpu_0", "gpu_1"}, {}]>' in right
    (combined,) = [line for line in text.splitlines() if 'tapestry.terms = "sum gpu_0 gpu_1"' in line]
    assert "[{}, {}]" in combined
    pins = pins_of(from_shardy(text), graph, mesh)
    assert pins["dot_general.2"] == "[-, -] sum(gpu.0*gpu.1)"
    assert pins["tanh.1"] == "[gpu.0, -]" and pins["arg2"] == "[-, -]"


def test_a_module_of_another_program_is_refused() -> None:
    table = random_table(from_stablehlo(MODULE), np.random.default_rng(0), MeshShape.of(gpu=8))
    with pytest.raises(ImportFailure, match=r"input 'arg0' has shape \[8, 24\]; in the plan's program"):
        annotated_stablehlo(table, MODULE.replace("16x", "8x"))
    other = gzip.decompress((GRAPHS / "jax" / "jax_kmeans_5iter.tiny.stablehlo.mlir.gz").read_bytes())
    with pytest.raises(ImportFailure, match=r"has no|has shape"):
        annotated_stablehlo(table, other)
