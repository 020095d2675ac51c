"""Tests that shardings come back as pins: what was exported in any form places the tensors where the plan had them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapestry
from tapestry.hardware.layouts.table_layouts import layout_fault, mapper_fault, metal_layouts, ttnn_specs
from tapestry.hardware.layouts.tt_metal import MetalLayout
from tapestry.hardware.mesh import Mesh
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.document import table_text
from tapestry.teg.exporters.tables.dtensor_module import DTENSOR, dtensor_module
from tapestry.teg.exporters.tables.jax_module import JAX, jax_module
from tapestry.teg.exporters.tables.shardy import annotated_stablehlo
from tapestry.teg.exporters.tables.table import ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import OK, Target, verdict
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_stablehlo
from tapestry.teg.importers.shardings.files import read_shardings
from tapestry.teg.importers.shardings.metal_file import from_metal_layouts
from tapestry.teg.importers.shardings.pins import pins_of
from tapestry.teg.importers.shardings.python_file import from_python
from tapestry.teg.importers.shardings.shardy_file import from_shardy
from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedShardings,
    from_partition_specs,
)
from tapestry.teg.importers.shardings.table_file import from_table
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Spec, boxes
from tapestry.teg.sharding.strategy import producer_spec
from tapestry.teg.sharding.text import parse_spec, parse_strategy
from tests.teg.exporters.tables.plans import RandomPlan, random_plan
from tests.teg.importers.models import GRAPHS

METAL = str(MetalLayout.of((8,), "f32", (), (1, 2)))


def placed_by(plan: RandomPlan, tensor: TensorSharding) -> str:
    """Return the spec in which the plan leaves a tensor."""
    block = plan.program.by_site[tensor.site]
    strategy = plan.placements.of(block).strategy
    if not block.outputs:
        return str(Spec(strategy.splits))
    return str(producer_spec(block.signature, 0, len(stored_shape(plan, tensor)), strategy))


def stored_shape(plan: RandomPlan, tensor: TensorSharding) -> tuple[int, ...]:
    block = plan.program.by_site[tensor.site]
    return plan.program.tensors[(block.outputs or block.inputs)[0]].shape


@given(st.integers(0, 2**32))
def test_a_table_in_json_is_the_plan_again_factored_dimensions_and_terms_included(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed), tensors=2)
    table = plan.table
    pins = pins_of(from_table(table_text(table)), plan.program, plan.mesh_shape)
    assert pins == {tensor.site: placed_by(plan, tensor) for tensor in table.tensors}


@dataclass(frozen=True)
class Form:
    """A form of tables: how it is written and read, and why it cannot state a tensor, or nothing."""

    write: Callable[[ShardingTable], str]
    read: Callable[[str], StatedShardings]
    fault: Callable[[ShardingTable, TensorSharding], str]


def fault_of(target: Target) -> Callable[[ShardingTable, TensorSharding], str]:
    return lambda table, tensor: verdict(table, tensor, target).replace(OK, "")


FORMS = {
    "jax": Form(jax_module, from_python, fault_of(JAX)),
    "dtensor": Form(dtensor_module, from_python, fault_of(DTENSOR)),
    "ttnn": Form(ttnn_specs, from_python, mapper_fault),
    "tt": Form(metal_layouts, from_metal_layouts, layout_fault),
    "ttcore": Form(lambda table: metal_layouts(table, "ttcore"), from_metal_layouts, layout_fault),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_a_form_can_say_comes_back_from_it(form: str) -> None:
    known = FORMS[form]
    compared = 0
    for seed in range(30):
        plan = random_plan(np.random.default_rng(seed), tensors=2)
        table = plan.table
        sound = {t.name for t in table.tensors if not known.fault(table, t)}
        if not sound:
            continue
        stated = known.read(known.write(table))
        assert sound <= {tensor.name for tensor in stated.tensors}
        for tensor in stated.tensors:
            if tensor.name in sound:
                one = type(stated)(stated.axes, (tensor,))
                (pin,) = pins_of(one, plan.program, plan.mesh_shape).values()
                found, wanted = (
                    parse_spec(text) for text in (pin, placed_by(plan, table.by_name[tensor.name]))
                )
                stored = stored_shape(plan, table.by_name[tensor.name])
                assert (
                    boxes(found, stored, plan.mesh_shape).tolist()
                    == boxes(wanted, stored, plan.mesh_shape).tolist()
                )
                assert (sorted(found.partial), found.monoid) == (sorted(wanted.partial), wanted.monoid)
                compared += 1
    assert compared > 100


def linear() -> Graph:
    builder = GraphBuilder("linear")
    attrs = {"shape": (4, 3, 4), "dtype": "float32", "role": "parameter", "logical_shape": (4, 12)}
    (weight,) = builder.apply("source", (), site="w", **attrs)
    builder.sink(weight, site="y")
    return builder.build()


@pytest.mark.parametrize(
    ("axes", "spec", "pin"),
    [
        ({"a": 4}, [None, "a"], r"w: 3 elements or runs of elements are too few for 4 parts"),
        (
            {"a": 2, "b": 2},
            [None, "b"],
            r"w: 2 parts of 6 elements cut a factor of 3 whose elements are runs of 4",
        ),
        ({"a": 2, "b": 2}, ["b", None], "[gpu.1, -, -]"),
        ({"a": 2, "b": 2}, [("b", "a")], "[gpu.1*gpu.0, -, -]"),
        ({"a": 4}, ["c"], r"w: there is no axis 'c'; known are a"),
        ({"a": 8}, ["a"], r"the shardings are for 8 devices and the mesh has 4; .*"),
        ({"a": 2, "b": 2}, ["a", "a"], "w: an axis is used twice"),
        ({"a": 4}, ["a", None, None], r"w: 3 dimensions are stated, and it has shape \[4, 12\]"),
    ],
)
def test_specs_of_jax_are_pins_or_say_why_not(axes: dict[str, int], spec: list[object], pin: str) -> None:
    stated = from_partition_specs(axes, {"w": spec})
    if pin.startswith("["):
        assert pins_of(stated, linear(), MeshShape.of(gpu=4)) == {"w": pin}
    else:
        with pytest.raises(ShardingError, match=pin):
            pins_of(stated, linear(), MeshShape.of(gpu=4))


@pytest.mark.parametrize(
    ("shape", "placements", "dims"),
    [
        ("", "PlacementShard(1), PlacementReplicate()", [(), ("a",)]),
        (", ttnn.MeshShape(8)", "PlacementShard(0)", [("a", "b")]),
        (", ttnn.MeshShape([2, 4])", "PlacementReplicate(), PlacementShard(dim=0)", [("b",)]),
        (", mesh_shape_override=ttnn.MeshShape(1, 8)", "PlacementShard(0), PlacementReplicate()", [()]),
    ],
)
def test_mesh_mappers_are_read_over_the_axes_that_their_own_mesh_joins(
    shape: str, placements: str, dims: list[tuple[str, ...]]
) -> None:
    text = f'AXES = {{"a": 2, "b": 4}}\nM = {{"w": ttnn.MeshMapperConfig([{placements}]{shape})}}'
    (stated,) = from_python(text).tensors
    assert [split.axes for split in stated.dims] == dims


def test_the_placements_that_a_jax_program_states_itself_are_read_from_its_module() -> None:
    pytest.importorskip("jaxlib")
    # Given a program that jax lowered with four-way data and two-way tensor parallelism
    path = GRAPHS / "jax" / "jax_mlp_dp4_tp2_train.stablehlo.mlir.gz"
    stated = read_shardings(path)
    assert [(axis.name, axis.size) for axis in stated.axes] == [("data", 4), ("model", 2)]

    pins = pins_of(stated, tapestry.read_program(path), MeshShape.of(node=4, gpu=2))

    # Then its layers are split as it said: columns, rows, and the batch over the data axis
    assert pins["arg0"] == "[-, gpu.0]"
    assert pins["arg2"] == "[gpu.0, -]"
    assert pins["arg8"] == "[node.0*node.1, -]"


@pytest.mark.slow
def test_plans_of_a_jax_program_keep_its_own_placements_and_state_them_again() -> None:
    pytest.importorskip("jaxlib")
    # Given that program, and a mesh of four nodes with two devices each
    path = GRAPHS / "jax" / "jax_mlp_dp4_tp2_train.stablehlo.mlir.gz"
    node, gpu = tapestry.load_mesh("2x-dgx-h100").axes
    device = tapestry.load_mesh("2x-dgx-h100").device
    mesh = Mesh("4x2", device, (replace(node, size=4), replace(gpu, size=2)))

    # When plans are searched whose tensors are where the program says
    result = tapestry.optimize(path, mesh, pins_from=path, evaluations=60, islands=1)

    # Then the program annotated by such a plan states for its arguments and results what it stated before
    table = tapestry.sharding_table(result, "fastest")
    shape, graph = MeshShape.of(node=4, gpu=2), tapestry.read_program(path)
    before = pins_of(read_shardings(path), graph, shape)
    after = pins_of(from_shardy(annotated_stablehlo(table, path)), graph, shape)
    assert len(before) == 10
    assert {site: after.get(site) for site in before} == before
    assert {"[-, gpu.0]", "[gpu.0, -]", "[node.0*node.1, -]"} <= set(before.values())


def test_parts_of_axes_in_a_module_are_axes_of_their_own() -> None:
    pytest.importorskip("jaxlib")
    text = """
module @m {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(
      %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(2)2}, {"x":(1)2}]>},
      %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %arg2: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x":(1)4}]> : tensor<8x8xf32>
    %2 = stablehlo.add %1, %arg2 : tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
"""
    graph = from_stablehlo(text)
    assert pins_of(from_shardy(text), graph, MeshShape.of(gpu=8)) == {
        "arg0": "[gpu.1, gpu.0]",
        "arg1": "[gpu.0*gpu.1*gpu.2, -]",
        "add.1": "[-, gpu.0*gpu.1]",
    }
    placed = Placements(
        {"add.1": Placement(parse_strategy("(gpu.2, -)")), "arg2": Placement(parse_strategy("(-, gpu.0)"))}
    )
    table = sharding_table(graph, graph, placed, MeshShape.of(gpu=8))
    again = pins_of(from_shardy(annotated_stablehlo(table, text)), graph, MeshShape.of(gpu=8))
    assert (again["add.1"], again["arg2"], again["arg0"]) == ("[gpu.2, -]", "[-, gpu.0]", "[-, -]")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "py", "dtensor.py", "ttnn.py", "tt.mlir", "ttcore.txt"])
def test_a_search_with_pins_from_a_file_keeps_what_its_plan_had(tmp_path: Path, form: str) -> None:
    # Given a plan of a small model, and its table in a file
    path = GRAPHS / "tiny_train_mlp_784_4x4096_b1024_sgd.onnx"
    budget = {"evaluations": 300, "islands": 1, "seed": 3}
    first = tapestry.optimize(path, "dgx-h100", devices="all", **budget)
    plan = min(first.frontier, key=lambda plan: plan.cost["peak_memory_bytes"])
    shape = MeshShape(first.mesh.axis_sizes)
    table = sharding_table(first.graph, plan.graph, plan.placements, shape, plan.id)
    known = {
        "json": Form(table_text, from_table, lambda table, tensor: ""),
        "py": FORMS["jax"],
        **{
            name: FORMS[name.partition(".")[0]] for name in ("dtensor.py", "ttnn.py", "tt.mlir", "ttcore.txt")
        },
    }[form]
    file = tmp_path / f"table.{form}"
    file.write_text(known.write(table))

    # When another search begins from its pins
    second = tapestry.optimize(path, "dgx-h100", pins_from=file, evaluations=60, islands=1, seed=9)

    # Then every plan has the program's tensors in the places of the first
    for other in second.frontier:
        again = sharding_table(second.graph, other.graph, other.placements, shape)
        split = 0
        for tensor in table.tensors:
            if tensor.is_boundary and not known.fault(table, tensor):
                assert again.boxes(again.by_name[tensor.name]).tolist() == table.boxes(tensor).tolist()
                split += bool(tensor.axes)
        assert split > 3


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.json", "{", "t.json"),
        (
            "t.json",
            '{"format": "x", "version": 1, "mesh": {"axes": []}, "tensors": []}',
            "format 'x' version 1",
        ),
        ("t.toml", "", "expected a file of shardings"),
        ("t.txt", "", "must state the mesh: // mesh of x=2"),
        ("t.txt", "// mesh of x=2\n", "states no tensor"),
        ("t.txt", f"// mesh of x=2\n// w: float32[8] over [y]\n{METAL}", "line 3: w: there is no axis 'y'"),
        (
            "t.txt",
            f"// mesh of x=2\n// w: float32[8] over [-]\n{METAL}",
            "its grid is 1x2, and the axes split it 1",
        ),
        ("t.mlir", f"// mesh of x=2\n// w: float32[4] over [x]\n{METAL}", r"another shape than \[4\]"),
        ("t.mlir", "// mesh of x=2\n// w: float32[8] over [x]\n// metal_layout<", "expected a tensor with"),
        ("t.py", "x = (", "no Python module"),
        ("t.py", "INPUTS = {'x': P('a')}", "must state the mesh"),
        ("t.py", "AXES = {'a': 2}\nINPUTS = {'x': P(name)}", "line 2: name is no constant"),
        ("t.py", "AXES = {'a': 2}\nINPUTS = {'x': [Shard(0), Shard(1)]}", "2 placements on a mesh of 1 axes"),
        (
            "t.py",
            "AXES = {'a': 2}\nM = {'x': MeshMapperConfig([PlacementShard(-1)])}",
            "of a dimension from 0",
        ),
        (
            "t.py",
            "AXES = {'a': 6}\nM = {'x': MeshMapperConfig([PlacementShard(0)], MeshShape(4))}",
            "do not fit",
        ),
        ("t.py", "AXES = {'a': 2}\nM = {'x': MeshMapperConfig(placements)}", "no list of placements"),
        (
            "t.py",
            "AXES = {'a': 2}\nX = {'x': P('a')}\nY = {'y': [Shard(0)]}",
            "states PartitionSpecs and DTensor",
        ),
        ("t.mlir", "module {", "is not a StableHLO module"),
    ],
)
def test_files_that_state_no_shardings_are_refused(
    tmp_path: Path, name: str, content: str, reason: str
) -> None:
    if name.endswith(".mlir"):
        pytest.importorskip("jaxlib")
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(ShardingError, match=reason):
        read_shardings(file)
    with pytest.raises(ShardingError, match="cannot read"):
        read_shardings(tmp_path / "missing.json")


@pytest.mark.parametrize("nested", ["[" * 300, "-" * 3000 + "1", "(" * 300])
def test_what_is_nested_too_deeply_is_refused(nested: str) -> None:
    text = f'from jax.sharding import PartitionSpec as P\nAXES = {{"gpu": 2}}\nSHARDINGS = {{"w": P({nested})}}\n'
    with pytest.raises(ShardingError):
        from_python(text)
    with pytest.raises(ShardingError):
        from_python(text.replace("2}", f"2}}{nested}"))
