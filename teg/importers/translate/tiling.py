"""Blocks of elements repeated or exchanged between dimensions: reshapes around a permutation or a broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from teg.importers.failure import ImportFailure
from teg.importers.onnx_reader import Node
from teg.importers.translate.translation import Translation, Translator, plain_labels


def _tile(t: Translation, node: Node) -> None:
    """Repetition of the whole is a broadcast of new outer factors."""
    shape = t.value(node.inputs[0]).shape
    repeats = t.integers(node, 1, "repeats") or ()
    _repeat(t, node, [n for pair in zip(repeats, shape, strict=True) for n in pair], inner=False)


def _repeat(t: Translation, node: Node, wide: Sequence[int], inner: bool) -> None:
    """Each dimension gets a broadcast factor before it (or after it: `inner`) and is joined with it."""
    labels = plain_labels(len(wide) // 2)
    target = tuple(n for label in labels for n in ((label, "") if inner else ("", label)))
    output = node.outputs[0]
    opened = t.relabel(f"{node.name}.repeat", node.inputs[0], f"{output}.repeat", labels, target, wide)
    t.reshape(node.name, opened, output, [a * b for a, b in zip(wide[::2], wide[1::2], strict=True)])


def _resize(t: Translation, node: Node) -> None:
    """Nearest neighbours at a whole multiple of the size: every element is repeated in place."""
    value = t.value(node.inputs[0])
    nearest = node.get("mode", "nearest") == "nearest"
    given = (
        node.get("coordinate_transformation_mode", "half_pixel"),
        node.get("nearest_mode", "round_prefer_floor"),
    )
    plain = node.op == "Upsample" or given in (
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("asymmetric", "floor"),
    )
    upsample = node.op == "Upsample"
    axes = tuple(node.get("axes") or range(len(value.shape)))
    found = t.constant(node, 1 if upsample else 2, "scales")
    factors = [1.0] * len(value.shape)
    if found is not None and found.size:
        given_factors = [float(s) for s in found.reshape(-1)]
    else:
        sizes = t.constant(node, 3, "sizes")
        given_factors = (
            [] if sizes is None else [int(n) / value.shape[a] for a, n in zip(axes, sizes, strict=True)]
        )
    for axis, factor in zip(axes, given_factors, strict=True):
        factors[axis] = factor
    if not (nearest and plain and all(f >= 1 and f.is_integer() for f in factors)):
        raise ImportFailure(
            f"{node.where} is supported only to nearest neighbours and by whole factors, not {factors}"
        )
    _repeat(t, node, [n for s, f in zip(value.shape, factors, strict=True) for n in (s, int(f))], inner=True)


def _exchange(t: Translation, node: Node, split: dict[str, int], target: str, shape: Sequence[int]) -> None:
    """Split dimensions, permute them, and join them again."""
    output = node.outputs[0]
    opened = t.reshape(f"{node.name}.split", node.inputs[0], f"{output}.split", tuple(split.values()))
    sizes = [split[d] for d in target]
    turned = t.relabel(f"{node.name}.turn", opened, f"{output}.turn", tuple(split), tuple(target), sizes)
    t.reshape(node.name, turned, output, shape)


def _depth_to_space(t: Translation, node: Node) -> None:
    b = int(node.get("blocksize"))
    n, c, h, w = t.value(node.inputs[0]).shape
    inner = c // b**2
    blocks_first = node.get("mode", "DCR") == "DCR"
    channels = {"p": b, "q": b, "c": inner} if blocks_first else {"c": inner, "p": b, "q": b}
    _exchange(t, node, {"n": n, **channels, "h": h, "w": w}, "nchpwq", (n, inner, h * b, w * b))


def _space_to_depth(t: Translation, node: Node) -> None:
    b = int(node.get("blocksize"))
    n, c, h, w = t.value(node.inputs[0]).shape
    target = "npqchw" if node.get("mode", "DCR") == "DCR" else "ncpqhw"
    split = {"n": n, "c": c, "h": h // b, "p": b, "w": w // b, "q": b}
    _exchange(t, node, split, target, (n, c * b**2, h // b, w // b))


TILING: tuple[Translator, ...] = (
    Translator(("Tile",), _tile),
    Translator(("Resize", "Upsample"), _resize),
    Translator(("DepthToSpace",), _depth_to_space),
    Translator(("SpaceToDepth",), _space_to_depth),
)
