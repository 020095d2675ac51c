"""Linear algebra on stacks of matrices, and norms of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.dtypes import HALF
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, where
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand
from tapestry.teg.importers.translate.translation import OnnxTranslator, normal_axis


def linalg(b: Builder, function: str, values: Sequence[Value], **options: Any) -> Value:
    """Apply one function to the last two dimensions; the others are batch dimensions."""
    stack = values[-1].shape[:-2]
    values = [b.expand(v, (*stack, *v.shape[-2:])) for v in values]
    lead = tuple(f"b{k}" for k in range(len(stack)))
    sides = [("r", "c"), ("q", "s")]
    labels = [(*lead, *sides[k]) for k in range(len(values))]
    target = lead if function == "det" else labels[-1]
    attributes = {"function": function, **options}
    whole = frozenset(d for own in labels for d in own)
    return b.compute("linalg", values, labels, target, values[0].dtype, attributes, whole, positional=True)


def _det(b: Builder, node: OnnxNode) -> Value:
    x = operand(b, node, 0)
    if x.dtype in HALF:
        return b.cast(linalg(b, "det", [b.cast(x, "float32")]), x.dtype)
    return linalg(b, "det", [x])


def _lp_normalization(b: Builder, node: OnnxNode) -> Value:
    """Divide each line by its 1-norm or 2-norm; lines of zeros stay."""
    x, p = operand(b, node, 0), int(node.get("p", 2))
    axis = normal_axis(node, int(node.get("axis", -1)), len(x.shape))
    inner = "float32" if x.dtype in HALF else x.dtype
    if p not in (1, 2):
        raise b.refuse(f"normalizes by the 1-norm or the 2-norm, not by p = {p}")
    powers = b.cells(lambda a: call("abs", a) if p == 1 else a * a, x, dtype=inner)
    sums = b.reduce(powers, [axis], keep=True)

    def divided(a: CellExpr, s: CellExpr) -> CellExpr:
        norm = s if p == 1 else call("sqrt", s)
        return where(call("eq", norm, 0.0), 0.0 * a, a / norm)

    return b.cells(divided, x, sums, dtype=x.dtype, within=inner)


MATRICES: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Det",), composed(_det)),
    OnnxTranslator(("LpNormalization",), composed(_lp_normalization)),
)
