"""Tests that the comparison of seeds and search shares one reference and reports what the search adds."""

import pytest

from benchmarks.search_quality import KINDS, compare, table_of
from benchmarks.setting import find_models
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.teg.importers import from_onnx


@pytest.mark.slow
def test_kinds_share_a_reference() -> None:
    graph = from_onnx(find_models(["tiny_llama2_7b_1layer_b1_s2048"])[0])
    row = compare(graph, load_mesh("dgx-h100"), Budget(evaluations=6000), repeats=2, islands=1)
    assert list(row["hypervolume"]) == list(KINDS)
    assert [len(v) for v in row["hypervolume"].values()] == [1, 2, 2]
    assert all(0 < v < 1 for values in row["hypervolume"].values() for v in values)
    assert row["search_adds"] == pytest.approx(row["median"]["both"] - row["median"]["seeds only"])
    assert row["search_adds"] >= 0
    assert table_of([row | {"graph": "tiny"}]).row_count == 1
