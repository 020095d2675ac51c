"""Tests of passes, bounded repetition and staged pipelines: work done, work remaining, rules left out."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tapestry.hardware import load_device
from tapestry.optimizer.structure.search_stage import search_on
from tapestry.rewrites import Rule, replay, rule_named
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.pipelines import Searched, Stage, run_pipeline, standard_pipeline
from tapestry.rewrites.rule import op, tensor
from tapestry.rewrites.saturation import apply_once, repeat
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

MODEL = Path(__file__).resolve().parents[1] / "data" / "graphs" / "tiny_gpt2_small_b1_s1024.onnx"
X = tensor("x")


def program() -> Graph:
    """Build two softmaxes in a row, and a cell."""
    b = ExampleBuilder("program")
    one = b.op("softmax", b.tensor("x", 3, 4), axes=(1,), site="one")
    return b.result(b.cell(("neg", INPUT), {b.op("softmax", one, axes=(0,), site="two"): "rc"}, site="minus"))


def copying() -> Rule:
    """Build a rule that makes a softmax the softmax of a copy, endlessly."""
    copy = op("view", X, given=lambda m: {"map": ((0, 1, 0), (1, 1, 0)), "shape": m.shape("x")})
    left = op("softmax", X, axes=(0,))
    return Rule("copying", left, op("softmax", copy, axes=(0,)), "Copies.", "a test", lambda size: program())


def failing(m: object) -> bool:
    raise LookupError("no such thing")


def test_a_pass_applies_each_rule_once_over_the_program_in_the_order_given() -> None:
    done = apply_once(program(), [copying(), rule_named("expand_softmax")])
    assert [(m.rule, m.places) for m in done.moves] == [
        ("copying", ("two",)),
        ("expand_softmax", ("one", "two")),
    ]
    assert sum(b.operator == "view" for b in done.graph.blocks) == 1


def test_repetition_is_stopped_at_its_bound_and_says_who_would_go_on() -> None:
    done = repeat(program(), [copying(), rule_named("expand_logsumexp")], most=7)
    assert done.unfinished == ("copying",)
    assert sum(len(m.places) for m in done.moves) == 7
    assert repeat(program(), [rule_named("expand_softmax")]).unfinished == ()


def test_a_rule_that_fails_is_left_out_and_its_stage_begun_again() -> None:
    broken = Rule("broken", op("cell", X), X, "", "", lambda size: program(), when=failing)
    stages = (Stage("one", (rule_named("expand_softmax"), broken), "once"), Stage("two", (broken,), "once"))
    done = run_pipeline(program(), stages)
    assert list(done.refused) == ["broken"]
    assert "LookupError('no such thing')" in done.refused["broken"]
    assert [len(stage.moves) for stage in done.stages] == [1, 0]


def test_a_stage_that_searches_hands_the_program_over() -> None:
    seen: list[tuple[Graph, int]] = []

    def search(graph: Graph, rules: Sequence[Rule], refused: Sequence[str]) -> Searched:
        seen.append((graph, len(rules)))
        assert refused == ()
        return Searched(graph, (), {"copying": "no use"})

    stages = (
        Stage("first", (rule_named("expand_softmax"),), "once"),
        Stage("choose", (copying(),), "search"),
    )
    done = run_pipeline(program(), stages, search)
    assert seen == [(done.graph, 1)]
    assert done.refused == {"copying": "no use"}
    with pytest.raises(
        ValueError, match="stage 'choose' chooses among moves by cost; run the pipeline with a search"
    ):
        run_pipeline(program(), stages)
    assert not any(b.operator == "softmax" for b in done.graph.blocks)
    with pytest.raises(ValueError, match="how is one of once, fixpoint, search, not 'twice'"):
        Stage("wrong", (), "twice")


def test_the_standard_pipeline_keeps_values_and_replays(rng: np.random.Generator) -> None:
    graph = from_onnx(MODEL)
    done = run_pipeline(graph, standard_pipeline(), search_on(load_device("h100")))
    assert done.refused == {}
    assert [stage.stage for stage in done.stages] == ["expand", "simplify", "search", "fuse"]
    assert done.stages[2].moves
    assert len(done.graph.blocks) < len(graph.blocks)
    assert replay(graph, done.moves) == done.graph
    inputs = random_inputs(graph, rng)
    wanted, got = evaluate(graph, inputs), evaluate(done.graph, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=1e-4, atol=1e-5)
