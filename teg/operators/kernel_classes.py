"""Classes of kernels: what libraries have a kernel for, and so what is measured and timed as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# Kernel class -> the class whose figures it takes where nothing is known of its own; None for the two roots.
PARENTS: Mapping[str, str | None] = {
    "elementwise": None,
    "gated": "elementwise",  # an activation of one input that multiplies another: GLU and its kin
    "copy": "elementwise",
    "transposition": "copy",
    "gather": "copy",  # and scatter: rows by index
    "reduction": "elementwise",
    "normalization": "reduction",
    "softmax": "normalization",
    "fused_rows": "normalization",  # fused blocks that reduce rows and go on
    "scan": "reduction",
    "sort": "reduction",
    "max_pooling": "elementwise",
    "average_pooling": "elementwise",
    "grouped_convolution": "elementwise",  # each group by itself on the vector units, where no product is faster
    "matrix_product": None,
    "convolution": "matrix_product",
    "fused_product": "matrix_product",  # a product fused with what is before or after it
    "attention": "fused_product",  # two products with a softmax of the scores between them
}
KERNEL_CLASSES = tuple(PARENTS)
PRODUCT_CLASSES = ("matrix_product", "convolution", "fused_product", "attention")
WINDOW_CLASSES = ("max_pooling", "average_pooling", "grouped_convolution")  # many flops for each byte
ROW_CLASSES = ("reduction", "normalization", "softmax", "fused_rows", "scan", "sort")
# What is learned of moves is kept by the class of the operator that they act on: few, each of many kernel classes.
OPERATOR_CLASSES = ("product", "reduction", "elementwise", "copy")
_OPERATOR_CLASS = {"matrix_product": "product"} | {name: name for name in OPERATOR_CLASSES}
# The class of work of a kind, unless its operator says another.
KERNEL_OF_KIND = {
    "contraction": "matrix_product",
    "vector": "elementwise",
    "move": "copy",
    "none": "copy",
    "fused": "elementwise",
}
ACTIVATION_FLOPS = 8.0  # of an exponential and its kin: what an activation has and a sum has not


def operator_class(kernel: str) -> str:
    """Return which of `OPERATOR_CLASSES` a class of kernels belongs to: the nearest above it."""
    parent: str | None = kernel
    while parent is not None and parent not in _OPERATOR_CLASS:
        parent = PARENTS[parent]
    return _OPERATOR_CLASS[parent or "elementwise"]


def of_cells(flops: float, functions: int, inputs: int) -> str:
    """Return the class of a function of elements, from its flops, functions and tensors read."""
    return "gated" if flops > ACTIVATION_FLOPS and functions > 1 and inputs > 1 else "elementwise"


class StepKernel(NamedTuple):
    """A step of a fused block: its kernel class, flops per point, and the rows it works along.

    These are `row` elements for each point of the block's dimensions `row_dims`.
    """

    kernel: str
    flops: float
    row: int
    row_dims: tuple[str, ...]


def of_fused(steps: Sequence[StepKernel], inputs: int) -> tuple[str, int, tuple[str, ...]]:
    """Return the class of a fused block and its rows as in `StepKernel`, from its steps in order and tensors read."""
    products = [k for k, step in enumerate(steps) if step.kernel in PRODUCT_CLASSES]
    rows = [k for k, step in enumerate(steps) if step.kernel in ROW_CLASSES]
    if products:
        between = any(products[0] < k < products[-1] for k in rows)
        return ("attention" if between else "fused_product"), 1, ()
    if rows:
        kernel = steps[-1].kernel if rows[-1] == len(steps) - 1 else "fused_rows"
        return kernel, *max((steps[k].row, steps[k].row_dims) for k in rows)
    windows = [step.kernel for step in steps if step.kernel in WINDOW_CLASSES]
    if windows:
        return windows[-1], 1, ()
    moves = [step.kernel for step in steps if step.kernel in ("gather", "transposition")]
    if moves and not any(step.flops for step in steps):
        return moves[0], 1, ()
    functions = sum(step.flops > 0 for step in steps)
    return of_cells(sum(step.flops for step in steps), functions, inputs), 1, ()
