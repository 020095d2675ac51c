"""Tests of training steps: outputs that are the next value of an input are recognized by their dataflow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_onnx
from tests.teg.importers.models import GRAPHS, model_of

SHAPE = [4, 3]
ACTIVATIONS = ("x", "rate")


def step(
    lines: str,
    states: Mapping[str, str],
    outputs: Sequence[str],
    specified: Sequence[Mapping[str, str]] | None = None,
) -> onnx.ModelProto:
    """Build a model of lines `y = Op a b`; `states` are inputs by role, `x` an input `[4, 3]`, `rate` a number."""
    nodes = []
    for line in lines.strip().splitlines():
        result, _, call = line.strip().partition(" = ")
        op, *operands = call.split()
        nodes.append(helper.make_node(op, operands, [result]))
    read = {o for n in nodes for o in n.input}
    shapes = dict.fromkeys(states, SHAPE) | {"x": SHAPE, "rate": []}
    model = model_of(nodes, {n: s for n, s in shapes.items() if n in read}, outputs)
    roles = [{"name": n, "role": r} for n, r in states.items()]
    model.metadata_props.add(key="teg.inputs", value=json.dumps(roles))
    if specified is not None:
        model.metadata_props.add(key="teg.outputs", value=json.dumps(specified))
    return model


def carried(graph: Graph) -> dict[str, str]:
    found = {s.site: s.definition.get("carries") for s in graph.sinks}
    return {k: v for k, v in found.items() if v is not None}


SGD = """
    forward = Mul w x
    gradient = Exp forward
    change = Mul gradient rate
    next = Sub w change
"""

# Momentum with weight decay: the parameter is a term of the momentum too, and the momentum one of the parameter.
MOMENTUM = """
    forward = Mul w x
    gradient = Exp forward
    decay = Mul w rate
    decayed = Add gradient decay
    kept = Mul m rate
    m_next = Add kept decayed
    change = Mul m_next rate
    w_next = Sub w change
"""

# The second moment and its largest value so far, as AMSGrad has it.
LARGEST = """
    squared = Mul x x
    fresh = Mul squared rate
    kept = Mul v rate
    v_next = Add kept fresh
    most_next = Max most v_next
"""


def test_a_parameter_minus_its_gradient_is_its_next_value() -> None:
    graph = from_onnx(step(SGD, {"w": "parameter"}, ["forward", "next"]))
    assert carried(graph) == {"next": "w"}


def test_each_state_takes_the_output_that_it_is_nearest_to() -> None:
    roles = {"w": "parameter", "m": "optimizer_state"}
    assert carried(from_onnx(step(MOMENTUM, roles, ["m_next", "w_next"]))) == {"m_next": "m", "w_next": "w"}
    roles = {"most": "optimizer_state", "v": "optimizer_state"}
    graph = from_onnx(step(LARGEST, roles, ["v_next", "most_next"]))
    assert carried(graph) == {"v_next": "v", "most_next": "most"}


def test_a_gradient_is_no_next_value() -> None:
    assert carried(from_onnx(step(SGD, {"w": "parameter"}, ["gradient"]))) == {}


def test_a_running_mean_is_carried_beside_parameters_that_stay() -> None:
    lines = "y = Mul w x\nkept = Mul mean rate\nfresh = Mul x rate\nnext = Add kept fresh"
    graph = from_onnx(step(lines, {"w": "parameter", "mean": "buffer"}, ["y", "next"]))
    assert carried(graph) == {"next": "mean"}


def test_a_bias_of_an_output_is_not_carried() -> None:
    graph = from_onnx(
        step("product = Mul w x\ny = Add product b", {"w": "parameter", "b": "parameter"}, ["y"])
    )
    assert carried(graph) == {}


def test_a_residual_stream_that_begins_with_a_parameter_is_not_carried() -> None:
    lines = "a = Mul latent x\nb = Mul a w\nc = Mul b u\ny = Add latent c"
    roles = {"latent": "parameter", "w": "parameter", "u": "parameter"}
    assert carried(from_onnx(step(lines, roles, ["y"]))) == {}


def test_the_model_may_say_so_itself() -> None:
    specified = [{"name": "forward"}, {"name": "gradient", "carries": "w"}]
    graph = from_onnx(step(SGD, {"w": "parameter"}, ["forward", "gradient", "next"], specified))
    assert carried(graph) == {"gradient": "w"}


@pytest.mark.parametrize(
    ("specified", "message"),
    [
        ([{"name": "next", "carries": "v"}], "next value of 'v', but there is no such input"),
        ([{"name": "next", "carries": "rate"}], r"but that is float32\[\], not float32\[4, 3\]"),
        (["next"], "metadata 'teg.outputs' must be a JSON list of objects with name and carries"),
    ],
)
def test_what_the_model_says_must_fit(specified: list[Mapping[str, str]], message: str) -> None:
    with pytest.raises(ImportFailure, match=message):
        from_onnx(step(SGD, {"w": "parameter"}, ["next"], specified))


TRAINING = sorted(p for p in GRAPHS.rglob("tiny_train_*.onnx"))


@pytest.mark.parametrize("path", TRAINING, ids=[p.stem for p in TRAINING])
def test_all_parameters_and_optimizer_state_of_whole_training_steps_are_carried(path: Path) -> None:
    graph = from_onnx(path)
    states = [s.site for s in graph.sources if s.definition["role"] in ("parameter", "optimizer_state")]
    wanted = [] if "grads" in path.stem else states
    assert list(carried(graph).values()) == wanted
