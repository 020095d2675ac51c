"""The Attention operator in its parts: two contractions around a masked softmax.

Query heads are stored as groups per key head, so that sharing key heads is a broadcast; a score's dimensions are
batch, key head, group, query and key position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.onnx_tensors import element_type
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.linear import contract
from tapestry.teg.importers.translate.movement import pad
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels

Expr = tuple[Any, ...]

Q, K = ("b", "h", "g", "q", "d"), ("b", "h", "k", "d")
SCORES = ("b", "h", "g", "q", "k")
QUERY: Expr = ("index", plain_labels(5)[3])
KEY: Expr = ("index", plain_labels(5)[4])

KNOWN = frozenset(
    (
        *("is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap"),
        *("softmax_precision", "left_window_size", "right_window_size"),
    )
)
HALF = ("float16", "bfloat16")

# What the fourth output shows (attribute qk_matmul_output_mode).
RAW, CAPPED, BIASED, WEIGHTS = range(4)


@dataclass(frozen=True)
class _Parts:
    """The operands of one node as `(batch, heads, length, width)`, and the number of keys before those of this call."""

    queries: str
    keys: str
    values: str
    past: int


class _Mask:
    """The mask of keys that a query may see, as an expression over operands, and the term added to its scores."""

    def __init__(self, t: Translation, node: OnnxNode, scores: str, past: int) -> None:
        self.names = [scores]
        self.allowed: list[Expr] = []
        self.added: Expr | None = None
        self._t, self._node = t, node
        _, _, _, self._queries, self._keys = t.value(scores).shape
        mask = _input(node, 3)
        if mask:
            self._add_mask(mask)
        lengths = _input(node, 6)
        offset: Expr = ("const", past)
        if lengths:
            batch = t.value(lengths).shape[0]
            count = t.reshape(
                f"{node.name}.lengths", lengths, f"{node.outputs[0]}.lengths", (batch, 1, 1, 1, 1)
            )
            seen = self._operand(count)
            self.allowed.append(("lt", KEY, seen))
            offset = ("sub", seen, ("const", self._queries))
        place: Expr = ("add", QUERY, offset) if lengths or past else QUERY
        if node.get("is_causal", 0):
            self.allowed.append(("le", KEY, place))
        left, right = (int(node.get(f"{side}_window_size", -1)) for side in ("left", "right"))
        if left >= 0:
            self.allowed.append(("le", ("sub", place, KEY), ("const", left)))
        if right >= 0:
            self.allowed.append(("le", ("sub", KEY, place), ("const", right)))
        # The first key is seen by every query when only later ones are hidden.
        only_causal = not mask and not lengths and left < 0 and right < 0
        self.may_hide_all = bool(self.allowed or mask) and not only_causal

    def _operand(self, name: str) -> Expr:
        self.names.append(name)
        return ("input", len(self.names) - 1)

    def _add_mask(self, name: str) -> None:
        """Add a mask `(..., q, k)`; keys beyond its end are hidden."""
        t, node = self._t, self._node
        value = t.value(name)
        missing = self._keys - value.shape[-1]
        boolean = value.dtype == "bool"
        if missing > 0 and value.shape[-1] > 1:
            hidden = False if boolean else -math.inf
            low, high = [0] * len(value.shape), [0] * (len(value.shape) - 1) + [missing]
            name = pad(
                t, f"{node.name}.mask_end", name, f"{node.name}.mask_end.value", low, high, fill=hidden
            )
            value = t.value(name)
        shape = (1,) * (4 - len(value.shape)) + value.shape
        shared = t.value(self.names[0]).shape[1]
        heads = (1, 1) if shape[1] == 1 else (shared, shape[1] // shared)
        grouped = t.reshape(
            f"{node.name}.mask_groups",
            value.name,
            f"{node.outputs[0]}.mask_groups",
            (shape[0], *heads, *shape[2:]),
        )
        operand = self._operand(grouped)
        if boolean:
            self.allowed.append(operand)
        else:
            self.added = operand

    @property
    def condition(self) -> Expr | None:
        """An expression that is true if a query may see a key; None where only the added term hides keys."""
        found = None
        for one in self.allowed:
            found = one if found is None else ("and", found, one)
        return found

    def applied(self, score: Expr) -> Expr:
        """Return the score with the added term, and minus infinity for hidden keys."""
        total = score if self.added is None else ("add", score, self.added)
        hidden = self.condition
        return total if hidden is None else ("where", hidden, total, ("const", -math.inf))

    def shown(self, weight: Expr) -> Expr:
        """Return the weight, or zero for hidden keys: where all are hidden the softmax is NaN."""
        seen = self.condition
        if self.added is not None:
            finite: Expr = ("gt", self.added, ("const", -math.inf))
            seen = finite if seen is None else ("and", seen, finite)
        return weight if seen is None else ("where", seen, weight, ("const", 0))


def _attention(t: Translation, node: OnnxNode) -> None:
    unknown = sorted(set(node.attributes) - KNOWN)
    if unknown:
        raise ImportFailure(f"{node.where} is unsupported with attribute {unknown[0]!r}")
    parts = _operands(t, node)
    dtype = t.value(parts.queries).dtype
    scores, scaled = _scores(t, node, parts)
    capped = _capped(node, scaled)
    mask = _Mask(t, node, scores, parts.past)
    biased = _cell(t, node, "mask", mask.names, mask.applied(capped), dtype)
    given = node.get("softmax_precision")
    precision = dtype if given is None else element_type(int(given), node.where)
    weights = _weights(t, node, biased, mask, precision, dtype)
    if len(node.outputs) > 3 and node.outputs[3]:
        mode = int(node.get("qk_matmul_output_mode", RAW))
        early = {RAW: scaled, CAPPED: capped}
        late = {BIASED: biased, WEIGHTS: weights}
        chosen = late[mode] if mode in late else _cell(t, node, "early", (scores,), early[mode], dtype)
        batch, shared, groups, length, count = t.value(scores).shape
        t.reshape(f"{node.name}.shown", chosen, node.outputs[3], (batch, shared * groups, length, count))
    flat = len(t.value(node.inputs[0]).shape) == 3
    target = ("b", "q", "h", "g", "d") if flat else ("b", "h", "g", "q", "d")
    product = contract(t, node.name, (weights, parts.values), (SCORES, K), f"{node.name}.product", target)
    t.reshape(f"{node.name}.join", product, node.outputs[0], _joined(t, parts, flat))


def _joined(t: Translation, parts: _Parts, flat: bool) -> tuple[int, ...]:
    batch, count, length, _ = t.value(parts.queries).shape
    depth = t.value(parts.values).shape[-1]
    return (batch, length, count * depth) if flat else (batch, count, length, depth)


def _input(node: OnnxNode, position: int) -> str:
    return node.inputs[position] if position < len(node.inputs) else ""


def _operands(t: Translation, node: OnnxNode) -> _Parts:
    """Return the queries, and keys and values after those of earlier calls, which are outputs too."""
    names = ("q_num_heads", "kv_num_heads", "kv_num_heads")
    queries, keys, values = (_heads(t, node, k, name) for k, name in enumerate(names))
    past = 0
    joined = []
    for k, (what, own) in enumerate((("key", keys), ("value", values))):
        before = _input(node, 4 + k)
        output = node.outputs[1 + k] if len(node.outputs) > 1 + k else ""
        name = output or f"{node.name}.present_{what}"
        if before:
            past = t.value(before).shape[2]
            joined.append(t.concat(f"{node.name}.{what}s", (before, own), name, 2))
        else:
            if output:
                t.alias(output, own)
            joined.append(own)
    return _Parts(queries, joined[0], joined[1], past)


def _heads(t: Translation, node: OnnxNode, position: int, attribute: str) -> str:
    """Convert the operand to `(batch, heads, length, width)`."""
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


def _scores(t: Translation, node: OnnxNode, parts: _Parts) -> tuple[str, Expr]:
    """Compute products `(b, h, g, q, k)`, and the expression that scales them.

    Short floats are scaled before, so that products stay small.
    """
    batch, count, length, width = t.value(parts.queries).shape
    shared, dtype = t.value(parts.keys).shape[1], t.value(parts.queries).dtype
    scale = float(node.get("scale", 1 / math.sqrt(width)))
    queries, keys = parts.queries, parts.keys
    if dtype in HALF:
        half: Expr = ("mul", ("input", 0), ("const", math.sqrt(scale)))
        queries = _cell(t, node, "scaled_queries", (queries,), half, dtype)
        keys = _cell(t, node, "scaled_keys", (keys,), half, dtype)
    shape = (batch, shared, count // shared, length, width)
    grouped = t.reshape(f"{node.name}.groups", queries, f"{node.outputs[0]}.groups", shape)
    scores = contract(t, f"{node.name}.scores", (grouped, keys), (Q, K), f"{node.name}.products", SCORES)
    product: Expr = ("input", 0)
    return scores, product if dtype in HALF else ("mul", product, ("const", scale))


def _capped(node: OnnxNode, score: Expr) -> Expr:
    cap = float(node.get("softcap", 0.0))
    return ("mul", ("tanh", ("div", score, ("const", cap))), ("const", cap)) if cap else score


def _weights(t: Translation, node: OnnxNode, biased: str, mask: _Mask, precision: str, dtype: str) -> str:
    """Compute the softmax over keys in `precision`."""
    if precision != dtype:
        biased = _cell(t, node, "precise", (biased,), ("cast", precision, ("input", 0)), precision)
    raw = t.declare(f"{node.name}.raw_weights", t.value(biased).shape, precision)
    attrs = {"axes": ("k",)}
    t.emit(Compute(f"{node.name}.softmax", "softmax", (biased,), raw, (SCORES,), SCORES, attrs))
    if mask.may_hide_all:
        raw = _cell(t, node, "shown_weights", (raw, *mask.names[1:]), mask.shown(("input", 0)), precision)
    if precision != dtype:
        raw = _cell(t, node, "weights", (raw,), ("cast", dtype, ("input", 0)), dtype)
    return raw


def _cell(t: Translation, node: OnnxNode, what: str, names: Any, expr: Expr, dtype: str) -> str:
    if expr == ("input", 0) and len(names) == 1:
        return str(names[0])
    return t.cell(f"{node.name}.{what}", names, f"{node.name}.{what}.value", expr, dtype)


ATTENTION: tuple[OnnxTranslator, ...] = (OnnxTranslator(("Attention",), _attention),)
