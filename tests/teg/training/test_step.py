"""Training steps do what PyTorch's losses and optimizers do, step after step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.training import NotDifferentiable, TrainingStep, training_step
from tapestry.teg.validate import validate
from tests.hardware.simulator.programs import cell

BATCH, WIDTH, CLASSES = 6, 5, 4


def perceptron(output: str = "logits", dtype: str = "float32") -> Graph:
    """Build two layers, the first with a bias."""
    b = GraphBuilder("perceptron")
    x = b.source("x", (BATCH, WIDTH), dtype)
    first = b.source("first", (WIDTH, 8), dtype, "parameter")
    bias = b.source("bias", (1, 8), dtype, "parameter")
    second = b.source("second", (8, CLASSES), dtype, "parameter")
    (hidden,) = b.apply(
        "contract", (x, first), site="hidden", labels=(("n", "k"), ("k", "m")), output=("n", "m")
    )
    (moved,) = b.apply(
        "cell",
        (hidden, bias),
        site="moved",
        expr=("tanh", ("add", ("input", 0), ("input", 1))),
        labels=(("n", "m"), ("", "m")),
        dims=(("n", BATCH), ("m", 8)),
        dtype=dtype,
    )
    (y,) = b.apply(
        "contract", (moved, second), site=output, labels=(("n", "k"), ("k", "m")), output=("n", "m")
    )
    b.sink(y, site=f"{output}.result")
    return b.build()


def starting_values(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {}
    for source in graph.sources:
        kind = graph.tensors[source.outputs[0]].type
        if source.definition["role"] == "optimizer_state":
            found[source.site] = np.zeros(kind.shape, kind.dtype)
        elif kind.dtype == "int64":
            found[source.site] = rng.integers(0, CLASSES, kind.shape)
        else:
            found[source.site] = rng.standard_normal(kind.shape).astype(kind.dtype)
    return found


def run(
    step: TrainingStep, values: dict[str, np.ndarray], count: int
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Run a step some times, each from what the last one carried; return the losses and the last values."""
    losses = []
    for _ in range(count):
        results = evaluate(step.graph, values)
        losses.append(float(results["loss"]))
        carried = {s.definition["carries"]: results[s.site] for s in step.graph.sinks if s.definition.carries}
        values = values | carried
    return losses, values


def run_torch(
    values: dict[str, np.ndarray],
    loss: Callable[[torch.Tensor], torch.Tensor],
    optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
    count: int,
) -> tuple[list[float], dict[str, np.ndarray]]:
    weights = {k: torch.tensor(values[k], requires_grad=True) for k in ("first", "bias", "second")}
    updating, x, losses = optimizer(list(weights.values())), torch.tensor(values["x"]), []
    for _ in range(count):
        updating.zero_grad()
        found = loss(torch.tanh(x @ weights["first"] + weights["bias"]) @ weights["second"])
        found.backward()
        updating.step()
        losses.append(found.item())
    return losses, {k: w.detach().numpy() for k, w in weights.items()}


OPTIMIZERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "sgd": (lambda w: torch.optim.SGD(w, 0.05), {"optimizer": "sgd", "learning_rate": 0.05}),
    "momentum": (
        lambda w: torch.optim.SGD(w, 0.05, momentum=0.9),
        {"optimizer": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    ),
    "adam": (lambda w: torch.optim.Adam(w, 1e-3), {}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", ("cross_entropy", "mse", "sum", None))
def test_losses_and_optimizers_are_those_of_pytorch(name: str, loss: str | None) -> None:
    theirs, options = OPTIMIZERS[name]
    step = training_step(perceptron(), loss=loss, **options)
    assert validate(step.graph) == [] and step.trained == ("first", "bias", "second") and not step.constant
    values = starting_values(step.graph)
    kind = loss or "cross_entropy"
    assert step.loss == f"{kind} of logits.result"
    losses: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "cross_entropy": lambda y: functional.cross_entropy(y, torch.tensor(values["labels"])),
        "mse": lambda y: functional.mse_loss(y, torch.tensor(values["target"])),
        "sum": lambda y: y.sum(),
    }
    expected, weights = run_torch(values, losses[kind], theirs, 5)
    found, ours = run(step, values, 5)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for site, value in weights.items():
        np.testing.assert_allclose(ours[site], value, rtol=2e-5, atol=1e-6)


def test_parameters_of_few_bits_are_updated_in_copies_of_float32() -> None:
    step = training_step(perceptron(dtype="bfloat16"), optimizer="sgd", learning_rate=1e-4)
    assert step.mixed_precision
    values = starting_values(step.graph)
    values |= {f"{site}.master": values[site].astype(np.float32) for site in step.trained}
    _, after = run(step, values, 20)
    for site in step.trained:
        master = after[f"{site}.master"]
        assert master.dtype == np.float32 and after[site].dtype.name == "bfloat16"
        assert (master != values[f"{site}.master"]).any()
        assert (after[site] == master.astype(after[site].dtype)).all()


def test_what_is_trained_may_be_named() -> None:
    step = training_step(perceptron("y"), train=("sec*", "x"))
    assert step.trained == ("x", "second") and step.loss == "mse of y.result"
    carried = {sink.definition["carries"] for sink in step.graph.sinks if sink.definition.carries}
    states = {f"{name}.{state}" for name in ("x", "second") for state in ("mean", "square")}
    assert carried == {"x", "second", "step"} | states


def scalar() -> Graph:
    b = GraphBuilder("scalar")
    x, w = b.source("x", (3,), "float32"), b.source("w", (3,), "float32", "parameter")
    b.source("unused", (3,), "float32", "parameter")
    product = cell(b, "product", ("mul", ("input", 0), ("input", 1)), (x, w))
    b.sink(*b.apply("reduce", (product,), site="total", monoid="sum", labels=("n",), output=()), site="y")
    return b.build()


def test_an_output_that_is_a_scalar_is_the_loss() -> None:
    step = training_step(scalar(), optimizer="sgd", learning_rate=1.0)
    assert step.loss == "output y" and step.trained == ("w",) and step.constant == ("unused",)
    x, w = np.array([1, 2, 3], np.float32), np.array([3, 2, 1], np.float32)
    results = evaluate(step.graph, {"x": x, "w": w})
    assert results["loss"] == 10 and results["w.next"].tolist() == [2, 0, -2]


def refused() -> Graph:
    b = GraphBuilder("refused")
    w = b.source("w", (5, 3), "float32", "parameter")
    (y,) = b.apply("scan", (w,), site="running", axis=0, monoid="max")
    b.sink(y, site="y")
    return b.build()


def wide_pool() -> Graph:
    b = GraphBuilder("wide_pool")
    w = b.source("w", (1, 2, 9, 9), "float32", "parameter")
    shape = {"kernel": (9, 9), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    b.sink(*b.apply("pool", (w,), site="greatest", kind="max", **shape), site="y")
    return b.build()


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    (
        (perceptron, {"optimizer": "adams"}, "there is no optimizer 'adams'; did you mean adam"),
        (
            perceptron,
            {"loss": "cross_entrpy"},
            "no loss and no output of floats 'cross_entrpy'; did you mean cross_ent",
        ),
        (perceptron, {"loss": "logits.result"}, r"is of shape \(6, 4\), and a loss is one number"),
        (perceptron, {"train": ("third",)}, "no source of floats is called 'third'"),
        (scalar, {"train": ("unused",)}, r"the loss \(output y\) depends on no parameter that is trained"),
        (scalar, {"loss": "cross_entropy"}, "needs classes along the last dimension"),
        (wide_pool, {}, r"block 'greatest' \(pool\): its windows have 81 elements; at most 64"),
        (refused, {}, r"block 'running' \(scan\): it scans by 'max'"),
    ),
)
def test_faults_are_named(graph: Callable[[], Graph], options: dict[str, Any], message: str) -> None:
    with pytest.raises(NotDifferentiable, match=message):
        training_step(graph(), **options)


def test_a_step_of_training_is_not_trained_again() -> None:
    step = training_step(perceptron())
    with pytest.raises(NotDifferentiable, match="has no parameter of floats to train"):
        training_step(step.graph)
    with pytest.raises(NotDifferentiable, match="'second' is carried state already"):
        training_step(step.graph, train=("second",))
