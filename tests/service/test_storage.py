"""Tests of programs stored in another precision by the command line, and of the error that it reports."""

from pathlib import Path

import numpy as np
import pytest

import tapestry as library
from tapestry.rewrites.storage_precision import stored_in
from tapestry.service import storage
from tapestry.service.storage import storage_document, storage_text
from tapestry.teg.document import load, save
from tapestry.teg.graph import Graph
from tests.service.conftest import Run


def layer(scale: float = 1.0) -> Graph:
    with library.program("layer") as p:
        x, w = p.input("x", batch=16, width=64), p.parameter("w", width=64, out=32)
        p.output("y", p.cell(lambda a: a * scale, x.contract(w, "width")))
    return p.graph


def test_import_writes_the_program_in_its_new_precision_and_says_how_far_it_is_off(
    tapestry: Run, tmp_path: Path
) -> None:
    given, written = tmp_path / "layer.teg.json", tmp_path / "half.teg.json"
    save(layer(), given)

    printed = tapestry("import", given, "--dtype", "bf16", "-o", written).out
    document = tapestry("import", given, "--dtype", "bf16", "--json").json

    assert load(written) == stored_in(layer(), "bf16")
    assert "stored in bf16; against the given program, output y is off by 0.00" in printed
    assert document["stored"]["dtype"] == "bf16" and 0 < document["stored"]["max_error"]["y"] < 0.02
    assert tapestry("import", given, "--json").json["stored"] is None


@pytest.mark.slow
def test_a_search_reports_the_error_and_verifies_its_plans(tapestry: Run, tmp_path: Path) -> None:
    given = tmp_path / "layer.teg.json"
    save(layer(), given)
    limits = ("--evaluations", 50, "--islands", 1, "--quiet", "--json")
    found = tapestry("optimize", given, "--mesh", "dgx-h100", "--dtype", "fp16", *limits).json
    assert found["graph"] == "layer-fp16"
    assert 0 < found["stored"]["max_error"]["y"] < 0.004
    assert found["checks"]["failed"] == found["checks"]["untrusted"] == 0


def test_numbers_beyond_the_range_are_reported() -> None:
    given = layer(1e6)
    found = storage_document(given, stored_in(given, "fp16"), "fp16")
    assert found["max_error"] == {"y": None}
    assert "output y leaves its range" in storage_text(found)


def test_an_error_that_takes_long_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = storage_document(layer(), stored_in(layer(), "bf16"), "bf16")
    assert np.isfinite(found["max_error"]["y"])
    monkeypatch.setattr(storage, "LONGEST_S", 0.0)
    late = storage_document(layer(), stored_in(layer(), "bf16"), "bf16")
    assert late["max_error"] is None and "would take too long" in storage_text(late)
