"""ONNX operators written as functions of values, with the builder that other front ends use too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.translation import Translation

Results = Value | Sequence[Value | None]


def composed(build: Callable[[Builder, OnnxNode], Results]) -> Callable[[Translation, OnnxNode], None]:
    """Build a translator from a function that returns the node's results, None for those that it cannot produce."""

    def translate(t: Translation, node: OnnxNode) -> None:
        b = Builder(t)
        b.enter(node.name, node.where)
        found = build(b, node)
        results = [found] if isinstance(found, Value) else list(found)
        for name, result in zip(node.outputs, results, strict=False):
            if name and result is not None:
                b.finish(result, name, node.name)

    return translate


def operand(b: Builder, node: OnnxNode, position: int) -> Value:
    """Return a required input.

    Raises:
        ImportFailure: the input is left out.
    """
    found = optional_operand(b, node, position)
    if found is None:
        raise ImportFailure(f"{node.where} needs its input {position}")
    return found


def optional_operand(b: Builder, node: OnnxNode, position: int) -> Value | None:
    """Return an input, or None where it is left out."""
    given = position < len(node.inputs) and node.inputs[position]
    return b.value(node.inputs[position]) if given else None
