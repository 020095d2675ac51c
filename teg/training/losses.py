"""Losses of a training step: a scalar of the program's outputs, against a target where there is one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tapestry.teg.dtypes import is_float
from tapestry.teg.faults import near_hint
from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators.expressions import Expression
from tapestry.teg.training.rule import NotDifferentiable
from tapestry.teg.training.writing import FIRST, SECOND, GradientWriter

CROSS_ENTROPY, MEAN_SQUARE, SUM = "cross_entropy", "mse", "sum"
LOSSES = (CROSS_ENTROPY, MEAN_SQUARE, SUM)


@dataclass(frozen=True)
class Loss:
    """A loss: its tensor, and in words what it is."""

    tensor: str
    text: str


def outputs_of(graph: Graph) -> dict[str, Block]:
    """Return the sinks that show results of floats, by site; those that carry state are none."""
    return {
        sink.site: sink
        for sink in graph.sinks
        if not sink.definition.carries and is_float(graph.tensors[sink.inputs[0]].dtype)
    }


def add_loss(w: GradientWriter, graph: Graph, name: str | None) -> Loss:
    """Append the blocks of a loss: one of `LOSSES`, or an output that is a scalar.

    Without a name it is the only output if that is a scalar, else the cross-entropy of the output that is named
    logits, else the mean square of the first output's distance from a target.

    Raises:
        NotDifferentiable: the program has no such output.
    """
    outputs = outputs_of(graph)
    if not outputs:
        raise NotDifferentiable("the program has no output of floats, so it has no loss")
    w.site = "loss.terms"
    if name == SUM:
        return Loss(_sum(w, [sink.inputs[0] for sink in outputs.values()]), f"sum of {', '.join(outputs)}")
    if name is None and len(outputs) == 1:
        (site,) = outputs
        if _is_scalar(w, outputs[site]):
            name = site
    if name is not None and name not in LOSSES:
        return _output(w, outputs, name)
    logits = [site for site in outputs if "logits" in site.lower()]
    if name == CROSS_ENTROPY or (name is None and logits):
        site = logits[0] if logits else next(iter(outputs))
        return Loss(_cross_entropy(w, outputs[site].inputs[0]), f"cross_entropy of {site}")
    site = next(iter(outputs))
    return Loss(_mean_square(w, outputs[site].inputs[0]), f"mse of {site}")


def _is_scalar(w: GradientWriter, sink: Block) -> bool:
    return all(size == 1 for size in w.shape(sink.inputs[0]))


def _output(w: GradientWriter, outputs: dict[str, Block], name: str) -> Loss:
    """Take an output as the loss."""
    if name not in outputs:
        hint = near_hint(name, [*LOSSES, *outputs])
        raise NotDifferentiable(f"there is no loss and no output of floats {name!r}; {hint}")
    tensor = outputs[name].inputs[0]
    if not _is_scalar(w, outputs[name]):
        raise NotDifferentiable(
            f"output {name!r} is of shape {w.shape(tensor)}, and a loss is one number: use {SUM!r} or {MEAN_SQUARE!r}"
        )
    return Loss(w.reshape(tensor, ()), f"output {name}")


def _all(w: GradientWriter, tensor: str, scale: float = 1.0) -> str:
    """Sum all elements."""
    return w.reduce(tensor, [f"d{k}" for k in range(len(w.shape(tensor)))], (), scale)


def _sum(w: GradientWriter, tensors: list[str]) -> str:
    return w.total([_wide(w, _all(w, tensor)) for tensor in tensors])


def _count(w: GradientWriter, tensor: str) -> int:
    return max(math.prod(w.shape(tensor)), 1)


def _wide(w: GradientWriter, tensor: str) -> str:
    return tensor if w.dtype(tensor) == "float64" else w.cast(tensor, "float32")


def _cross_entropy(w: GradientWriter, logits: str) -> str:
    """Compute the mean negative logarithm of the probability of the labels; classes are along the last dimension."""
    shape = w.shape(logits)
    if not shape:
        raise NotDifferentiable(
            "a cross-entropy needs classes along the last dimension, and the output is a scalar"
        )
    labels = w.builder.source(w.builder.free_site("labels"), shape[:-1], "int64")
    value = _wide(w, logits)
    names = [f"d{k}" for k in range(len(shape))]
    total = w.reduce(value, names, names[:-1], monoid="logsumexp")
    is_label = ("eq", ("index", names[-1]), SECOND)
    expr: Expression = ("where", is_label, FIRST, ("const", 0.0))
    dims = dict(zip(names, shape, strict=True))
    chosen = w.cell(expr, (value, labels), (names, names[:-1]), dims, w.dtype(value))
    picked = w.reduce(chosen, names, names[:-1])
    return _all(w, w.pointwise(("sub", FIRST, SECOND), total, picked), 1 / _count(w, total))


def _mean_square(w: GradientWriter, output: str) -> str:
    target = w.builder.source(w.builder.free_site("target"), w.shape(output), w.dtype(output))
    difference = w.pointwise(("sub", FIRST, SECOND), _wide(w, output), _wide(w, target))
    return _all(w, w.pointwise(("square", FIRST), difference), 1 / _count(w, output))
