"""Gradients of public models are those that PyTorch's autograd finds for the same programs."""

from __future__ import annotations

import numpy as np
import pytest

from tapestry.teg.double import in_double, widened
from tapestry.teg.interface import pack_inputs
from tapestry.teg.training.gradients import has_gradients
from tests.cases import rotating
from tests.teg.exporters.spmd.models import MODELS
from tests.teg.training.autograd import torch_gradients
from tests.teg.training.cases import own_gradients, seeds_of

CLOSE = 1e-7
# Programs of no floats at all have no gradients.
CASES = sorted(MODELS)


@pytest.mark.parametrize("name", rotating(4, CASES))
def test_gradients_are_those_of_autograd(name: str) -> None:
    model = MODELS[name]()
    graph = in_double(model.graph)
    inputs = {site: widened(value) for site, value in pack_inputs(model.graph, model.inputs).items()}
    seeds = seeds_of(graph, np.random.default_rng(0))
    floats = [b.outputs[0] for b in graph.sources if has_gradients(graph.tensors[b.outputs[0]].dtype)]
    ours, theirs = own_gradients(graph, inputs, seeds, floats), torch_gradients(graph, inputs, seeds, floats)
    assert ours
    for tensor in floats:
        shape = graph.tensors[tensor].shape
        expected, found = theirs.get(tensor, np.zeros(shape)), ours.get(tensor, np.zeros(shape))
        scale = np.abs(expected).max(initial=0.0)
        assert np.abs(found - expected).max(initial=0.0) <= CLOSE * max(scale, 1e-6), tensor
