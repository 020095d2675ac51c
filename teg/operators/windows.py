"""Windows that slide over spatial dimensions: convolution and pooling.

Tensors are `(n, channels, *spatial)` as in ONNX. A window may stick out of the tensor: what is read is
clipped, and the padding is made up inside the block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, is_float
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import expect_inputs, integers, settings
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange


class SpatialWindow(NamedTuple):
    """One spatial dimension: kernel taps, stride, dilation, and padding before and after."""

    kernel: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def extent(self) -> int:
        """The number of elements from the first tap to the last."""
        return (self.kernel - 1) * self.dilation + 1

    def count(self, size: int) -> int:
        """Count the windows that fit into `size` elements and the padding."""
        return (size + self.low + self.high - self.extent) // self.stride + 1

    @property
    def row(self) -> tuple[int, int, int]:
        """The stride, offset and extent of the projection."""
        return self.stride, -self.low, self.extent


def read_extent(size: int, kernel: int, stride: int, dilation: int, pad_low: int, out: int) -> int:
    """Count the leading elements of a spatial dimension that `out` windows reach; an importer crops the rest."""
    if out <= 0:
        return 0
    return min(size, stride * (out - 1) - pad_low + (kernel - 1) * dilation + 1)


class WindowGeometry(NamedTuple):
    """All spatial dimensions: kernel taps, strides, dilations, padding before and after, and numbers of windows."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, tuple[int, ...]]:
        """The attributes that `conv` and `pool` have in common."""
        return {"strides": self.strides, "pads": (*self.low, *self.high), "dilations": self.dilations}

    def beyond(self, size: Sequence[int]) -> tuple[int, ...]:
        """Count the elements by which the last windows extend beyond a tensor of `size`, per dimension."""
        each = zip(self.out, self.strides, self.kernel, self.dilations, self.low, size, strict=True)
        return tuple(max((o - 1) * s + (k - 1) * d + 1 - a - n, 0) for o, s, k, d, a, n in each)

    def cropped(self, size: Sequence[int]) -> tuple[tuple[int, ...], WindowGeometry]:
        """Return the sizes without margins that no window reads, and the geometry with the padding that is read."""
        each = zip(size, self.kernel, self.strides, self.dilations, self.low, self.out, strict=True)
        kept = tuple(read_extent(*dimension) for dimension in each)
        return kept, self._replace(high=self.beyond(kept))


def _windows(kernel: Sequence[int], given: Mapping[str, Any]) -> tuple[SpatialWindow, ...]:
    rank = len(kernel)
    strides = integers(given["strides"], "strides", rank, least=1)
    dilations = integers(given["dilations"], "dilations", rank, least=1)
    pads = integers(given["pads"], "pads", 2 * rank)
    return tuple(
        SpatialWindow(*w) for w in zip(kernel, strides, dilations, pads[:rank], pads[rank:], strict=True)
    )


def _outputs(windows: Sequence[SpatialWindow], spatial: Sequence[int]) -> tuple[int, ...]:
    counts = tuple(w.count(size) for w, size in zip(windows, spatial, strict=True))
    if any(c < 1 for c in counts):
        raise ValueError(f"no window fits: spatial dimensions {tuple(spatial)} with {windows}")
    return counts


def _check_image(image: TensorType, name: str) -> None:
    if not 3 <= len(image.shape) <= 5:
        raise ValueError(f"{name} must be (n, channels, 1 to 3 spatial dimensions), not {image.shape}")


def _infer_conv(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("strides", "pads", "dilations", "groups"))
    expect_inputs(inputs, ("x", "w"))
    (x, dtype), (w, w_dtype) = inputs
    _check_image(inputs[0], "x")
    groups = integers((given["groups"],), "groups", least=1)[0]
    if len(w) != len(x) or x[1] != groups * w[1] or w[0] % groups or w_dtype != dtype:
        raise ValueError(
            f"w must be (o, {x[1]} / groups, *kernel) of {dtype}, o a multiple of {groups} groups, not {w} of {w_dtype}"
        )
    windows = _windows(w[2:], given)
    spatial = _outputs(windows, x[2:])
    names = [f"y{k}" for k in range(len(spatial))]
    kernel = [Row(-1, 0, 0, size) for size in w[2:]]
    if groups == 1:
        sizes = {"n": x[0], "o": w[0], **dict(zip(names, spatial, strict=True)), "c": x[1]}
        at = list(sizes).index
        x_channels, w_channels, out = Row(at("c"), 1, 0, 1), Row(at("c"), 1, 0, 1), Row(at("o"), 1, 0, 1)
    else:
        sizes = {"n": x[0], "g": groups, **dict(zip(names, spatial, strict=True))}
        at = list(sizes).index
        x_channels, w_channels = Row(at("g"), w[1], 0, w[1]), Row(-1, 0, 0, w[1])
        out = Row(at("g"), w[0] // groups, 0, w[0] // groups)
    dims = tuple(IndexDim(name, size, "sum" if name == "c" else PARALLEL) for name, size in sizes.items())
    taps = [Row(at(name), *window.row) for name, window in zip(names, windows, strict=True)]
    read = [Row(at("n"), 1, 0, 1), x_channels, *taps]
    written = [Row(at("n"), 1, 0, 1), out, *(Row(at(name), 1, 0, 1) for name in names)]
    parts = [projection(rows, len(dims)) for rows in (read, [out, w_channels, *kernel], written)]
    return Inferred(
        Signature(dims, tuple(parts[:2]), (parts[2],)), (TensorType((x[0], w[0], *spatial), dtype),)
    )


def _padded(
    xp: ArrayNamespace,
    operand: Operand,
    windows: Sequence[SpatialWindow],
    index: ZRange,
    fill: Any,
) -> Array:
    """Return the operand with the padding that the windows in `index` read beyond the tensor."""
    spatial = zip(windows, index.start, index.shape, operand.start[2:], strict=True)
    first, shape = [0, 0], list(operand.array.shape[:2])
    for w, start, count, begin in spatial:
        first.append(begin - w.stride * start + w.low)
        shape.append(w.stride * (count - 1) + w.extent)
    return xp.pad_to(operand.array, shape, first, fill)


def _spatial(index: ZRange, first: int, rank: int) -> ZRange:
    """Return the ranges of the windows' positions, which begin at dimension `first`."""
    return ZRange(index.start[first : first + rank], index.end[first : first + rank])


def _evaluate_conv(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    signature, kernel = definition.signature, operands[1].array
    assert signature is not None
    windows = _windows(kernel.shape[2:], dict(definition.attributes))
    x = _padded(xp, operands[0], windows, _spatial(index, signature.position("y0"), len(windows)), 0)
    groups = 1 if definition["groups"] == 1 else index.shape[signature.position("g")]
    return (xp.convolve(x, kernel, definition["strides"], definition["dilations"], groups),)


def _work_conv(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    taps = math.prod(inputs[1].shape[2:])
    spatial = {f"y{k}": "m" for k in range(len(inputs[1].shape) - 2)}
    if definition["groups"] == 1:
        roles = {"n": "m", **spatial, "o": "n", "c": "k"}
        return Work("contraction", 2.0 * taps, roles, k_factor=taps, kernel="convolution")
    # A point is one group: its output channels, each a sum over its input channels and taps.
    out, channels = inputs[1].shape[0] // definition["groups"], inputs[1].shape[1]
    roles = {"n": "m", **spatial, "g": "batch"}
    flops = 2.0 * taps * channels * out
    factors = {"n_factor": out, "k_factor": taps * channels}
    return Work("contraction", flops, roles, **factors, kernel="grouped_convolution")


def _infer_pool(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("kind", "kernel", "strides", "pads", "dilations"), ("count_include_pad", "size"))
    expect_inputs(inputs, ("x",))
    _check_image(inputs[0], "x")
    x, dtype = inputs[0]
    if given["kind"] not in ("max", "average"):
        raise ValueError(f"attribute 'kind' must be 'max' or 'average', not {given['kind']!r}")
    if given["kind"] == "average" and not is_float(dtype):
        raise ValueError(f"an average needs a float type, not {dtype}")
    if given["kind"] == "average" and not given.get("count_include_pad", False) and "size" not in given:
        raise ValueError(
            "an average that leaves padding out needs attribute 'size', the spatial size of its input"
        )
    if given.get("size", x[2:]) != x[2:]:
        raise ValueError(
            f"attribute 'size' must be the spatial size {x[2:]} of the input, not {given['size']!r}"
        )
    windows = _windows(integers(given["kernel"], "kernel", len(x) - 2, least=1), given)
    spatial = _outputs(windows, x[2:])
    dims = (
        IndexDim("n", x[0]),
        IndexDim("c", x[1]),
        *(IndexDim(f"y{k}", size) for k, size in enumerate(spatial)),
    )
    taps = [Row(2 + k, *window.row) for k, window in enumerate(windows)]
    read = projection([Row(0, 1, 0, 1), Row(1, 1, 0, 1), *taps], len(dims))
    written = projection([Row(k, 1, 0, 1) for k in range(len(dims))], len(dims))
    return Inferred(Signature(dims, (read,), (written,)), (TensorType((*x[:2], *spatial), dtype),))


def _evaluate_pool(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    dtype, maximum = xp.dtype_of(operands[0].array), definition["kind"] == "max"
    kernel, strides, dilations = (definition[name] for name in ("kernel", "strides", "dilations"))
    windows, spatial = _windows(kernel, dict(definition.attributes)), _spatial(index, 2, len(kernel))
    x = _padded(xp, operands[0], windows, spatial, identity("max", dtype) if maximum else 0)
    if maximum:
        return (xp.reduce_windows("max", x, kernel, strides, dilations),)
    wide = accumulation(dtype)
    total = xp.reduce_windows("sum", xp.cast(x, wide), kernel, strides, dilations)
    for k, (window, start, end) in enumerate(zip(windows, spatial.start, spatial.end, strict=True)):
        taps = xp.cast(_counted_taps(xp, definition, k, window, xp.arange(start, end)), wide)
        total = total / xp.reshape(taps, (end - start, *(1,) * (len(windows) - 1 - k)))
    return (xp.cast(total, dtype),)


def _counted_taps(
    xp: ArrayNamespace, definition: Definition, axis: int, w: SpatialWindow, positions: Array
) -> Array:
    """Count the taps of each output position along one dimension that an average divides by."""
    if "size" not in dict(definition.attributes):
        return xp.full(positions.shape, w.kernel, "int64")
    included = definition.get("count_include_pad", False)
    low, high = (-w.low, w.high) if included else (0, 0)
    taps = xp.expand_dims(positions * w.stride - w.low, (1,)) + xp.arange(0, w.kernel) * w.dilation
    return xp.sum((taps >= low) & (taps < definition["size"][axis] + high), (1,), "int64")


def _work_pool(definition: Definition, _: Sequence[TensorType], __: Sequence[TensorType]) -> Work:
    return Work("vector", float(math.prod(definition["kernel"])), kernel=f"{definition['kind']}_pooling")


def _conv(x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", **given: Any) -> OperatorExample:
    rank = len(x) - 2
    defaults = {"strides": (1,) * rank, "pads": (0,) * 2 * rank, "dilations": (1,) * rank, "groups": 1}
    return OperatorExample(attributes(**{**defaults, **given}), (TensorType(x, dtype), TensorType(w, dtype)))


def _pool(kind: str, x: tuple[int, ...], dtype: str = "float32", **given: Any) -> OperatorExample:
    rank = len(x) - 2
    defaults = {"kind": kind, "strides": (1,) * rank, "pads": (0,) * 2 * rank, "dilations": (1,) * rank}
    return OperatorExample(attributes(**{**defaults, **given}), (TensorType(x, dtype),))


CONV = Operator(
    name="conv",
    infer=_infer_conv,
    evaluate=_evaluate_conv,
    work=_work_conv,
    examples=(
        _conv((2, 3, 7, 9), (4, 3, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
        _conv((2, 4, 5, 5), (3, 4, 1, 1)),
        _conv((1, 4, 9), (6, 2, 3), pads=(2, 2), dilations=(2,), groups=2),
        _conv((1, 3, 6, 6), (3, 1, 3, 3), pads=(1, 1, 1, 1), groups=3),
        _conv((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), dtype="float64", pads=(0, 1, 1, 1, 1, 0)),
        _conv((2, 2, 6, 6), (4, 2, 3, 3), dtype="bfloat16", pads=(3, 3, 3, 3), strides=(3, 3)),
    ),
)

POOL = Operator(
    name="pool",
    infer=_infer_pool,
    evaluate=_evaluate_pool,
    work=_work_pool,
    examples=(
        _pool("max", (2, 3, 7, 9), kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
        _pool("max", (1, 2, 8), dtype="int32", kernel=(3,), dilations=(2,), pads=(2, 2)),
        _pool("average", (2, 3, 6, 6), kernel=(2, 2), strides=(2, 2), count_include_pad=True),
        _pool("average", (1, 2, 7, 7), kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), size=(7, 7)),
        _pool("average", (1, 2, 5, 5), kernel=(3, 3), pads=(1, 0, 1, 0), count_include_pad=True, size=(5, 5)),
    ),
)

WINDOWS: tuple[Operator, ...] = (CONV, POOL)
