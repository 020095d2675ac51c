"""Tests of the search stage of a pipeline: the fastest program that the rules reach on one device."""

from pathlib import Path

import pytest

from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware import load_device
from tapestry.optimizer.structure.search_stage import search_on
from tapestry.rewrites import replay, rule_named
from tapestry.rewrites.pipelines import Stage, run_pipeline, standard_pipeline
from tapestry.teg.importers import from_onnx

MODEL = Path(__file__).resolve().parents[2] / "data" / "graphs" / "tiny_gpt2_small_b1_s1024.onnx"
DEVICE = load_device("h100")


@pytest.mark.slow
def test_the_stage_makes_a_faster_program_than_the_pipeline_without_it() -> None:
    graph, costs = from_onnx(MODEL), UnshardedCosts(DEVICE)
    without = run_pipeline(graph, [stage for stage in standard_pipeline() if stage.how != "search"])
    done = run_pipeline(graph, standard_pipeline(), search_on(DEVICE))
    assert costs.time_ticks(done.graph) < costs.time_ticks(without.graph)
    assert replay(graph, done.moves) == done.graph


def test_the_same_program_gives_the_same_result() -> None:
    graph = from_onnx(MODEL)
    stage = Stage("search", (rule_named("fuse_cells"),), "search")
    first, second = (run_pipeline(graph, [stage], search_on(DEVICE, most=40)) for _ in range(2))
    assert first.moves == second.moves
    assert first.graph == second.graph


def test_no_move_is_made_where_none_helps() -> None:
    graph = from_onnx(MODEL)
    done = run_pipeline(graph, [Stage("search", (), "search")], search_on(DEVICE))
    assert (done.graph, done.moves) == (graph, ())
