"""Constant folding of nodes with known inputs, unless the result is large or they merely move weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.importers.constants import ELEMENTWISE, fold, literal
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import FOLD_LIMIT_BYTES, Literal
from tapestry.teg.importers.translate.fold_work import Shape, fold_work
from tapestry.teg.importers.translate.inference import InferredOutput, infer_types, static_type
from tapestry.teg.importers.translate.translation import Translation

# Moving weights about costs nothing later, so they are not copied here.
KEPT_ON_WEIGHTS = frozenset(
    (
        "Transpose",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Slice",
        "Split",
        "Identity",
        "Gather",
    )
)
# Results have no more elements than the operands together.
NEVER_LARGER = KEPT_ON_WEIGHTS.union(
    ELEMENTWISE,
    (
        "Compress",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "NonZero",
        "ScatterND",
        "ReduceProd",
        "ReduceSum",
        "Unique",
    ),
) - {"Gather", "Expand"}
RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
# The attributes that may hold the value of a Constant, and its element type where they do not say.
CONSTANT_FORMS: Mapping[str, Any] = {
    "value": None,
    "sparse_value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
# What is never computed at import: other numbers each time, and loops that may not end.
UNFOLDED = RANDOM | {"If", "Loop", "Scan", "SequenceMap"}


def fold_node(t: Translation, node: OnnxNode, has_steps: bool) -> bool:
    """Compute the node now, if its inputs are known and its result is small; return whether it was computed.

    Raises:
        ImportFailure: the node cannot be evaluated.
    """
    if node.op in ("Shape", "Size"):
        shape = t.value(node.inputs[0]).shape
        part = shape[slice(node.get("start", 0), node.get("end"))] if node.op == "Shape" else math.prod(shape)
        t.know(node.outputs[0], literal(np.asarray(part, np.int64)))
        return True
    inputs = [t.literal(n) if n else None for n in node.inputs]
    unknown = any(n and c is None for n, c in zip(node.inputs, inputs, strict=True))
    weights = bool(node.inputs) and t.resolve(node.inputs[0]) in t.program.entries
    if unknown or node.op in UNFOLDED or (node.op in KEPT_ON_WEIGHTS and weights):
        return False
    results = _compressed(t, node, inputs)
    if results is None:
        versions = {"": t.opset, node.domain: t.version(node.domain)}
        if not _is_small(t, node, inputs, versions):
            return False
        try:
            results = fold(node, inputs, versions)
        except ImportFailure:
            if not has_steps:
                raise
    if results is None:
        return False
    for name, result in zip([o for o in node.outputs if o], results, strict=True):
        t.know(name, result)
    return True


def _is_small(
    t: Translation, node: OnnxNode, inputs: Sequence[Literal | None], versions: Mapping[str, int]
) -> bool:
    """Return whether the node may be computed here: its result replaces its inputs, and the work is in the budget."""
    known = [c for c in inputs if c is not None]
    if node.op in ELEMENTWISE:
        made = np.broadcast_shapes(*(c.array.shape for c in known))
        return t.budget.take(math.prod(made) * (len(known) + 1))
    outputs: list[Shape] = []
    if node.op in NEVER_LARGER:
        outputs = [c.shape for c in known]
    else:
        found = _output_types(t, node, inputs, versions)
        given = sum(c.array.nbytes for c in known)
        if found is None or _bytes_of(found) > max(FOLD_LIMIT_BYTES, given):
            return False
        outputs = [shape for shape, _ in found]
    work = fold_work(node, inputs, outputs)
    return work is not None and t.budget.take(work)


def _output_types(
    t: Translation, node: OnnxNode, inputs: Sequence[Literal | None], versions: Mapping[str, int]
) -> list[InferredOutput] | None:
    """Return shapes and types of the outputs; None where they are not known before the node is computed."""
    operands = {n: (t.value(n), c) for n, c in zip(node.inputs, inputs, strict=True) if n}
    try:
        found = [static_type(kind, node) for kind in infer_types(node, versions, operands).values()]
    except ImportFailure:  # said better by whoever translates it
        return None
    return [kind for kind in found if kind is not None] if None not in found else None


def _bytes_of(types: Sequence[InferredOutput]) -> int:
    return sum(math.prod(shape) * item_bytes(dtype) for shape, dtype in types)


def _compressed(
    t: Translation, node: OnnxNode, inputs: Sequence[Literal | None]
) -> tuple[Literal, ...] | None:
    """Compute a result that repeats a smaller array without writing it out; None for other results."""
    if node.op not in _BY_OP or any(c is None for c in inputs):
        return None
    known, compute = [c for c in inputs if c is not None], _BY_OP[node.op]
    if node.op == "Reshape":  # may copy what was transposed before
        how = (node.op, str(sorted(node.attributes.items())), *(c.shape for c in known))
        result = t.once(how, [c.array for c in known], lambda: compute(node, known))
    else:
        result = compute(node, known)
    return None if result is None else (result,)


def _constant(node: OnnxNode, _: Sequence[Literal]) -> Literal:
    """Return the constant in any of its forms but text."""
    for name, dtype in CONSTANT_FORMS.items():
        if name in node.attributes:
            return literal(np.asarray(node.attributes[name], dtype))
    raise ImportFailure(
        f"{node.where} holds {', '.join(node.attributes) or 'nothing'}, which is no number or tensor"
    )


def _constant_of_shape(node: OnnxNode, inputs: Sequence[Literal]) -> Literal:
    shape = tuple(int(s) for s in inputs[0].full)
    given = node.get("value")
    fill = np.zeros(1, np.float32) if given is None else np.asarray(given)
    return Literal(fill.reshape((1,) * len(shape)), shape)


def _expand(_: OnnxNode, inputs: Sequence[Literal]) -> Literal:
    first, wanted = inputs
    shape = np.broadcast_shapes(first.shape, tuple(int(s) for s in wanted.full))
    lead = (1,) * (len(shape) - first.array.ndim)
    return Literal(first.array.reshape(lead + first.array.shape), shape)


def _unsqueeze(node: OnnxNode, inputs: Sequence[Literal]) -> Literal:
    axes = node.get("axes") or tuple(int(a) for a in inputs[1].full.reshape(-1))
    array = np.expand_dims(inputs[0].array, axes)
    new = {a % array.ndim for a in axes}
    sizes = iter(inputs[0].shape)
    return Literal(array, tuple(1 if k in new else next(sizes) for k in range(array.ndim)))


def _reshape(node: OnnxNode, inputs: Sequence[Literal]) -> Literal | None:
    """Reshape equal elements, or an array that has all of them; None for one that is repeated."""
    if "shape" in node.attributes or len(inputs) != 2:
        return None
    array, old = inputs[0].array, inputs[0].shape
    wanted = [int(n) for n in inputs[1].full.reshape(-1)]
    if not node.get("allowzero", 0):
        wanted = [old[k] if n == 0 and k < len(old) else n for k, n in enumerate(wanted)]
    rest = math.prod(n for n in wanted if n != -1)
    shape = tuple(math.prod(old) // max(rest, 1) if n == -1 else n for n in wanted)
    if math.prod(shape) != math.prod(old) or not math.prod(old):
        return None
    if array.size == 1:
        return Literal(array.reshape((1,) * len(shape)), shape)
    return Literal(array.reshape(shape), shape) if array.shape == old else None


def _transpose(node: OnnxNode, inputs: Sequence[Literal]) -> Literal:
    order = node.get("perm") or tuple(range(inputs[0].array.ndim))[::-1]
    return Literal(inputs[0].array.transpose(order), tuple(inputs[0].shape[k] for k in order))


def _concat(node: OnnxNode, inputs: Sequence[Literal]) -> Literal | None:
    axis = int(node.get("axis", 1)) % len(inputs[0].shape)
    shape = tuple(sum(c.shape[k] for c in inputs) if k == axis else s for k, s in enumerate(inputs[0].shape))
    packed = np.broadcast_shapes(
        *(tuple(1 if k == axis else n for k, n in enumerate(c.array.shape)) for c in inputs)
    )
    if math.prod(packed) * shape[axis] * inputs[0].array.itemsize > FOLD_LIMIT_BYTES:
        return None
    parts = [
        np.broadcast_to(c.array, tuple(c.shape[k] if k == axis else n for k, n in enumerate(packed)))
        for c in inputs
    ]
    return Literal(np.concatenate(parts, axis), shape)


_BY_OP: dict[str, Callable[[OnnxNode, Sequence[Literal]], Literal | None]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
}
