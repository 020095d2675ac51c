"""Firings are counted at every stage, and figures of other graphs stay."""

import json
from pathlib import Path

import pytest

from benchmarks.firings import firings, main, read

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"


def test_places_and_firings_are_counted_by_stage() -> None:
    found = firings(read(GRAPHS / "tiny_resnet50_b16_224.winputs.onnx"))
    assert found["rules"]["fold_into_conv"] == [12, 0, 12, 12]
    imported, fired, saturated, last = found["rules"]["fuse_cells"]
    assert (imported > 0, fired >= imported, saturated, last) == (True, True, 0, 0)
    assert found["blocks"][0] - fired == found["blocks"][1]


def test_figures_are_added_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    for name in ("tiny_gpt2_small_b1_s1024", "tiny_llama2_7b_1layer_b1_s2048"):
        main([str(GRAPHS / f"{name}.onnx"), "--json", str(path), "--only", "fuse_cells", "expand_softmax"])
    graphs = json.loads(path.read_text())["graphs"]
    assert list(graphs) == ["tiny_gpt2_small_b1_s1024", "tiny_llama2_7b_1layer_b1_s2048"]
    assert all(set(g["rules"]) <= {"fuse_cells", "expand_softmax"} for g in graphs.values())
    assert capsys.readouterr().out.count("blocks") == 2
