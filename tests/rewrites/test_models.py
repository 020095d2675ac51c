"""Tests of rules on real models: values stay, saturation shrinks, moves of many layers are applied at once."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tapestry.rewrites import RULES, Worklist, apply_all, apply_move, find, find_tied, replay, saturate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import check
from tests.cases import first

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"
TWINS = ("tiny_gpt2_small_b1_s1024", "tiny_llama2_7b_1layer_b1_s2048", "tiny_resnet50_b16_224")
SATURATING = [r for r in RULES if r.saturating]


@cache
def model(name: str) -> Graph:
    return from_onnx(GRAPHS / f"{name}.onnx")


def cells(graph: Graph) -> int:
    return sum(b.operator == "cell" for b in graph.blocks)


def assert_close(before: Graph, after: Graph, rng: np.random.Generator, tolerance: float = 1e-5) -> None:
    inputs = random_inputs(before, rng)
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    for site, value in wanted.items():
        worst = np.max(np.abs(got[site].astype(np.float64) - value))
        assert worst <= tolerance * np.max(np.abs(value)), site


@pytest.mark.parametrize("name", TWINS)
def test_saturated_models_are_smaller_and_mean_the_same(name: str, rng: np.random.Generator) -> None:
    graph = model(name)
    done = saturate(graph, SATURATING)
    check(done.graph)
    assert len(done.graph.blocks) < len(graph.blocks)
    assert sum(b.operator == "cell" for b in done.graph.blocks) <= 0.75 * sum(
        b.operator == "cell" for b in graph.blocks
    )
    assert find(done.graph, SATURATING) == []
    assert replay(graph, done.moves) == done.graph
    assert_close(graph, done.graph, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_every_single_move_keeps_the_values(name: str, rng: np.random.Generator) -> None:
    graph = model(name)
    moves = find(graph, RULES)
    assert len({m.rule for m in moves}) >= 2
    seen = set()
    for move in moves:
        after = apply_move(graph, move)
        if after.structural_hash not in seen:
            seen.add(after.structural_hash)
            assert_close(graph, after, rng)


@pytest.mark.parametrize("name", first(1, TWINS))
@pytest.mark.parametrize("seed", first(1, range(3)))
def test_random_histories_keep_values_and_the_list_of_moves(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = model(name)
    current, candidates, history = graph, Worklist.of(graph, RULES), []
    for _ in range(25):
        moves = candidates.moves() + candidates.tied()
        if not moves:
            break
        history.append(moves[rng.integers(len(moves))])
        applied = apply_all(current, [history[-1]])
        candidates = candidates.after(applied.graph, applied.changes)
        current = applied.graph
        assert candidates.moves() == find(current, RULES), history[-1]
        assert candidates.tied() == find_tied(current, RULES), history[-1]
    check(current)
    assert replay(graph, history) == current
    assert_close(graph, current, rng, 5e-5)


@pytest.mark.slow
def test_tied_moves_change_all_layers_at_once(rng: np.random.Generator) -> None:
    graph = model("llama2_7b_32layer_b1_s2048")
    tied = find_tied(graph, RULES)
    # Where a value that all layers read may be computed again, or come from the host, is a choice among their places:
    # each is a move of its own.
    several = ("recompute", "offload")
    chosen = [m for m in tied if m.rule in several]
    assert 20 * (len(tied) - len(chosen)) < len(find(graph, [r for r in RULES if r.name not in several]))
    softmax = [m for m in tied if m.rule == "expand_softmax"]
    assert [len(m.places) for m in softmax] == [32]
    after = apply_move(graph, softmax[0])
    assert not any(b.operator == "softmax" for b in after.blocks)
    assert sum(len(m.places) for m in tied) == len(find(graph, RULES))
    for move in tied:
        apply_move(graph, move)
