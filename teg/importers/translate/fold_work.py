"""The number of elements that ONNX's reference touches to compute a node, at most: before it is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapestry.teg.importers.constants import ELEMENTWISE
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Literal

Shape = tuple[int, ...]

# The reference reads each operand and writes each result a few times, by calls of numpy on whole arrays.
LINEAR = ELEMENTWISE.union(
    (
        *("ArgMax", "ArgMin", "Compress", "Concat", "Constant", "ConstantOfShape", "CumSum", "EyeLike"),
        *("DequantizeLinear", "Expand", "Flatten", "Gather", "GatherElements", "HardSigmoid", "LeakyRelu"),
        *("LogSoftmax", "Mean", "NonZero", "OneHot", "Pad", "QuantizeLinear", "Range", "ReduceL1"),
        *("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
        *("ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "Size", "Slice", "Softmax", "Softplus"),
        *("Split", "Squeeze", "Tile", "Transpose", "Trilu", "Unique", "Unsqueeze"),
    )
)
# The reference goes over windows or steps one by one; these all have translations to steps, or fixed blocks.
WINDOWED = frozenset(
    (
        *("AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GRU", "LRN"),
        *("LSTM", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "NonMaxSuppression", "QLinearConv"),
        *("RNN", "Resize", "RoiAlign", "STFT", "Upsample"),
    )
)
# The reference takes rows one by one in Python: each element of these counts as so many ...
BY_ROW = frozenset(("GatherND", "ScatterElements", "ScatterND"))
PER_ROW = 16
# ... and each of any other operator as so many.
IN_PYTHON = 128


def fold_work(node: OnnxNode, inputs: Sequence[Literal | None], outputs: Sequence[Shape]) -> int | None:
    """Return the number of elements touched at most, of operands written out in full; None where it has no bound."""
    shapes = [c.shape for c in inputs if c is not None]
    made, read = sum(map(math.prod, outputs)), sum(map(math.prod, shapes))
    if node.op in WINDOWED:
        return None
    if node.op in ("MatMul", "Gemm"):
        return read + made * max((n for n in shapes[0]), default=1)
    if node.op == "Einsum":
        return math.prod(max(math.prod(shape), 1) for shape in shapes)
    return (read + made) * (1 if node.op in LINEAR else PER_ROW if node.op in BY_ROW else IN_PYTHON)
