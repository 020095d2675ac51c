"""Tests that XLA moves what a plan moves, when it compiles the user's program with the plan's table.

XLA's HLO is what is read: after the SPMD partitioner, whose collectives are its answer to the table, and compiled. Two
of its ways differ from a plan's (docs/tables.md). It combines terms by all-reduces alone, so that what the plan
scatters is received twice. And where a tensor changes its sharding in several dimensions, it goes through others on the
way, while the plan fetches each missing element once: what XLA moves for one such change alone is asked of it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tapestry
from tapestry.costmodel.reference_copies import CopyCounter
from tapestry.examples.compiler_client.hlo_collectives import collectives, received
from tapestry.hardware.catalog import load_mesh
from tapestry.optimizer.run.plan import Plan, Result
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.exporters.spmd.collectives import is_local, regular_fetch
from tapestry.teg.exporters.tables.jax_module import jax_module
from tapestry.teg.exporters.tables.shardy import annotated_stablehlo
from tapestry.teg.exporters.tables.table import INTERMEDIATE, ShardingTable
from tapestry.teg.exporters.tables.verdicts import OK, TARGETS, constraint_fault, verdict
from tapestry.teg.importers import from_stablehlo
from tapestry.teg.sharding.copies import plan_copy
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec
from tapestry.teg.sharding.text import parse_spec
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.passes import PASSES
from tests.teg.exporters.spmd.test_jax_execution import planned_bytes
from tests.teg.exporters.tables.programs import compiled_by_specs, lowered
from tests.teg.exporters.xla import changes, compile_stablehlo, dumps_of

PARTITIONER = "spmd-partitioning"
SHARDY = next(target for target in TARGETS if target.name == "shardy")
PLANS = 3


def searched(text: str, second: str, evaluations: int = 300) -> Result:
    """Search plans that split a program over eight devices, from the least memory on."""
    options = {"evaluations": evaluations, "islands": 1, "seed": 2, "devices": "all"}
    return tapestry.optimize(from_stablehlo(text), "dgx-h100", ["peak_memory_bytes", second], **options)


def is_stated(table: ShardingTable) -> bool:
    """Return whether all shardings can be stated for XLA; terms count as stated where it can make the same."""
    return not any(
        constraint_fault(table, t) if t.role == INTERMEDIATE else verdict(table, t, SHARDY) != OK
        for t in table.tensors
    )


def moving(result: Result) -> list[tuple[Plan, ShardingTable]]:
    """Return a few plans that move something, and that a table can state, with their tables."""
    plans = [plan for plan in result.frontier if plan.cost["traffic_bytes"] > 0]
    tables = [(plan, tapestry.sharding_table(result, plan.id)) for plan in plans]
    stated = [(plan, table) for plan, table in tables if is_stated(table)]
    return stated[:: max(1, len(stated) // PLANS)][:PLANS]


def unfolded(plan: Plan) -> ExplicitGraph:
    return expand(plan.graph, plan.placements, MeshShape(load_mesh("dgx-h100").axis_sizes))


def kinds(plan: Plan) -> Counter[str]:
    """Count the bytes of the plan's collectives by kind."""
    return +planned_bytes(unfolded(plan), load_mesh("dgx-h100"))


def irregular(explicit: ExplicitGraph) -> Iterator[tuple[Spec, Spec, tuple[int, ...], str]]:
    """Yield the moves that are no collective along one dimension: from where, to where, of which tensor."""
    mesh_shape = explicit.mesh_shape
    for copy in (copy for slot in explicit.slots for copy in slot.issued):
        source, plan = explicit.buffers[copy.source], copy.plan
        shape = explicit.abstract.tensors[source.tensor].shape
        if (
            plan.fetch
            and not is_local(plan, shape, mesh_shape)
            and regular_fetch(plan, shape, mesh_shape) is None
        ):
            yield plan.middle, plan.needed, shape, source.dtype


def moved_by_xla(
    jax_process: JaxProcess, mesh_shape: MeshShape, source: Spec, needed: Spec, shape: tuple[int, ...]
) -> int:
    """Count the bytes of float32 that XLA moves for one change of a sharding, in a program of its own."""

    def sharding(spec: Spec) -> str:
        dims = ", ".join("{" + ", ".join(f'"{axis}"' for axis in split.axes) + "}" for split in spec.dims)
        return f"{{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"

    axes = ", ".join(f'"{axis.name}"={axis.size}' for axis in mesh_shape.sub_axes)
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    text = f"""module @move {{
      sdy.mesh @mesh = <[{axes}]>
      func.func public @main(%arg0: {kind} {sharding(source)}) -> ({kind} {sharding(needed)}) {{
        %0 = stablehlo.negate %arg0 : {kind}
        return %0 : {kind}
      }}
    }}"""
    return received(jax_process.do(compile_stablehlo, text)).total()


def compare(jax_process: JaxProcess, plan: Plan, found: Counter[str]) -> None:
    """Check that reductions and gathers are the plan's, and other moves what XLA makes of each of them alone."""
    planned, explicit = kinds(plan), unfolded(plan)
    assert "reduce-scatter" not in found
    reduced = planned["all_reduce"] + 2 * planned["reduce_scatter"]
    assert found["all-reduce"] == pytest.approx(reduced, rel=1e-3, abs=64)
    moved = planned["all_gather"] + planned["all_to_all"]
    for source, needed, shape, dtype in irregular(explicit):
        size = item_bytes(dtype)
        moved += moved_by_xla(jax_process, explicit.mesh_shape, source, needed, shape) * size // 4
    assert found.total() - found["all-reduce"] == pytest.approx(moved, rel=0.1)


CASES = [
    pytest.param("perceptron", "time_s", 300, marks=pytest.mark.slow),
    pytest.param("training", "time_s", 300, marks=pytest.mark.slow),
    pytest.param("training", "traffic_bytes", 1000, marks=pytest.mark.reach),
    pytest.param("attention", "time_s", 1500, marks=pytest.mark.reach),
    pytest.param("convolutions", "time_s", 1000, marks=pytest.mark.reach),
    pytest.param("perceptron_bf16", "traffic_bytes", 1000, marks=pytest.mark.reach),
    pytest.param("layers_unrolled", "time_s", 1000, marks=pytest.mark.reach),
]


@pytest.mark.slow
@pytest.mark.parametrize(("program", "second", "evaluations"), CASES)
def test_xla_moves_what_the_plan_does(
    program: str, second: str, evaluations: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    text = jax_process.do(lowered, program)
    plans = moving(searched(text, second, evaluations))
    assert plans
    for number, (plan, table) in enumerate(plans):
        dumps = tmp_path / str(number)
        jax_process.do(compile_stablehlo, annotated_stablehlo(table, text), dumps)
        found = dumps_of(dumps)
        (first,) = (k for k, (name, _) in enumerate(found) if name == PARTITIONER)
        compare(jax_process, plan, received(found[first][1]))
        for change in changes(found[first:]):
            assert PASSES[change.name](change), change


@pytest.mark.slow
def test_specs_in_a_program_of_jax_have_the_effect_of_attributes(jax_process: JaxProcess) -> None:
    text = jax_process.do(lowered, "perceptron")
    for _, table in moving(searched(text, "time_s"))[:2]:
        by_attributes = jax_process.do(compile_stablehlo, annotated_stablehlo(table, text))
        assert received(jax_process.do(compiled_by_specs, jax_module(table))) == received(by_attributes)


@pytest.mark.reach
def test_a_loop_has_one_sharding_for_all_of_its_trips(jax_process: JaxProcess) -> None:
    """Count four moves for the plan's three: its first layer reads the input where the plan creates it."""
    text = jax_process.do(lowered, "layers")
    for plan, table in moving(searched(text, "time_s")):
        planned = kinds(plan)
        if set(planned) == {"all_gather"}:
            hlo = jax_process.do(compile_stablehlo, annotated_stablehlo(table, text))
            assert received(hlo) == {"all-gather": planned["all_gather"] * 4 // 3}
            assert {own.times for own in collectives(hlo)} == {4}


@pytest.mark.slow
def test_a_move_of_several_dimensions_takes_several_collectives_of_xla(jax_process: JaxProcess) -> None:
    """Tell what `compare` allows for: the plan fetches each missing element once, XLA goes through a third sharding."""
    mesh_shape, shape = MeshShape.of(gpu=8), (512, 256)
    source, needed = parse_spec("[gpu.1*gpu.2, gpu.0]"), parse_spec("[gpu.0, -]")
    copy = plan_copy(source, needed, shape, mesh_shape)
    assert copy is not None
    part = 512 * 256 * 4 // 8
    assert CopyCounter(copy, shape, 4, load_mesh("dgx-h100")).count().traffic_bytes == 28 * part
    assert moved_by_xla(jax_process, mesh_shape, source, needed, shape) == 30 * part
