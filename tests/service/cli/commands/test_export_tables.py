"""Tests of `tapestry export` of tables: verdicts before anything runs, and pins from what was written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from tapestry.service.cli.commands.export import GRAPHS
from tapestry.service.cli.options.plans import EXPORTED
from tapestry.service.plan_tables import FORMS
from tapestry.teg.exporters.tables.document import table_schema
from tests.service.conftest import Run, complaint

BUDGET = ("--mesh", "dgx-h100", "--evaluations", "150", "--islands", "1", "--seed", "1", "--quiet")


@pytest.fixture
def plan(tapestry: Run, document: Path) -> str:
    found = tapestry("optimize", document, *BUDGET, "--devices", "all", "--json").json["frontier"]
    return str(min(found, key=lambda plan: plan["cost"]["peak_memory_bytes"])["id"])


def test_a_table_is_written_checked_and_read_back_as_pins(
    tapestry: Run, document: Path, plan: str, tmp_path: Path
) -> None:
    file = tmp_path / "table.json"
    assert tapestry("export", plan, "--to", "table", "-o", file).code == 0
    table = json.loads(file.read_text())
    jsonschema.validate(table, table_schema())
    assert table["plan"] == plan
    split = {t["name"]: t["dims"] for t in table["tensors"] if t["role"] != "intermediate"}

    report = tapestry("export", plan, "--to", "dtensor", "--check", "--json").json
    assert report["verdicts"].keys() == {t["name"] for t in table["tensors"]}

    again = tapestry("optimize", document, *BUDGET, "--pins-from", file, "--json").json["frontier"]
    for other in again:
        answer = tapestry("export", other["id"], "--to", "table")
        found = {
            t["name"]: t["dims"] for t in json.loads(answer.out)["tensors"] if t["role"] != "intermediate"
        }
        assert {name: [d["chunk"] for d in dims] for name, dims in found.items()} == {
            name: [d["chunk"] for d in dims] for name, dims in split.items()
        }


def test_every_form_is_a_choice_of_the_command() -> None:
    assert (*GRAPHS, *(form.name for form in FORMS)) == EXPORTED


def test_modules_are_written_to_standard_output(tapestry: Run, plan: str) -> None:
    for form, names in (("jax-specs", ("AXES", "INPUTS")), ("dtensor", ("AXES", "PARAMETERS"))):
        answer = tapestry("export", plan, "--to", form)
        compiled = compile(answer.out, form, "exec")
        assert set(names) <= set(compiled.co_names)
        assert plan in str(compiled.co_consts[0])


def test_a_missing_program_or_one_too_many_is_refused(
    tapestry: Run, plan: str, document: Path, tmp_path: Path
) -> None:
    assert "--program model.mlir" in complaint(tapestry("export", plan, "--to", "shardy"))
    table = ("export", plan, "--to", "table")
    assert "--program is for --to shardy" in complaint(tapestry(*table, "--program", document))
    assert "leave it and --json out" in complaint(tapestry("export", plan, "--to", "teg", "--check"))
    assert "are for --to teg" in complaint(tapestry(*table, "--device", "0"))
    assert "no plan" in complaint(tapestry("export", "0000", "--to", "table"))
    file = tmp_path / "table.json"
    mesh = {"axes": [{"name": "a", "size": 4}]}
    stated = {"format": "tapestry.shardings", "version": 1, "mesh": mesh, "tensors": []}
    file.write_text(json.dumps(stated))
    refused = complaint(tapestry("optimize", document, *BUDGET, "--pins-from", file))
    assert "for 4 devices and the mesh has 8" in refused
