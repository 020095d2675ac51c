"""Blocks of elements repeated or exchanged between dimensions: reshapes around a permutation or a broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels


def _tile(t: Translation, node: OnnxNode) -> None:
    """Translate Tile as a broadcast of new outer factors, one before each dimension."""
    shape = t.value(node.inputs[0]).shape
    repeats = t.integers(node, 1, "repeats") or ()
    wide = [n for pair in zip(repeats, shape, strict=True) for n in pair]
    labels, output = plain_labels(len(shape)), node.outputs[0]
    target = tuple(n for label in labels for n in ("", label))
    opened = t.relabel(f"{node.name}.repeat", node.inputs[0], f"{output}.repeat", labels, target, wide)
    t.reshape(node.name, opened, output, [a * b for a, b in zip(wide[::2], wide[1::2], strict=True)])


def _exchange(
    t: Translation, node: OnnxNode, split: dict[str, int], target: str, shape: Sequence[int]
) -> None:
    """Split dimensions, permute them, and join them again."""
    output = node.outputs[0]
    opened = t.reshape(f"{node.name}.split", node.inputs[0], f"{output}.split", tuple(split.values()))
    sizes = [split[d] for d in target]
    turned = t.relabel(f"{node.name}.turn", opened, f"{output}.turn", tuple(split), tuple(target), sizes)
    t.reshape(node.name, turned, output, shape)


def _depth_to_space(t: Translation, node: OnnxNode) -> None:
    b = int(node.get("blocksize"))
    n, c, h, w = t.value(node.inputs[0]).shape
    inner = c // b**2
    blocks_first = node.get("mode", "DCR") == "DCR"
    channels = {"p": b, "q": b, "c": inner} if blocks_first else {"c": inner, "p": b, "q": b}
    _exchange(t, node, {"n": n, **channels, "h": h, "w": w}, "nchpwq", (n, inner, h * b, w * b))


def _space_to_depth(t: Translation, node: OnnxNode) -> None:
    b = int(node.get("blocksize"))
    n, c, h, w = t.value(node.inputs[0]).shape
    target = "npqchw" if node.get("mode", "DCR") == "DCR" else "ncpqhw"
    split = {"n": n, "c": c, "h": h // b, "p": b, "w": w // b, "q": b}
    _exchange(t, node, split, target, (n, c * b**2, h // b, w // b))


TILING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Tile",), _tile),
    OnnxTranslator(("DepthToSpace",), _depth_to_space),
    OnnxTranslator(("SpaceToDepth",), _space_to_depth),
)
