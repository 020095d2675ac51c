"""Tests of the firings counted at every stage, and that figures of other graphs stay."""

import json
from pathlib import Path

import pytest

from benchmarks.firings import firings, main, name_of, read

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"
STORED = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "firings.json"


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


@pytest.mark.parametrize(
    "path",
    [
        "llama2_7b_1layer_b1_s2048.onnx",
        "taso_bert_8layer_s64.onnx",
        "fx/train_mlp_784_4x4096_b1024_sgd.json.gz",
        "jax/flax_cnn_groupnorm_train_sgd.stablehlo.mlir.gz",
        "jax/jax_kmeans_5iter.stablehlo.mlir.gz",
    ],
)
def test_stored_figures_are_what_the_rules_do(path: str) -> None:
    if ".stablehlo." in path:
        pytest.importorskip("jaxlib")
    stored = json.loads(STORED.read_text())["graphs"][name_of(GRAPHS / path)]
    assert firings(read(GRAPHS / path)) == stored, (
        "rules have changed: run `python -m benchmarks.firings GRAPH... --json benchmarks/results/firings.json` "
        "for all graphs of that file, then `python -m tests.docs.rules`"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere.onnx"], "there is no file '/nowhere.onnx'"),
        ([__file__], "is not JSON"),
        ([__file__, "--only", "fuse_cell"], "there is no rule 'fuse_cell'; did you mean fuse_cells"),
    ],
)
def test_what_cannot_be_counted_is_reported_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err
