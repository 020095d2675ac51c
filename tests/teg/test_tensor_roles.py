"""Tests of the roles of tensors."""

from __future__ import annotations

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.tensor_roles import tensor_roles
from tapestry.teg.training.step import training_step
from tests.service.programs import two_layers
from tests.teg.sharding.looped import training


def test_roles_of_a_training_step_by_hand() -> None:
    roles = tensor_roles(training(state=True))
    assert {t for t, r in roles.items() if r == "gradients"} == {"step.w1", "step.w2"}
    assert {t for t, r in roles.items() if r == "parameters"} == {"w1", "w2", "new.w1", "new.w2"}
    assert {t for t, r in roles.items() if r == "inputs"} == {"x", "wanted"}
    assert {roles[t] for t in ("hidden", "active", "found", "error", "squares", "back", "gated")} == {
        "activations"
    }


def test_without_carried_state_there_are_no_gradients() -> None:
    assert set(tensor_roles(training(state=False)).values()) == {"inputs", "parameters", "activations"}


def test_roles_of_a_step_with_adam() -> None:
    step = training_step(two_layers(), loss="sum", optimizer="adam").graph
    roles = tensor_roles(step)
    carried = {source.site for source in step.carriers.values()}
    for sink, source in step.carriers.items():
        (new,) = step.by_site[sink].inputs
        assert roles[new] == roles[source.outputs[0]] != "gradients"
    assert {roles[s] for s in carried} == {"parameters", "optimizer states"}
    # One product each makes the gradient of a parameter; all other gradients are made of it element by element.
    products = {
        t for b in step.blocks if b.operator == "contract" for t in b.outputs if roles[t] == "gradients"
    }
    assert len(products) == 2
    assert sorted(step.tensors[t].shape for t in products) == [(64, 256), (256, 64)]
    assert {roles[t] for t in ("hidden", "active", "y")} == {"activations"}


def test_constants_and_buffers_are_constants() -> None:
    b = GraphBuilder("constants")
    x = b.source("x", (4,), "float32")
    c = b.source("c", (4,), "float32", "constant", np.ones(4, np.float32))
    m = b.source("m", (4,), "float32", "buffer")
    add = ("add", ("add", ("input", 0), ("input", 1)), ("input", 2))
    (y,) = b.apply(
        "cell", (x, c, m), site="y", expr=add, labels=(("i",),) * 3, dims=(("i", 4),), dtype="float32"
    )
    b.sink(y)
    assert tensor_roles(b.build()) == {"x": "inputs", "c": "constants", "m": "constants", "y": "activations"}


def test_the_gradient_of_an_activation_as_large_as_a_parameter_is_none_of_its() -> None:
    """Check that the gradient of `shift` is the gradient of the sum, which the product before it reads as well."""
    b = GraphBuilder("shifted")
    x = b.source("x", (4, 4), "float32")
    shift = b.source("shift", (4, 4), "float32", "parameter")
    w = b.source("w", (4, 4), "float32", "parameter")
    labels = (("i", "j"),)
    add = ("add", ("input", 0), ("input", 1))
    (s,) = b.apply(
        "cell", (x, shift), site="s", expr=add, labels=labels * 2, dims=(("i", 4), ("j", 4)), dtype="float32"
    )
    (y,) = b.apply("contract", (s, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="out")
    step = training_step(b.build(), loss="sum", optimizer="sgd").graph
    roles = tensor_roles(step)
    large = [t for t, r in roles.items() if r == "gradients" and step.tensors[t].shape == (4, 4)]
    readers = {t: {r.operator for r, _ in step.readers[t]} for t in large}
    assert large and all("contract" not in found for found in readers.values())
    assert {roles[t] for t in ("s", "y")} == {"activations"}
