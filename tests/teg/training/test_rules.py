"""Each rule of differentiation gives the gradients that PyTorch's autograd finds for the same operator."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.operators import SIMPLE
from tapestry.teg.operators.operator import OperatorExample
from tapestry.teg.training.gradients import RULES, has_gradients
from tapestry.teg.training.rule import NotDifferentiable
from tests.teg.training.autograd import torch_gradients
from tests.teg.training.cases import drawn, own_gradients, seeds_of

DOUBLE = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "complex64": "complex128"}


def program_of(name: str, example: OperatorExample) -> Graph:
    b = GraphBuilder(name)
    sources = [
        b.source(f"x{k}", kind.shape, DOUBLE.get(kind.dtype, kind.dtype))
        for k, kind in enumerate(example.inputs)
    ]
    attrs = tuple((key, DOUBLE.get(v, v) if key == "dtype" else v) for key, v in example.attributes)
    for made in b.add(name, sources, attrs, site="y"):
        b.sink(made)
    return b.build()


def values_of(graph: Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw inputs; matrices are far from singular, positions inside the shortest dimension."""
    found = {}
    for source in graph.sources:
        kind: TensorType = graph.tensors[source.outputs[0]].type
        if has_gradients(kind.dtype):
            value = drawn(rng, kind.shape, kind.dtype)
            if any(b.operator == "linalg" for b in graph.blocks) and kind.shape[-1] == kind.shape[-2]:
                value = value + 4 * np.eye(kind.shape[-1])
            found[source.site] = value
        elif kind.dtype == "bool":
            found[source.site] = rng.integers(0, 2, kind.shape).astype(bool)
        else:
            found[source.site] = rng.integers(0, 3, kind.shape).astype(kind.dtype)
    return found


def cases() -> list[object]:
    found = []
    for operator in SIMPLE:
        if operator.name in RULES:
            for k, example in enumerate(operator.examples):
                if any(has_gradients(kind.dtype) for kind in example.inputs):
                    found.append(pytest.param(operator.name, example, id=f"{operator.name}-{k}"))
    return found


def check(graph: Graph, rng: np.random.Generator) -> None:
    inputs, seeds = values_of(graph, rng), seeds_of(graph, rng)
    wanted = [b.outputs[0] for b in graph.sources if has_gradients(graph.tensors[b.outputs[0]].dtype)]
    ours, theirs = own_gradients(graph, inputs, seeds, wanted), torch_gradients(graph, inputs, seeds, wanted)
    assert seeds and ours
    for tensor in wanted:
        expected = theirs.get(tensor, np.zeros(graph.tensors[tensor].shape))
        found = ours.get(tensor, np.zeros(graph.tensors[tensor].shape))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=tensor)


@pytest.mark.parametrize(("name", "example"), cases())
def test_gradients_are_those_of_autograd(name: str, example: OperatorExample) -> None:
    graph = program_of(name, example)
    try:
        check(graph, np.random.default_rng(0))
    except NotDifferentiable as error:
        assert name in ("scan", "scatter", "assemble", "accumulate"), error
        monoid = dict(example.attributes).get("monoid")
        assert monoid not in ("sum", "last") and (monoid or "onto" in dict(example.attributes))


def test_every_other_operator_is_known_to_have_no_rule() -> None:
    boundary, positions = {"source", "sink", "sequence_point"}, {"arg_reduce", "arg_sort"}
    without = {operator.name for operator in SIMPLE} - set(RULES)
    assert without == boundary | positions | {"external", "factorise", "onnx"}
