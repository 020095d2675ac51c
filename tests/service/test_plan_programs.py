"""Tests of plans as programs: the docstring, the values that go with them, and the command line."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapestry.service.plan_programs import PROGRAMS, ProgramRefusal, plan_program, program_values
from tapestry.service.store import Store
from tapestry.teg.graph import Block, Definition, attributes
from tests.service.conftest import Run, complaint
from tests.service.programs import finished_run, two_layers

GRAPH = two_layers(with_weights=True)
RUN = finished_run(GRAPH)
PLAN = RUN.result.frontier[0]


@pytest.fixture
def stored(home: Path) -> str:
    """Store a run and return the reference of a plan of it."""
    home.mkdir()
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    run_id = store.runs.save_finished(RUN)
    store.close()
    return f"{run_id}/{PLAN.id}"


@pytest.mark.parametrize("library", PROGRAMS)
def test_the_docstring_names_plan_mesh_and_costs(library: str) -> None:
    document = ast.get_docstring(ast.parse(plan_program(PLAN, RUN.result.mesh, library)))
    assert document is not None
    assert document.startswith(f"{PLAN.graph.name} on {RUN.result.mesh.device_count} devices")
    assert PLAN.id in document and RUN.result.mesh.name in document
    assert f"time_s={PLAN.cost['time_s']:.6g}" in document


def test_values_that_the_graph_holds_are_those_that_the_program_reads_from_files() -> None:
    values = program_values(PLAN)
    assert values.keys() == {b.site for b in PLAN.graph.sources if b.outputs[0] in PLAN.graph.data}
    for site, value in values.items():
        np.testing.assert_array_equal(value, PLAN.graph.data[PLAN.graph.by_site[site].outputs[0]])


@pytest.mark.parametrize("library", PROGRAMS)
def test_module_and_values_are_written_to_files(
    library: str, tapestry: Run, stored: str, tmp_path: Path
) -> None:
    module, weights = tmp_path / "plan.py", tmp_path / "w.npz"
    answer = tapestry("export", stored, "--to", library, "--output", module, "--weights-output", weights)
    assert (answer.code, answer.out) == (0, "")
    assert module.read_text() == plan_program(PLAN, RUN.result.mesh, library)
    with np.load(weights) as found:
        assert set(found) == set(program_values(PLAN))


def test_parts_are_for_documents_and_values_for_programs(tapestry: Run, stored: str, tmp_path: Path) -> None:
    assert "--to teg" in complaint(tapestry("export", stored, "--to", "torch", "--device", 0))
    weights = tmp_path / "w.npz"
    assert "--to torch" in complaint(tapestry("export", stored, "--to", "teg", "--weights-output", weights))
    assert not weights.exists()


def test_operators_without_a_text_are_refused_by_name() -> None:
    block = next(b for b in PLAN.graph.blocks if b.operator == "cell")
    foreign = Definition("external", attributes(target="elsewhere"), block.signature)
    changed = [
        Block(b.site, foreign, b.inputs, b.outputs, b.index, b.device, b.after) if b is block else b
        for b in PLAN.graph.blocks
    ]
    with pytest.raises(ProgramRefusal, match=f"operator external: '{block.site}'"):
        plan_program(replace(PLAN, graph=PLAN.graph.replace(changed)), RUN.result.mesh, "torch")
