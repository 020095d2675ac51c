"""Products of tensors: every one is a contraction over labels, a bias a separate addition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call


def matmul(t: Tracer, x: Value, other: Value) -> Value:
    """Multiply as numpy's `matmul` does: vectors, matrices and broadcast batches."""
    a, b = x.shape, other.shape
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else 0]:
        raise t.refuse(f"has shapes {list(a)} and {list(b)}, which do not multiply")
    rank = max(len(a), len(b)) - 2
    own_a, own_b = _batch(a[:-2], b[:-2], rank), _batch(b[:-2], a[:-2], rank)
    left = (*own_a, "m", "k") if len(a) > 1 else ("k",)
    right = (*own_b, "k", "n") if len(b) > 1 else ("k",)
    shared = [d for d in (f"b{k}" for k in range(rank)) if d in own_a or d in own_b]
    target = (*shared, *(("m",) if len(a) > 1 else ()), *(("n",) if len(b) > 1 else ()))
    return t.contract([x, other], [left, right], target)


def _batch(own: Sequence[int], other: Sequence[int], rank: int) -> tuple[str, ...]:
    """Return the labels of batch dimensions, aligned at the right; `""` where this operand is broadcast."""
    labels = []
    for k, size in enumerate(own):
        at = k - len(own)
        wide = -at <= len(other) and other[at] != 1
        labels.append("" if size == 1 and wide else f"b{rank + at}")
    return tuple(labels)


def _mm(t: Tracer, x: Value, mat2: Value) -> Value:
    return matmul(t, x, mat2)


def _matmul(t: Tracer, x: Value, other: Value) -> Value:
    return matmul(t, x, other)


def _mv(t: Tracer, x: Value, vec: Value) -> Value:
    return matmul(t, x, vec)


def _dot(t: Tracer, x: Value, tensor: Value) -> Value:
    return t.contract([x, tensor], [("k",), ("k",)], ())


def _outer(t: Tracer, x: Value, vec2: Value) -> Value:
    return t.cells(lambda a, b: a * b, t.unsqueeze(x, 1), vec2, dtype=t.dtype)


def linear(t: Tracer, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """Compute `input @ weight.T + bias`."""
    lead = tuple(f"b{k}" for k in range(len(input.shape) - 1))
    out = ("n",) if len(weight.shape) > 1 else ()
    product = t.contract([input, weight], [(*lead, "k"), (*out, "k")], (*lead, *out))
    return product if bias is None else t.cells(lambda a, b: a + b, product, bias, dtype=t.dtype)


def _weighted_sum(t: Tracer, x: Value, product: Value, beta: float, alpha: float) -> Value:
    """Compute `beta * x + alpha * product`; torch ignores `x` where beta is 0."""

    def total(p: CellExpr, a: CellExpr) -> CellExpr:
        first = p if alpha == 1 else p * alpha
        return first + (a if beta == 1 else a * beta)

    if beta == 0:
        return t.cells(lambda p: p * alpha, product, dtype=t.dtype)
    return t.cells(total, product, x, dtype=t.dtype)


def _addmm(t: Tracer, x: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _weighted_sum(t, x, matmul(t, mat1, mat2), beta, alpha)


def _addmv(t: Tracer, x: Value, mat: Value, vec: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _weighted_sum(t, x, matmul(t, mat, vec), beta, alpha)


def _addr(t: Tracer, x: Value, vec1: Value, vec2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    return _weighted_sum(t, x, _outer(t, vec1, vec2), beta, alpha)


def _baddbmm(
    t: Tracer, x: Value, batch1: Value, batch2: Value, *, beta: float = 1, alpha: float = 1
) -> Value:
    return _weighted_sum(t, x, matmul(t, batch1, batch2), beta, alpha)


def _addbmm(t: Tracer, x: Value, batch1: Value, batch2: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    product = t.contract([batch1, batch2], [("b", "m", "k"), ("b", "k", "n")], ("m", "n"))
    return _weighted_sum(t, x, product, beta, alpha)


def _einsum(t: Tracer, equation: str, tensors: Sequence[Value], *, path: Any = None) -> Value:
    """Contract by an equation whose letters are the labels; dots are labels of their own, counted from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise t.refuse(f"has the equation {equation!r} for {len(tensors)} tensors")
    labels = [_letters(term, len(v.shape)) for term, v in zip(terms, tensors, strict=True)]
    counts = Counter(d for own in labels for d in own)
    values = list(tensors)
    for k in range(len(values)):
        while len(set(labels[k])) < len(labels[k]):
            values[k], labels[k] = _diagonal(t, values[k], labels[k])
    dots = max((sum(d.startswith("_") for d in own) for own in labels), default=0)
    sizes: dict[str, int] = {}
    for own, v in zip(labels, values, strict=True):
        for d, s in zip(own, v.shape, strict=True):
            sizes[d] = max(s, sizes.get(d, 1))
    once = sorted(d for d, n in counts.items() if n == 1 and not d.startswith("_"))
    plain = (*(f"_{k}" for k in range(dots, 0, -1)), *once)
    target = _letters(right, len(right.replace("...", "")) + dots * ("..." in right)) if arrow else plain
    fitted = [
        tuple("" if s == 1 != sizes[d] else d for d, s in zip(own, v.shape, strict=True))
        for own, v in zip(labels, values, strict=True)
    ]
    return t.contract(values, fitted, target)


def _diagonal(t: Tracer, value: Value, own: tuple[str, ...]) -> tuple[Value, tuple[str, ...]]:
    """Take the diagonal of the last two dimensions of the first repeated label: a line in steps of `size + 1`."""
    label = next(d for d in own if own.count(d) > 1)
    *_, a, b = (k for k, d in enumerate(own) if d == label)
    if value.shape[a] != value.shape[b]:
        raise t.refuse(f"repeats {label!r} for the sizes {value.shape[a]} and {value.shape[b]}")
    rest, size = [k for k in range(len(own)) if k not in (a, b)], value.shape[a]
    turned = t.permute(value, [*rest, a, b])
    line = t.reshape(turned, (*turned.shape[:-2], size * size))
    found = t.slice(line, [*map(range, turned.shape[:-2]), range(0, size * size, size + 1)])
    return found, (*(own[k] for k in rest), label)


def _letters(term: str, rank: int) -> tuple[str, ...]:
    head, dots, tail = term.partition("...")
    count = rank - len(head) - len(tail) if dots else 0
    return (*head, *(f"_{k}" for k in range(count, 0, -1)), *tail)


def _bilinear(t: Tracer, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    lead = tuple(f"b{k}" for k in range(len(input1.shape) - 1))
    labels = [(*lead, "i"), ("o", "i", "j"), (*lead, "j")]
    product = t.contract([input1, weight, input2], labels, (*lead, "o"))
    return product if bias is None else t.cells(lambda a, b: a + b, product, bias, dtype=t.dtype)


def _weight_norm(t: Tracer, v: Value, g: Value, dim: int = 0) -> Value:
    """Scale each slice of `v` along `dim` to the length in `g`."""
    axes = [k for k in range(len(v.shape)) if k != t.axis(dim, len(v.shape))]
    lengths = t.reduce(t.cells(lambda a: a * a, v, dtype=v.dtype), axes, keep=True)
    return t.cells(lambda a, b, s: a * (b / call("sqrt", s)), v, g, lengths, dtype=v.dtype)


def _weight_norm_interface(t: Tracer, v: Value, g: Value, dim: int = 0) -> tuple[Value, None]:
    return _weight_norm(t, v, g, dim), None


LINEAR: tuple[TorchOperator, ...] = (
    TorchOperator(aten("mm", "bmm"), _mm),
    TorchOperator(aten("matmul"), _matmul),
    TorchOperator(aten("mv"), _mv),
    TorchOperator(aten("dot", "vdot"), _dot),
    TorchOperator(aten("outer", "ger"), _outer),
    TorchOperator(aten("linear"), linear),
    TorchOperator(aten("addmm"), _addmm),
    TorchOperator(aten("addmv"), _addmv),
    TorchOperator(aten("addr"), _addr),
    TorchOperator(aten("baddbmm"), _baddbmm),
    TorchOperator(aten("addbmm"), _addbmm),
    TorchOperator(aten("einsum"), _einsum),
    TorchOperator(aten("_weight_norm"), _weight_norm),
    TorchOperator(aten("_weight_norm_interface"), _weight_norm_interface),
    TorchOperator(aten("bilinear"), _bilinear),
)
