"""Resize and Upsample: one weight matrix per dimension, or copies of elements where neighbors are repeated.

Formulas as in ONNX's operator Resize, version 19, whose reference resizes one dimension after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.dtypes import HALF, is_float
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value, check_written
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed
from tapestry.teg.importers.translate.gathering import read_rows
from tapestry.teg.importers.translate.resampling import cubic_kernel, linear_kernel, multiplied
from tapestry.teg.importers.translate.translation import OnnxTranslator, normal_axis

DEFAULT_CUBIC = -0.75
# How far the kernels reach, in elements.
REACH = {"linear": 1, "cubic": 2}


class Line(NamedTuple):
    """The resizing of one dimension: its size, the new size, the factor, and the part (in [0, 1]) that is read."""

    axis: int
    size: int
    out: int
    scale: float
    start: float
    end: float

    @property
    def stays(self) -> bool:
        """True if every element keeps its position."""
        whole = math.isclose(self.start, 0) and math.isclose(self.end, 1)
        return math.isclose(self.scale, 1) and self.out == self.size and whole


def _places(line: Line, transformation: str) -> np.ndarray:
    """Compute each output element's position among the input's; `width` is the exact size that the factor gives."""
    check_written(line.out)
    width, at = line.scale * line.size, np.arange(line.out, dtype=np.float64)
    half = (at + 0.5) / line.scale - 0.5
    if transformation == "half_pixel":
        return half
    if transformation == "pytorch_half_pixel":
        return np.full(line.out, -0.5) if width == 1 else half
    if transformation == "half_pixel_symmetric":
        return half + line.size / 2 * (1 - line.out / width)
    if transformation == "tf_half_pixel_for_nn":
        return half + 0.5
    if transformation == "asymmetric":
        return at / line.scale
    if transformation == "align_corners":
        return np.zeros(line.out) if width == 1 else at * (line.size - 1) / (width - 1)
    if transformation == "tf_crop_and_resize":
        span = (line.end - line.start) * (line.size - 1)
        return line.start * (line.size - 1) + (
            np.full(line.out, span / 2) if width == 1 else at * span / (width - 1)
        )
    raise ImportFailure(f"Resize knows no coordinate transformation {transformation!r}")


def _nearest(places: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Round each position to the index of the element that it takes."""
    shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5, "floor": 0.0, "ceil": 0.0}[mode]
    up = mode in ("round_prefer_floor", "ceil")
    rounded = np.ceil(places + shift) if up else np.floor(places + shift)
    return np.asarray(np.clip(rounded, 0, size - 1).astype(np.int64))


def _weights(places: np.ndarray, line: Line, settings: Mapping[str, Any]) -> np.ndarray:
    """Build the weight matrix `(out, size)`; taps beyond the border read the border or count nothing."""
    mode = settings["mode"]
    kernel = cubic_kernel(settings["cubic_coeff_a"]) if mode == "cubic" else linear_kernel
    narrow = min(line.scale, 1.0) if settings["antialias"] else 1.0
    reach = math.ceil(REACH[mode] / narrow)
    check_written(line.out * max(line.size, 2 * reach + 2))
    taps = np.floor(places).astype(int)[:, None] + np.arange(-reach, reach + 2)
    weights = kernel((taps - places[:, None]) * narrow)
    if settings["antialias"]:
        weights /= weights.sum(axis=1, keepdims=True)
    if settings["exclude_outside"]:
        weights = np.where((taps >= 0) & (taps < line.size), weights, 0)
        total = weights.sum(axis=1, keepdims=True)
        weights /= np.where(total == 0, 1, total)
    matrix = np.zeros((line.out, line.size))
    np.add.at(matrix, (np.arange(line.out)[:, None], np.clip(taps, 0, line.size - 1)), weights)
    return matrix


def _settings(node: OnnxNode) -> dict[str, Any]:
    """Return the node's attributes, with defaults for those that it or its operator version lacks."""
    return {
        "mode": node.get("mode", "nearest"),
        "transformation": node.get("coordinate_transformation_mode", "half_pixel"),
        "nearest": node.get("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": float(node.get("cubic_coeff_a", DEFAULT_CUBIC)),
        "exclude_outside": bool(node.get("exclude_outside", 0)),
        "antialias": bool(node.get("antialias", 0)),
        "fill": float(node.get("extrapolation_value", 0.0)),
    }


def _resized(b: Builder, x: Value, lines: Sequence[Line], settings: Mapping[str, Any]) -> Value:
    """Resize one dimension after the other, then fill what was read from outside."""
    crops = settings["transformation"] == "tf_crop_and_resize"
    changing = [line for line in lines if not line.stays]
    if any(line.size == 0 or line.out == 0 for line in lines):
        raise b.refuse("has a dimension without elements")
    dtype, nearest = x.dtype, settings["mode"] == "nearest"
    if not nearest and not is_float(dtype):
        raise b.refuse(f"interpolates {dtype}, which is supported for floating-point types only")
    value = x if nearest or dtype not in HALF else b.cast(x, "float32")
    outside: list[tuple[int, np.ndarray]] = []
    for line in changing:
        places = _places(line, settings["transformation"])
        beyond = (places < 0) | (places > line.size - 1)
        if crops and beyond.any():
            outside.append((line.axis, beyond))
        if nearest:
            value = _copied(b, value, line.axis, _nearest(places, line.size, settings["nearest"]))
        else:
            value = multiplied(b, value, line.axis, _weights(places, line, settings))
    return _filled(b, b.cast(value, dtype), outside, settings["fill"])


def _copied(b: Builder, x: Value, axis: int, places: np.ndarray) -> Value:
    """Read the elements at `places`; where each is repeated as often as the others, this is a broadcast."""
    size, (times, rest) = x.shape[axis], divmod(len(places), x.shape[axis])
    if times > 1 and not rest and np.array_equal(places, np.arange(len(places)) // times):
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        wide = b.expand(b.unsqueeze(x, axis + 1), (*before, size, times, *after))
        return b.reshape(wide, (*before, size * times, *after))
    rows, output = b.literal(places), b.fresh()
    return b.value(read_rows(b.translation, output, x.name, rows.name, output, axis))


def _filled(b: Builder, x: Value, outside: Sequence[tuple[int, np.ndarray]], fill: float) -> Value:
    """Put `fill` at the coordinates that are outside along any dimension."""
    for axis, beyond in outside:
        mask = b.literal(beyond.reshape([-1 if k == axis else 1 for k in range(len(x.shape))]))
        tree = ("where", ("input", 0), ("cast", x.dtype, ("const", fill)), ("input", 1))
        x = b.elements(tree, [mask, x], x.dtype)
    return x


def _resize(b: Builder, node: OnnxNode) -> Value:
    x, settings = b.value(node.inputs[0]), _settings(node)
    t, rank = b.translation, len(x.shape)
    axes = [normal_axis(node, int(a), rank) for a in node.get("axes") or range(rank)]
    if t.opset < 11:  # two inputs; the attributes of later versions had these values
        settings |= {"transformation": "asymmetric", "nearest": "floor"}
        return _resized(b, x, _by_scales(node, x, axes, t.constant(node, 1, "scales")), settings)
    roi = t.constant(node, 1, "region")
    parts = [0.0] * len(axes) + [1.0] * len(axes)
    if settings["transformation"] == "tf_crop_and_resize" and roi is not None and roi.size:
        parts = [float(v) for v in roi.reshape(-1)]
    sizes = t.constant(node, 3, "sizes")
    if sizes is not None and sizes.size:
        lines = _by_sizes(node, x, axes, [int(v) for v in sizes])
    else:
        lines = _by_scales(node, x, axes, t.constant(node, 2, "scales"))
    count = len(axes)
    return _resized(
        b, x, [v._replace(start=parts[k], end=parts[k + count]) for k, v in enumerate(lines)], settings
    )


def _by_scales(node: OnnxNode, x: Value, axes: Sequence[int], scales: Any) -> list[Line]:
    if scales is None or np.size(scales) != len(axes):
        raise ImportFailure(f"{node.where} needs {len(axes)} constant scales or sizes")
    factors = [float(s) for s in np.reshape(scales, -1)]
    return [Line(a, x.shape[a], int(s * x.shape[a]), s, 0, 1) for a, s in zip(axes, factors, strict=True)]


def _by_sizes(node: OnnxNode, x: Value, axes: Sequence[int], sizes: Sequence[int]) -> list[Line]:
    """Build the lines of the requested sizes, or of one factor for all dimensions that keeps the aspect ratio."""
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    factors = [n / max(x.shape[a], 1) for a, n in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        scale = min(factors) if policy == "not_larger" else max(factors)
        factors, sizes = [scale] * len(axes), [int(scale * x.shape[a] + 0.5) for a in axes]
    return [Line(a, x.shape[a], n, s, 0, 1) for a, n, s in zip(axes, sizes, factors, strict=True)]


def _upsample(b: Builder, node: OnnxNode) -> Value:
    """Translate Upsample, the name of Resize before version 10."""
    x = b.value(node.inputs[0])
    scales = node.get("scales") or b.translation.constant(node, 1, "scales")
    settings = _settings(node) | {"transformation": "asymmetric", "nearest": "floor"}
    settings["mode"] = {"bilinear": "linear"}.get(settings["mode"], settings["mode"])
    return _resized(b, x, _by_scales(node, x, range(len(x.shape)), scales), settings)


RESIZING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Resize",), composed(_resize)),
    OnnxTranslator(("Upsample",), composed(_upsample)),
)
