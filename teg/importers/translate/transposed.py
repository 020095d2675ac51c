"""Transposed convolution: a convolution of the elements spread by the strides, with the kernel flipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels
from tapestry.teg.importers.translate.windows import convolve


class TransposedGeometry(NamedTuple):
    """The geometry of one spatial dimension: taps, stride, dilation, elements cropped in front, and output size."""

    kernel: int
    stride: int
    dilation: int
    cut: int
    out: int

    @property
    def low(self) -> int:
        """The padding in front of the spread elements; negative where some of them are never read."""
        return self.dilation * (self.kernel - 1) - self.cut

    def high(self, size: int) -> int:
        """Compute the padding behind `size` spread elements."""
        return self.out - 1 + self.dilation * (self.kernel - 1) + 1 - size - self.low


def _geometry(
    node: OnnxNode, spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[TransposedGeometry, ...]:
    """Evaluate the equations of ONNX's ConvTranspose; a stated or automatic shape determines what is cropped."""
    rank = len(spatial)
    strides, dilations = (tuple(node.get(a) or (1,) * rank) for a in ("strides", "dilations"))
    extra, pads = tuple(node.get("output_padding") or (0,) * rank), node.get("pads") or (0,) * 2 * rank
    mode, stated = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    found = []
    for k, (size, taps, stride, dilation) in enumerate(zip(spatial, kernel, strides, dilations, strict=True)):
        full = stride * (size - 1) + extra[k] + (taps - 1) * dilation + 1
        cut, out = int(pads[k]), full - int(pads[k]) - int(pads[rank + k])
        if stated or mode.startswith("SAME"):
            out = int(stated[len(stated) - rank + k]) if stated else size * stride
            half = (full - out) // 2
            cut = half if mode == "SAME_UPPER" else full - out - half
        elif mode == "VALID":
            cut, out = 0, full
        if out < 1:
            raise ImportFailure(f"{node.where}: nothing is left of {list(spatial)} with {list(kernel)}")
        found.append(TransposedGeometry(int(taps), int(stride), int(dilation), cut, out))
    return tuple(found)


def set_apart(t: Translation, site: str, name: str, output: str, axis: int, factor: int) -> str:
    """Insert zeros between the elements along `axis`; the last one stays the last."""
    if factor == 1:
        return t.resolve(name)
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    target = tuple("wide" if k == axis else d for k, d in enumerate(labels))
    shape = list(value.shape)
    shape[axis] *= factor
    spread = t.declare(f"{output}.spread", shape, value.dtype)
    attributes = {"axis": labels[axis], "factor": factor}
    whole = frozenset((labels[axis], "wide"))
    t.emit(Compute(site, "dilate", (value.name,), spread, (labels,), target, attributes, whole))
    shape[axis] -= factor - 1
    return t.slice(site, spread, output, [range(s) for s in shape])


def _turned(t: Translation, node: OnnxNode, groups: int) -> str:
    """Convert the kernel `(c, o / groups, *taps)` to a convolution's, `(o, c / groups, *taps)`, with flipped taps."""
    weight, output, site = t.value(node.inputs[1]), node.outputs[0], node.name
    rows, columns, *taps = weight.shape
    ranges = [range(rows), range(columns), *(range(s)[::-1] for s in taps)]
    turned = t.slice(f"{site}.turn", weight.name, f"{output}.turned", ranges)
    opened = t.reshape(f"{site}.groups", turned, f"{output}.groups", (groups, rows // groups, columns, *taps))
    labels = plain_labels(3 + len(taps))
    target = (labels[0], labels[2], labels[1], *labels[3:])
    sizes = (groups, columns, rows // groups, *taps)
    exchanged = t.relabel(f"{site}.exchange", opened, f"{output}.exchanged", labels, target, sizes)
    return t.reshape(f"{site}.kernel", exchanged, f"{output}.kernel", (groups * columns, *sizes[2:]))


def _conv_transpose(t: Translation, node: OnnxNode) -> None:
    value, weight = t.value(node.inputs[0]), t.value(node.inputs[1])
    groups, output = int(node.get("group", 1)), node.outputs[0]
    if len(weight.shape) != len(value.shape) or weight.shape[0] != value.shape[1] or value.shape[1] % groups:
        raise ImportFailure(
            f"{node.where}: weights {list(weight.shape)} in {groups} groups do not fit {list(value.shape)}"
        )
    spreads = _geometry(node, value.shape[2:], weight.shape[2:])
    name = value.name
    for k, s in enumerate(spreads):
        name = set_apart(t, f"{node.name}.apart{k}", name, f"{output}.apart{k}", 2 + k, s.stride)
    shape = t.value(name).shape
    ranges = [range(max(-s.low, 0), n) for s, n in zip(spreads, shape[2:], strict=True)]
    name = t.slice(f"{node.name}.front", name, f"{output}.front", [*map(range, shape[:2]), *ranges])
    low = [max(s.low, 0) for s in spreads]
    high = [s.high(n) for s, n in zip(spreads, shape[2:], strict=True)]
    attributes = {"pads": (*low, *high), "dilations": tuple(s.dilation for s in spreads), "group": groups}
    inputs = (name, _turned(t, node, groups), *node.inputs[2:])
    convolve(t, replace(node, inputs=inputs, attributes=attributes))


TRANSPOSED: tuple[OnnxTranslator, ...] = (OnnxTranslator(("ConvTranspose",), _conv_transpose),)
