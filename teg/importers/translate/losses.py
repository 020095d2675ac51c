"""Losses over classes: the log-probability of each target, read by position, weighted and averaged."""

from __future__ import annotations

from typing import Any

from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.positions import gather
from tapestry.teg.importers.translate.reductions import reduce_axes
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels


def _negative_log_likelihood(t: Translation, node: OnnxNode) -> None:
    _loss(t, node, node.inputs[0])


def _softmax_cross_entropy(t: Translation, node: OnnxNode) -> None:
    """Translate a softmax cross entropy; the log-probabilities are the second output, if it is named."""
    scores = t.value(node.inputs[0])
    named = len(node.outputs) > 1 and node.outputs[1]
    output = t.declare(named or f"{node.outputs[0]}.log_prob", scores.shape, scores.dtype)
    labels = plain_labels(len(scores.shape))
    site, attrs = f"{node.name}.log_prob", {"axes": labels[1:2]}
    t.emit(Compute(site, "log_softmax", (scores.name,), output, (labels,), labels, attrs))
    _loss(t, node, output)


def _loss(t: Translation, node: OnnxNode, scores: str) -> None:
    """Compute minus the weighted score of each target; ignored targets count nothing, not even in the mean."""
    value, target, output = t.value(scores), t.value(node.inputs[1]), node.outputs[0]
    dtype, ignored = value.dtype, node.get("ignore_index")
    given = node.get("reduction", "mean")
    reduction = given.decode() if isinstance(given, bytes) else str(given)
    places, skipped = target.name, None
    if ignored is not None:
        skipped = ("eq", ("input", 0), ("const", int(ignored)))
        safe = ("where", skipped, ("const", 0), ("input", 0))
        places = t.cell(f"{node.name}.target", (target.name,), f"{output}.target", safe, target.dtype)
    rest = range(2, len(value.shape))
    pairs = [(0, 0), *((k, k - 1) for k in rest)]
    picked = gather(t, f"{node.name}.score", value.name, places, f"{output}.score", 1, pairs)
    weight = _weights(t, node, places, target.name, skipped, dtype)
    each = output if reduction == "none" else f"{output}.each"
    score: Any = ("neg", ("input", 0))
    if weight is not None:
        score = ("where", ("eq", ("input", 1), ("const", 0)), ("const", 0), ("mul", score, ("input", 1)))
    names = (picked,) if weight is None else (picked, weight)
    t.cell(f"{node.name}.each", names, each, score, dtype)
    if reduction == "none":
        return
    axes = range(len(target.shape))
    if reduction == "sum" or weight is None:
        reduce_axes(t, node.name, each, output, axes, False, "sum", mean=reduction == "mean")
        return
    total = reduce_axes(t, f"{node.name}.sum", each, f"{output}.sum", axes, False, "sum")
    count = reduce_axes(t, f"{node.name}.weight", weight, f"{output}.weight", axes, False, "sum")
    t.cell(node.name, (total, count), output, ("div", ("input", 0), ("input", 1)), dtype)


def _weights(
    t: Translation, node: OnnxNode, places: str, target: str, skipped: object, dtype: str
) -> str | None:
    """Compute the weight of each target: that of its class, 0 where it is ignored; None where all are 1."""
    output = node.outputs[0]
    if len(node.inputs) > 2 and node.inputs[2]:
        found = gather(t, f"{node.name}.class", node.inputs[2], places, f"{output}.class", 0)
        if skipped is None:
            return found
        expr: Any = ("where", skipped, ("const", 0), ("input", 1))
        return t.cell(f"{node.name}.kept", (target, found), f"{output}.kept", expr, dtype)
    if skipped is None:
        return None
    expr = ("cast", dtype, ("not", skipped))
    return t.cell(f"{node.name}.kept", (target,), f"{output}.kept", expr, dtype)


LOSSES: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("NegativeLogLikelihoodLoss",), _negative_log_likelihood),
    OnnxTranslator(("SoftmaxCrossEntropyLoss",), _softmax_cross_entropy),
)
