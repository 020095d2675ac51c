"""Convolutions, transposed ones and their gradients, all as convolutions of dilated, reversed or permuted tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.operators.windows import WindowGeometry

Ints = Sequence[int]


def spread(given: Any, rank: int) -> list[int]:
    """Expand one number to all spatial dimensions, or return one for each as given."""
    listed = [given] if isinstance(given, int) else list(given)
    return listed * rank if len(listed) == 1 else listed


def convolve(
    t: Tracer, x: Value, w: Value, stride: Ints, low: Ints, out: Ints, dilation: Ints, groups: int
) -> Value:
    """Convolve with `out` windows per spatial dimension.

    Elements that they read beyond the tensor are padding; elements that they do not read are cropped.
    """
    rank = len(x.shape) - 2
    kernel = w.shape[2:]
    front = [max(-a, 0) for a in low]
    x = t.slice(
        x, [*(range(s) for s in x.shape[:2]), *(range(c, s) for c, s in zip(front, x.shape[2:], strict=True))]
    )
    low = [max(a, 0) for a in low]
    geometry = WindowGeometry(*map(tuple, (kernel, stride, dilation, low, (0,) * rank, out)))
    kept, geometry = geometry.cropped(x.shape[2:])
    x = t.slice(x, [range(n) for n in (*x.shape[:2], *kept)])
    read, written, taps = (tuple(f"{c}{k}" for k in range(rank)) for c in "xyt")
    labels = (("n", "c", *read), ("o", "c" if groups == 1 else "cg", *taps))
    target = ("n", "o", *written)
    attributes = {**geometry.attributes, "groups": groups}
    sizes = dict(zip(written, out, strict=True))
    whole = frozenset((*labels[0], *labels[1], *target))
    return t.compute("conv", [x, w], labels, target, x.dtype, attributes, whole, sizes)


def _biased(t: Tracer, value: Value, bias: Value | None) -> Value:
    if bias is None:
        return value
    vector = t.reshape(bias, (bias.shape[0], *(1,) * (len(value.shape) - 2)))
    return t.cells(lambda a, b: a + b, value, vector, dtype=value.dtype)


def _transposed(
    t: Tracer, x: Value, w: Value, stride: Ints, padding: Ints, dilation: Ints, out: Ints, groups: int
) -> Value:
    """Compute a transposed convolution: dilate the elements by the stride, then convolve with the reversed kernel."""
    for k, s in enumerate(stride):
        x = t.dilate(x, 2 + k, s)
    turned = t.slice(w, [*(range(s) for s in w.shape[:2]), *(range(s)[::-1] for s in w.shape[2:])])
    kernel = _exchanged(t, turned, groups)
    low = [d * (k - 1) - p for d, k, p in zip(dilation, w.shape[2:], padding, strict=True)]
    ones = [1] * len(stride)
    return convolve(t, x, kernel, ones, low, out, dilation, groups)


def _exchanged(t: Tracer, w: Value, groups: int) -> Value:
    """Exchange input and output channels, group by group."""
    rows, columns, *taps = w.shape
    rest = range(3, 3 + len(taps))
    opened = t.permute(t.reshape(w, (groups, rows // groups, columns, *taps)), [0, 2, 1, *rest])
    return t.reshape(opened, (groups * columns, rows // groups, *taps))


def _convolution(
    t: Tracer,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> Value:
    rank = len(input.shape) - 2
    stride, padding, dilation = (spread(g, rank) for g in (stride, padding, dilation))
    run = _transposed if transposed else convolve
    out = t.shape[2:]
    return _biased(
        t, run(t, input, weight, stride, padding, *_order(dilation, out, transposed), groups), bias
    )


def _order(dilation: Ints, out: Ints, transposed: bool) -> tuple[Ints, Ints]:
    return (dilation, out) if transposed else (out, dilation)


def _composite(rank: int) -> Any:
    def convolution(
        t: Tracer,
        input: Value,
        weight: Value,
        bias: Value | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Value:
        """Translate torch's `conv1d` to `conv3d`; padding may be `same` or `valid`; a single image has no batch."""
        alone = len(input.shape) == rank + 1
        x = t.unsqueeze(input, 0) if alone else input
        strides, dilations = spread(stride, rank), spread(dilation, rank)
        if isinstance(padding, str):
            extents = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
            low = [e // 2 if padding == "same" else 0 for e in extents]
        else:
            low = spread(padding, rank)
        out = t.shape[-rank:]
        found = _biased(t, convolve(t, x, weight, strides, low, out, dilations, groups), bias)
        return t.squeeze(found, 0) if alone else found

    return convolution


def _composite_transposed(rank: int) -> Any:
    def convolution(
        t: Tracer,
        input: Value,
        weight: Value,
        bias: Value | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Value:
        """Translate torch's `conv_transpose1d` to `conv_transpose3d`."""
        alone = len(input.shape) == rank + 1
        x = t.unsqueeze(input, 0) if alone else input
        strides, low, dilations = (spread(g, rank) for g in (stride, padding, dilation))
        out = t.shape[-rank:]
        found = _biased(t, _transposed(t, x, weight, strides, low, dilations, out, groups), bias)
        return t.squeeze(found, 0) if alone else found

    return convolution


def _backward(
    t: Tracer,
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Compute the gradients of the input, of the weight, and of the bias; None where `output_mask` is False."""
    rank = len(input.shape) - 2
    stride, padding, dilation = (spread(g, rank) for g in (stride, padding, dilation))
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        spatial = input.shape[2:]
        if transposed:
            results[0] = convolve(t, grad_output, weight, stride, padding, spatial, dilation, groups)
        else:
            results[0] = _transposed(t, grad_output, weight, stride, padding, dilation, spatial, groups)
    if output_mask[1]:
        pair = (grad_output, input) if transposed else (input, grad_output)
        results[1] = _weight_gradient(t, *pair, weight, stride, padding, dilation, groups)
    if output_mask[2]:
        results[2] = t.reduce(grad_output, [0, *range(2, rank + 2)])
    return tuple(results)


def _weight_gradient(
    t: Tracer, x: Value, g: Value, weight: Value, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Value:
    """Compute the weight's gradient: `x`, which is slid over, convolved with `g` of the output.

    The batch is summed like channels are.
    """
    n, channels, *spatial = x.shape
    rest = range(3, 3 + len(spatial))
    opened = t.permute(t.reshape(x, (n, groups, channels // groups, *spatial)), [2, 1, 0, *rest])
    slid = t.reshape(opened, (channels // groups, groups * n, *spatial))
    kernel = t.permute(g, [1, 0, *range(2, len(g.shape))])
    found = convolve(t, slid, kernel, dilation, padding, weight.shape[2:], stride, groups)
    return t.permute(found, [1, 0, *range(2, len(weight.shape))])


CONVOLUTION: tuple[TorchOperator, ...] = (
    TorchOperator(aten("convolution"), _convolution),
    *(TorchOperator(aten(f"conv{n}d", f"conv{n}d.padding"), _composite(n)) for n in (1, 2, 3)),
    TorchOperator(aten("conv_transpose1d"), _composite_transposed(1)),
    TorchOperator(aten("conv_transpose2d.input"), _composite_transposed(2)),
    TorchOperator(aten("conv_transpose3d.input"), _composite_transposed(3)),
    TorchOperator(aten("convolution_backward"), _backward),
)
