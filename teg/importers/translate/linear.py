"""Products of tensors: every one becomes a contraction over labels, a bias a separate addition."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Sequence

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute, Labels
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels


def contract(
    t: Translation, site: str, names: Sequence[str], labels: Sequence[Labels], output: str, target: Labels
) -> str:
    """Contract the values: sum their products over all labels that `target` lacks."""
    values = [t.value(n) for n in names]
    sizes: dict[str, int] = {}
    for value, own in zip(values, labels, strict=True):
        sizes.update((d, s) for d, s in zip(own, value.shape, strict=True) if d)
    t.declare(output, [sizes[d] for d in target], values[0].dtype)
    return t.emit(Compute(site, "contract", tuple(v.name for v in values), output, tuple(labels), target))


def matmul(t: Translation, node: OnnxNode) -> None:
    """Multiply stacked matrices as numpy does."""
    a, b = (t.value(n).shape for n in node.inputs)
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ImportFailure(f"{node.where}: shapes {list(a)} and {list(b)} do not multiply")
    rank = max(len(a), len(b)) - 2
    batch_a, batch_b = a[:-2], b[:-2]
    own_a, own_b = _batch(batch_a, batch_b, rank), _batch(batch_b, batch_a, rank)
    left = (*own_a, "m", "k") if len(a) > 1 else ("k",)
    right = (*own_b, "k", "n") if len(b) > 1 else ("k",)
    shared = [d for d in (f"b{k}" for k in range(rank)) if d in own_a or d in own_b]
    target = (*shared, *(("m",) if len(a) > 1 else ()), *(("n",) if len(b) > 1 else ()))
    contract(t, node.name, node.inputs, (left, right), node.outputs[0], target)


def _batch(own: Sequence[int], other: Sequence[int], rank: int) -> Labels:
    """Return the labels of batch dimensions, aligned at the right; `""` where this operand is broadcast."""
    labels = []
    for k, size in enumerate(own):
        at = k - len(own)
        wide = -at <= len(other) and other[at] != 1
        labels.append("" if size == 1 and wide else f"b{rank + at}")
    return tuple(labels)


def _gemm(t: Translation, node: OnnxNode) -> None:
    alpha, beta = float(node.get("alpha", 1.0)), float(node.get("beta", 1.0))
    left = ("k", "m") if node.get("transA", 0) else ("m", "k")
    right = ("n", "k") if node.get("transB", 0) else ("k", "n")
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    output = node.outputs[0]
    plain = alpha == 1.0 and not bias
    product = output if plain else f"{output}.product"
    dtype = t.value(node.inputs[0]).dtype
    contract(t, node.name, node.inputs[:2], (left, right), product, ("m", "n"))
    scaled = ("input", 0) if alpha == 1.0 else ("mul", ("input", 0), ("const", alpha))
    if bias:
        added = ("input", 1) if beta == 1.0 else ("mul", ("input", 1), ("const", beta))
        t.cell(f"{node.name}.bias", (product, bias), output, ("add", scaled, added), dtype)
    elif alpha != 1.0:
        t.cell(f"{node.name}.scale", (product,), output, scaled, dtype)


def _einsum(t: Translation, node: OnnxNode) -> None:
    shapes = [t.value(n).shape for n in node.inputs]
    text = str(node.get("equation")).replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ImportFailure(f"{node.where}: equation {text!r} does not fit {len(shapes)} inputs")
    labels = [_einsum_labels(term, len(shape), node) for term, shape in zip(terms, shapes, strict=True)]
    plain = _einsum_default(labels)
    names = list(node.inputs)
    for k in range(len(names)):
        while len(set(labels[k])) < len(labels[k]):
            names[k], labels[k] = _diagonal(t, node, names[k], labels[k], f"{k}.{len(labels[k])}")
    shapes = [t.value(n).shape for n in names]
    sizes: dict[str, int] = {}
    for own, shape in zip(labels, shapes, strict=True):
        for d, s in zip(own, shape, strict=True):
            sizes[d] = max(s, sizes.get(d, 1))
    most = max((sum(d.startswith("_") for d in own) for own in labels), default=0)
    target = _einsum_labels(right, None, node, most) if arrow else plain
    fitted = [
        tuple("" if s == 1 != sizes[d] else d for d, s in zip(own, shape, strict=True))
        for own, shape in zip(labels, shapes, strict=True)
    ]
    contract(t, node.name, names, fitted, node.outputs[0], target)


def _diagonal(t: Translation, node: OnnxNode, name: str, own: Labels, stem: str) -> tuple[str, Labels]:
    """Take the diagonal of the last two dimensions of the first repeated label: a line in steps of `size + 1`."""
    label = next(d for d in own if own.count(d) > 1)
    *_, a, b = (k for k, d in enumerate(own) if d == label)
    shape = t.value(name).shape
    if shape[a] != shape[b]:
        raise ImportFailure(f"{node.where}: label {label!r} has sizes {shape[a]} and {shape[b]}")
    rest = [k for k in range(len(own)) if k not in (a, b)]
    plain, site, output = plain_labels(len(own)), f"{node.name}.{stem}", f"{node.outputs[0]}.{stem}"
    target = tuple(plain[k] for k in (*rest, a, b))
    turned = t.relabel(
        f"{site}.turn", name, f"{output}.turn", plain, target, [shape[k] for k in (*rest, a, b)]
    )
    lead, size = [shape[k] for k in rest], shape[a]
    line = t.reshape(f"{site}.line", turned, f"{output}.line", (*lead, size * size))
    found = t.slice(site, line, output, [*map(range, lead), range(0, size * size, size + 1)])
    return found, (*(own[k] for k in rest), label)


def _einsum_labels(term: str, rank: int | None, node: OnnxNode, dots: int = 0) -> Labels:
    """Return the labels of one term; an ellipsis stands for `_1`, `_2`, ... counted from the right."""
    if any(c not in string.ascii_letters for c in term.replace("...", "")):
        raise ImportFailure(f"{node.where}: cannot read equation {node.get('equation')!r}")
    head, ellipsis, tail = term.partition("...")
    count = (dots if rank is None else rank - len(head) - len(tail)) if ellipsis else 0
    return (*head, *(f"_{k}" for k in range(count, 0, -1)), *tail)


def _einsum_default(labels: Sequence[Labels]) -> Labels:
    """Return the output labels of an equation without an arrow.

    They are the ellipsis, then the labels that occur once (a diagonal's occur twice), sorted.
    """
    counts = Counter(d for own in labels for d in own)
    once = sorted(d for d, n in counts.items() if n == 1 and not d.startswith("_"))
    dots = max((sum(d.startswith("_") for d in own) for own in labels), default=0)
    return (*(f"_{k}" for k in range(dots, 0, -1)), *once)


LINEAR: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("MatMul",), matmul),
    OnnxTranslator(("Gemm",), _gemm),
    OnnxTranslator(("Einsum",), _einsum),
)
