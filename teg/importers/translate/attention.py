"""The Attention operator (opset 23) in its parts: two contractions around a softmax."""

from __future__ import annotations

import math
from typing import Any

from teg.importers.failure import ImportFailure
from teg.importers.onnx_reader import Node
from teg.importers.program import Compute
from teg.importers.translate.linear import contract
from teg.importers.translate.translation import Translation, Translator
from teg.operators.monoids import HALF

Q, K = ("b", "h", "g", "q", "d"), ("b", "h", "k", "d")
SCORES = ("b", "h", "g", "q", "k")

# Those that change the outputs we have; the mode and precision of further outputs do not matter.
KNOWN = frozenset(
    (
        "is_causal",
        "kv_num_heads",
        "q_num_heads",
        "qk_matmul_output_mode",
        "scale",
        "softcap",
        "softmax_precision",
    )
)


def _attention(t: Translation, node: Node) -> None:
    """Query heads are kept as groups per key head, so that sharing key heads is a broadcast."""
    unknown = sorted(set(node.attributes) - KNOWN)
    if unknown:
        raise ImportFailure(f"{node.where} is unsupported with attribute {unknown[0]!r}")
    if any(n for n in node.inputs[4:]):
        raise ImportFailure(f"{node.where} is unsupported with past keys and values")
    flat = len(t.value(node.inputs[0]).shape) == 3
    queries, keys, values = (
        _heads(t, node, k, name) for k, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    output, dtype = node.outputs[0], t.value(queries).dtype
    batch, count, length, width = t.value(queries).shape
    shared = t.value(keys).shape[1]
    grouped = t.reshape(
        f"{node.name}.groups", queries, f"{output}.groups", (batch, shared, count // shared, length, width)
    )
    scale = float(node.get("scale", 1 / math.sqrt(width)))
    if dtype in HALF:  # the standard scales before the product, so that scores stay in range
        root = ("mul", ("input", 0), ("const", math.sqrt(scale)))
        grouped, keys = (
            t.cell(f"{node.name}.{what}", (name,), f"{output}.{what}", root, dtype)
            for name, what in ((grouped, "scaled_queries"), (keys, "scaled_keys"))
        )
        scale = 1.0
    scores = contract(t, f"{node.name}.scores", (grouped, keys), (Q, K), f"{output}.scores", SCORES)
    shaped = _masked(t, node, scores, scale)
    value_shape = t.value(shaped).shape
    weights = t.declare(f"{output}.weights", value_shape, dtype)
    t.emit(
        Compute(f"{node.name}.softmax", "softmax", (shaped,), weights, (SCORES,), SCORES, {"axes": ("k",)})
    )
    if len(node.inputs) > 3 and node.inputs[3]:
        weights = _unattended(t, node, shaped, weights)
    target = ("b", "q", "h", "g", "d") if flat else ("b", "h", "g", "q", "d")
    product = contract(t, node.name, (weights, values), (SCORES, K), f"{output}.product", target)
    depth = t.value(values).shape[-1]
    shape = (batch, length, count * depth) if flat else (batch, count, length, depth)
    t.reshape(f"{node.name}.join", product, output, shape)


def _heads(t: Translation, node: Node, position: int, attribute: str) -> str:
    """The operand as `(batch, heads, length, width)`."""
    value, output = t.value(node.inputs[position]), node.outputs[0]
    if len(value.shape) == 4:
        return value.name
    batch, length, width = value.shape
    count = int(node.get(attribute))
    shape = (batch, length, count, width // count)
    split = t.reshape(f"{node.name}.heads", value.name, f"{output}.heads{position}", shape)
    labels, target = ("b", "s", "h", "d"), ("b", "h", "s", "d")
    sizes = (batch, count, length, width // count)
    return t.relabel(f"{node.name}.turn", split, f"{output}.turned{position}", labels, target, sizes)


def _masked(t: Translation, node: Node, scores: str, scale: float) -> str:
    """Scaled scores, capped, with the mask added (or applied) and later positions left out."""
    value, output = t.value(scores), f"{node.outputs[0]}.masked"
    lowest = ("const", -math.inf)
    expr: Any = ("mul", ("input", 0), ("const", scale)) if scale != 1 else ("input", 0)
    inputs = [scores]
    if node.get("softcap", 0.0):
        cap = float(node.get("softcap"))
        expr = ("mul", ("tanh", ("div", expr, ("const", cap))), ("const", cap))
    if len(node.inputs) > 3 and node.inputs[3]:
        mask = _grouped_mask(t, node)
        inputs.append(mask)
        boolean = t.value(mask).dtype == "bool"
        expr = ("where", ("input", 1), expr, lowest) if boolean else ("add", expr, ("input", 1))
    if node.get("is_causal", 0):
        expr = ("where", ("le", ("index", "d4"), ("index", "d3")), expr, lowest)
    return t.cell(f"{node.name}.mask", inputs, output, expr, value.dtype)


def _unattended(t: Translation, node: Node, scores: str, weights: str) -> str:
    """Weights where a query to which the mask leaves no key at all attends to nothing, and not to NaN."""
    value, output = t.value(weights), node.outputs[0]
    rest = SCORES[:-1]
    highest = t.declare(f"{output}.highest", value.shape[:-1], value.dtype)
    attrs = {"monoid": "max", "scale": 1.0}
    t.emit(Compute(f"{node.name}.highest", "reduce", (scores,), highest, (SCORES,), rest, attrs))
    nothing = ("eq", ("input", 0), ("const", -math.inf))
    attended = t.declare(f"{output}.attended", value.shape, value.dtype)
    attrs = {"expr": ("where", nothing, ("const", 0.0), ("input", 1)), "dtype": value.dtype}
    labels = (rest, SCORES)
    return t.emit(
        Compute(f"{node.name}.attended", "cell", (highest, weights), attended, labels, SCORES, attrs)
    )


def _grouped_mask(t: Translation, node: Node) -> str:
    """The mask `(..., q, k)` with the head dimension split like the scores'."""
    value, output = t.value(node.inputs[3]), node.outputs[0]
    shape = (1,) * (4 - len(value.shape)) + value.shape
    keys = t.value(node.inputs[1])
    count = keys.shape[1] if len(keys.shape) == 4 else int(node.get("kv_num_heads"))
    heads = (1, 1) if shape[1] == 1 else (count, shape[1] // count)
    return t.reshape(
        f"{node.name}.mask_groups", value.name, f"{output}.mask_groups", (shape[0], *heads, *shape[2:])
    )


ATTENTION: tuple[Translator, ...] = (Translator(("Attention",), _attention),)
