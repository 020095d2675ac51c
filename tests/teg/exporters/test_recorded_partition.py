"""Tests that a plan with the placements of a recorded program of JAX has its collectives, in kind and bytes.

The program, four-way data and two-way tensor parallelism of a training step, and what XLA partitioned it to were
recorded together; the record is read as text.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tapestry.examples.compiler_client.hlo_collectives import received
from tapestry.hardware.catalog import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.teg.exporters.spmd import to_jax
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.exporters.tables.shardy import annotated_stablehlo
from tapestry.teg.exporters.tables.table import OUTPUT
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.importers.shardings.files import read_shardings
from tapestry.teg.importers.shardings.pins import pins_of
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy, producer_spec
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.test_jax_execution import planned_bytes
from tests.teg.exporters.xla import Kind, compile_program, compile_stablehlo, kinds_of
from tests.teg.importers.models import GRAPHS

pytestmark = pytest.mark.slow

PROGRAM = GRAPHS / "jax" / "jax_mlp_dp4_tp2_train.stablehlo.mlir.gz"
MESH = MeshShape.of(data=4, model=2)
BATCH, HIDDEN = 512, 4096


@pytest.fixture(scope="module")
def record() -> str:
    """Return the recorded partitioned program."""
    path = GRAPHS / "jax" / "jax_mlp_dp4_tp2_train.partitioned_hlo.txt.gz"
    return gzip.decompress(path.read_bytes()).decode()


@pytest.fixture(scope="module")
def program() -> Graph:
    return read_program(PROGRAM)


@pytest.fixture(scope="module")
def placements(program: Graph) -> Placements:
    """Split the batch over the data axis and hidden features over the model axis, wherever they run."""
    axes = {BATCH: Split(("data.0", "data.1")), HIDDEN: Split(("model.0",))}
    return Placements(
        {
            block.site: Placement(Strategy(tuple(axes.get(dim.size, WHOLE) for dim in block.signature.dims)))
            for block in program.blocks
            if block.signature is not None and not block.is_view
        }
    )


def test_the_record_has_the_collectives_that_a_reader_finds_in_it(record: str) -> None:
    """Check the reader of HLO by hand: one all-reduce of each layer's output, and one of all gradients and the loss."""
    row, gradients = 128 * 1024, 1 + 2 * (2 * 1024 * 2048 + 2048 + 1024)
    assert kinds_of(record) == {
        Kind("all-reduce", "f32", 4 * 2 * (2 - 1) * row * 4, 1, 2): 3,
        Kind("all-reduce", "f32", 2 * 2 * (4 - 1) * gradients * 4, 9, 4): 1,
    }


def test_the_plan_has_the_placements_of_the_record(
    program: Graph, placements: Placements, record: str
) -> None:
    pins = pins_of(read_shardings(PROGRAM), program, MESH)
    assert len(pins) == 10
    for site, pin in pins.items():
        block = program.by_site[site]
        rank = len(program.tensors[block.outputs[0]].shape)
        assert str(producer_spec(block.signature, 0, rank, placements.blocks[site].strategy)) == pin
    # Each device holds parts of the sizes that XLA's entry computation has.
    table = sharding_table(program, program, placements, MESH)
    entry = record.partition("entry_computation_layout={(")[2].partition(")}")[0]
    given, _, results = entry.partition("->")
    for shapes, names in (
        (given, [f"arg{k}" for k in range(10)]),
        (results, [t.name for t in table.of_roles([OUTPUT])]),
    ):
        stated = [[int(n) for n in sizes.split(",") if n] for sizes in re.findall(r"f32\[([\d,]*)\]", shapes)]
        assert stated == [[dim.chunk for dim in table.by_name[name].dims] for name in names]


def test_the_plan_moves_what_the_recorded_program_does(
    program: Graph, placements: Placements, record: str
) -> None:
    node, gpu = load_mesh("2x-dgx-h100").axes
    axes = (replace(node, name="data", size=4), replace(gpu, name="model", size=2))
    planned = planned_bytes(
        expand(program, placements, MESH), Mesh("4x2", load_mesh("2x-dgx-h100").device, axes)
    )
    assert {kind.replace("_", "-"): count for kind, count in planned.items()} == received(record)


@pytest.mark.slow
def test_its_table_and_its_exported_program_compile_to_the_collectives_of_the_record(
    program: Graph, placements: Placements, record: str, jax_process: JaxProcess, tmp_path: Path
) -> None:
    table = sharding_table(program, program, placements, MESH)
    assert kinds_of(jax_process.do(compile_stablehlo, annotated_stablehlo(table, PROGRAM))) == kinds_of(
        record
    )
    module = tmp_path / "plan.py"
    module.write_text(to_jax(expand(program, placements, MESH)))
    _, hlo = jax_process.do(compile_program, module, tmp_path / "dumps")
    assert kinds_of(hlo) == kinds_of(record)
