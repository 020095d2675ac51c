"""Tests of programs that are sharded already, and Loom documents, at the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tapestry.teg.document import load, save
from tapestry.teg.exporters import to_loom
from tapestry.teg.zspace import ZRange
from tests.service.conftest import Run, complaint
from tests.teg.graphs import small_program
from tests.teg.importers.test_loom import layer
from tests.teg.sharding.test_external_graphs import paper


def test_a_sharded_program_is_proven_and_run_where_it_is_pinned(tapestry: Run, tmp_path: Path) -> None:
    save(paper(concat=False), tmp_path / "sharded.json")
    answer = tapestry("simulate", str(tmp_path / "sharded.json"), "--mesh", "dgx-h100", "--json")
    found = json.loads(answer.out)
    assert answer.code == 0
    assert (found["traffic_bytes"], found["flops"][:3], found["issues"]) == (0, [6, 6, 0], [])
    assert found["max_error"] == 0.0
    shown = tapestry("simulate", str(tmp_path / "sharded.json"), "--mesh", "dgx-h100")
    assert "sharding proven: yes" in shown.out and "outputs equal the unsharded program: yes" in shown.out


def test_a_sharded_program_is_computed_by_torch(tapestry: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    save(paper(concat=True), tmp_path / "sharded.json")
    given = ("simulate", str(tmp_path / "sharded.json"), "--mesh", "dgx-h100", "--json")
    by_numpy = tapestry(*given, "--outputs", tmp_path / "numpy.npz")
    by_torch = tapestry(*given, "--backend", "torch", "--outputs", tmp_path / "torch.npz")
    assert (by_torch.code, by_torch.json["backend"], by_numpy.json["backend"]) == (0, "torch", "numpy")
    assert by_torch.json["max_error"] <= 1e-6
    assert {**by_torch.json, "backend": "", "max_error": 0} == {
        **by_numpy.json,
        "backend": "",
        "max_error": 0,
    }
    outputs = [dict(np.load(tmp_path / f"{name}.npz")) for name in ("numpy", "torch")]
    assert outputs[0].keys() == outputs[1].keys() and outputs[0]
    for name, value in outputs[0].items():
        np.testing.assert_allclose(outputs[1][name], value, rtol=1e-5)


def test_shards_that_leave_a_gap_fail_with_their_place(tapestry: Run, tmp_path: Path) -> None:
    graph = paper(concat=False)
    gap = [replace(b, index=ZRange((0, 0), (2, 3))) if b.site == "Add@1" else b for b in graph.blocks]
    save(graph.replace(gap), tmp_path / "gap.json")
    answer = tapestry("simulate", str(tmp_path / "gap.json"), "--mesh", "dgx-h100")
    assert answer.code == 1
    assert "sharding proven: NO" in answer.out
    assert "6 of 12 points are in none of them" in answer.err


def test_a_device_that_the_mesh_lacks_is_refused(tapestry: Run, tmp_path: Path) -> None:
    graph = paper(concat=False)
    save(graph.replace(replace(b, device=8) for b in graph.blocks), tmp_path / "far.json")
    answer = tapestry("simulate", str(tmp_path / "far.json"), "--mesh", "dgx-h100")
    assert "devices 0 to 7, but the graph pins 'A1' on device 8" in complaint(answer)


def test_an_import_says_that_a_program_is_sharded(tapestry: Run, tmp_path: Path) -> None:
    save(paper(concat=False), tmp_path / "sharded.json")
    assert "already sharded" in tapestry("import", str(tmp_path / "sharded.json")).out
    found = json.loads(tapestry("import", str(tmp_path / "sharded.json"), "--json").out)
    assert (found["is_explicit"], found["unobserved"], found["named_costs"]) == (True, 0, {})


def test_a_loom_document_is_a_program(tapestry: Run, tmp_path: Path) -> None:
    (tmp_path / "layer.json").write_text(json.dumps(layer()))
    answer = tapestry("import", str(tmp_path / "layer.json"), "-o", str(tmp_path / "out.json"))
    assert answer.code == 0
    assert {b.site for b in load(tmp_path / "out.json").sinks} == {"seen"}
    broken = to_loom(small_program())
    broken["nodes"][0]["body"]["dtype"] = "i8"
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    assert "$.nodes[0].body.dtype" in complaint(tapestry("import", str(tmp_path / "broken.json")))
