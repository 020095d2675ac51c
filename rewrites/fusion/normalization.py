"""Normalizations as one block: rows, and values computed from rows, are read once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.rewrites.cell_form import INPUT, MULTIPLY
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.fusion.fitting import estimated
from tapestry.rewrites.regions import all_above, fuse
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, op
from tapestry.teg.graph import Definition, Graph, TensorType

ROWS = all_above("cell", "view", ends=("reduce",), most=4, private=("cell",))


@dataclass(frozen=True, eq=False)
class ReadsRows:
    """An attribute pattern for a cell that reads one value per row, such as one to divide or shift the row."""

    def ways(self, definition: Definition, inputs: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """Return one match that binds nothing, or none."""
        widest = len(definition["dims"])
        return ({},) if any(len(set(names) - {""}) < widest for names in definition["labels"]) else ()


def _is_normalization(m: Match) -> bool:
    """Return whether whole rows are computed from statistics of rows, in parts that fit into fast memory."""
    widest = math.prod(m.result().shape)
    reductions = [b for b in m.blocks if b.operator == "reduce"]
    if any(math.prod(m.edited.tensors[b.outputs[0]].shape) >= widest for b in reductions):
        return False
    found = estimated(m)
    return found is not None and found.streams


def _example(size: ExampleSizes) -> Graph:
    """Build an example: an RMS normalization with its scale; the inverse root is read elsewhere too."""
    b = ExampleBuilder("fuse_normalisation")
    rows, columns = size(3, least=2), size(4, least=2)
    x, scale = b.tensor("x", rows, columns), b.tensor("scale", columns)
    squares = b.cell(("square", INPUT), {x: "rc"})
    mean = b.op("reduce", squares, monoid="sum", labels=("r", "c"), output=("r",))
    inverse = b.cell(("rsqrt", ("add", INPUT, ("const", 0.5))), {mean: "r"}, site="inverse")
    y = b.cell(("mul", MULTIPLY, ("input", 2)), {x: "rc", inverse: "r", scale: "c"})
    return b.result(y, inverse)


NORMALIZATION_FUSION: tuple[Rule, ...] = (
    Rule(
        name="fuse_normalisation",
        left=op("cell", ROWS, inside=ReadsRows()),
        right=fuse(),
        when=_is_normalization,
        doc="""
        A normalization that is spelled out becomes one block over rows.

        cell(x, cell(reduce(cell(x))))  ->  fused(x)
        However many statistics and cells there are, where a row fits into fast memory: layer, RMS and group
        normalizations, softmax, their gradients. Statistics that others read become further outputs. The same
        steps on the same numbers.
        """,
        source="persistent row kernels (Apex fused layer norm; Tillet et al., Triton, 2019)",
        example=_example,
    ),
)
