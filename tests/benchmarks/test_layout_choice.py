"""Tests of the comparison of native and chosen layouts: one shared reference, and checks of the counts."""

import pytest

from benchmarks.layout_choice import compare, table_of
from benchmarks.setting import find_models
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.teg.importers import from_onnx


@pytest.mark.slow
def test_chosen_layouts_are_compared_with_native_ones() -> None:
    graph = from_onnx(find_models(["tiny_gpt2_small_b1_s1024"])[0])
    row = compare(graph, load_mesh("tpu-v6e-2x4"), Budget(evaluations=1000), seeds=(0,))
    assert {k: len(v) for k, v in row["hypervolume"].items()} == {"chosen": 1, "native": 1}
    assert row["gain"] > 0, "tiny tensors are mostly padding in their native layouts"
    for kind, counts in row["checked"].items():
        assert counts["proven_and_counted"] == counts["plans"] > 0
        assert (counts["with_layouts"] > 0) == (kind == "chosen")
    assert table_of([row | {"graph": "tiny", "mesh": "tpu"}]).row_count == 1
