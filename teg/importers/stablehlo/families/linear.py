"""Products of tensors and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.families.movement import reversed_along
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator
from tapestry.teg.operators.windows import WindowGeometry


def _dot_general(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a general dot product: batch dimensions first, then the remaining ones of either side."""
    numbers = operation.get("dot_dimension_numbers")
    batch = list(zip(numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"], strict=True))
    summed = list(
        zip(numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"], strict=True)
    )
    return _product(e, operation, operands, batch, summed)


def _dot(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return _product(e, operation, operands, [], [(len(operands[0].shape) - 1, 0)])


def _product(
    e: Emitter,
    operation: Operation,
    operands: Sequence[Value],
    batch: Sequence[tuple[int, int]],
    summed: Sequence[tuple[int, int]],
) -> Value:
    labels = []
    for side, value in enumerate(operands):
        names = {pair[side]: f"b{k}" for k, pair in enumerate(batch)}
        names |= {pair[side]: f"k{k}" for k, pair in enumerate(summed)}
        labels.append(tuple(names.get(k, f"{'mn'[side]}{k}") for k in range(len(value.shape))))
    free = [tuple(d for d in own if d[0] in "mn") for own in labels]
    target = (*(f"b{k}" for k in range(len(batch))), *free[0], *free[1])
    dtype = operation.types[0].dtype
    if dtype == "bool":
        counts = e.contract([e.cast(o, "int32") for o in operands], labels, target)
        return e.cell(("gt", ("input", 0), ("const", 0)), counts, dtype="bool")
    return e.contract([e.cast(o, dtype) for o in operands], labels, target)


def _convolution(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a convolution of any dimension order: permute to (n, channels, space) first, and back.

    Gaps between elements are written out.
    """
    numbers, dtype = operation.get("dimension_numbers"), operation.types[0].dtype
    rank = len(numbers["input_spatial_dimensions"])
    sides = (
        ("input", "batch_dimension", "feature_dimension"),
        ("kernel", "output_feature_dimension", "input_feature_dimension"),
        ("output", "batch_dimension", "feature_dimension"),
    )
    orders = [
        (numbers[f"{side}_{a}"], numbers[f"{side}_{b}"], *numbers[f"{side}_spatial_dimensions"])
        for side, a, b in sides
    ]
    image, kernel = (e.permute(e.cast(v, dtype), order) for v, order in zip(operands, orders, strict=False))
    image = e.spread(image, (0, 0, *(d - 1 for d in operation.get("lhs_dilation") or (1,) * rank)))
    turned = [2 + k for k, flag in enumerate(operation.get("window_reversal") or ()) if flag]
    kernel = reversed_along(e, kernel, turned)
    groups = int(operation.get("feature_group_count", 1))
    batches = int(operation.get("batch_group_count", 1))
    if batches > 1:
        image, groups = _batches_as_features(e, image, batches), batches
    made = _grouped(e, operation, image, kernel, groups, rank)
    back = [orders[2].index(k) for k in range(rank + 2)]
    return e.permute(made, back)


def _batches_as_features(e: Emitter, image: Value, count: int) -> Value:
    """Convert groups of the batch to groups of channels: `(g n, c, ...)` as `(n, g c, ...)`."""
    n, c, *space = image.shape
    opened = e.reshape(image, (count, n // count, c, *space))
    turned = e.permute(opened, (1, 0, *range(2, len(space) + 3)))
    return e.reshape(turned, (n // count, count * c, *space))


def _grouped(e: Emitter, operation: Operation, image: Value, kernel: Value, groups: int, rank: int) -> Value:
    strides = tuple(operation.get("window_strides") or (1,) * rank)
    dilations = tuple(operation.get("rhs_dilation") or (1,) * rank)
    padding = operation.get("padding")
    pads = [(int(a), int(b)) for a, b in padding] if padding is not None else [(0, 0)] * rank
    if rank == 0:
        return _without_space(e, image, kernel, groups)
    if rank > 3:
        raise e.refuse(f"over {rank} spatial dimensions is unsupported; at most 3 are")
    image = e.pad(image, (0, 0, *(min(a, 0) for a, _ in pads)), (0, 0, *(min(b, 0) for _, b in pads)))
    spatial = image.shape[2:]
    low, high = tuple(max(a, 0) for a, _ in pads), tuple(max(b, 0) for _, b in pads)
    out = tuple(
        (s + a + b - (k - 1) * d - 1) // t + 1
        for s, a, b, k, d, t in zip(spatial, low, high, kernel.shape[2:], dilations, strides, strict=True)
    )
    geometry = WindowGeometry(kernel.shape[2:], strides, dilations, low, high, out)
    kept, geometry = geometry.cropped(spatial)
    image = e.slice(image, [range(n) for n in (*image.shape[:2], *kept)])
    read, written = tuple(f"x{k}" for k in range(rank)), tuple(f"y{k}" for k in range(rank))
    labels = [("n", "c", *read), ("o", "c" if groups == 1 else "cg", *(f"t{k}" for k in range(rank)))]
    target = ("n", "o", *written)
    attributes = {**geometry.attributes, "groups": groups}
    whole = frozenset((*labels[0], *labels[1], *target))
    sizes = dict(zip(written, out, strict=True))
    return e.compute("conv", [image, kernel], labels, target, image.dtype, attributes, whole, sizes)


def _without_space(e: Emitter, image: Value, kernel: Value, groups: int) -> Value:
    """Compute a convolution without spatial dimensions: a product per group."""
    n, c = image.shape
    o = kernel.shape[0]
    left = e.reshape(image, (n, groups, c // groups))
    right = e.reshape(kernel, (groups, o // groups, c // groups))
    made = e.contract([left, right], [("n", "g", "c"), ("g", "o", "c")], ("n", "g", "o"))
    return e.reshape(made, (n, o))


LINEAR: tuple[HloTranslator, ...] = (
    HloTranslator(("stablehlo.dot_general",), _dot_general),
    HloTranslator(("stablehlo.dot",), _dot),
    HloTranslator(("stablehlo.convolution",), _convolution),
)
