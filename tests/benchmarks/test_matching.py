"""Tests of the matching benchmark: timed results are compared with matches found from scratch."""

import numpy as np

from benchmarks.matching import COMPARED, LEAST_MOVES, measure
from benchmarks.setting import find_models
from tapestry.rewrites import RULES
from tapestry.teg.importers import from_onnx


def test_lists_after_a_move_are_compared_with_new_ones() -> None:
    graph = from_onnx(find_models(["tiny_llama2_7b_1layer_b1_s2048"])[0])
    found = measure(graph, RULES, 0.0, np.random.default_rng(0))
    assert found["moves_tried"] == LEAST_MOVES > COMPARED
    assert found["moves"] >= found["tied_moves"] > 10
    assert found["wrong"] == 0
    assert found["cold"]["cpu_ms"] > found["list"]["cpu_ms"] > 0
