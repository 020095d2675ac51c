"""Reader of tensors with a `metal_layout` over a grid of devices, as `hardware.layouts.table_layouts` writes them.

A comment before each tensor has its name and the axes of the mesh over which the grid runs; the layout has the grid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from math import prod

from tapestry.teg.importers.shardings.stated import (
    ShardingError,
    StatedSharding,
    StatedShardings,
    axes_of,
)
from tapestry.teg.sharding.spec import WHOLE, Split

LAYOUT = "metal_layout<"
MESH = re.compile(r"// mesh of (.*)")
AXIS = re.compile(r"([^\s=,]+)=([1-9]\d*)")
TENSOR = re.compile(r"// (.*): \w+\[([\d, ]*)\] over \[(.*)\]")
GRID = re.compile(r"tensor<((?:\d+x)*)[^,]*, #(?:tt|ttcore)\.metal_layout<[^>]*-> \([^)]*\), \w+, <([\dx]+)>")


def from_metal_layouts(text: str) -> StatedShardings:
    """Read the shardings of tensors with a `metal_layout`.

    Raises:
        ShardingError: no mesh, no tensors, or a grid that the named axes do not make; says in which line.
    """
    lines = text.splitlines()
    stated = next((found for line in lines if (found := MESH.fullmatch(line.strip()))), None)
    axes = {name: int(size) for name, size in AXIS.findall(stated[1])} if stated else {}
    if not axes:
        raise ShardingError("the text must state the mesh: // mesh of x=2, y=4")
    faults: list[str] = []
    tensors = []
    for number, (comment, layout) in enumerate(pairwise(line.strip() for line in lines), start=2):
        described = TENSOR.fullmatch(comment)
        if described is None:
            continue
        over = [own.split("*") if own != "-" else [] for own in described[3].split(", ") if own]
        if reason := _fault(axes, described[2], over, layout):
            faults.append(f"line {number}: {described[1]}: {reason}")
            continue
        tensors.append(
            StatedSharding(described[1], tuple(Split(tuple(own)) if own else WHOLE for own in over))
        )
    if not tensors and not faults:
        raise ShardingError(
            "the text states no tensor: // x: float32[8, 16] over [gpu, -], and its layout below"
        )
    if faults:
        raise ShardingError(*faults)
    return StatedShardings(axes_of(axes), tuple(tensors))


def _fault(axes: Mapping[str, int], shape: str, over: list[list[str]], layout: str) -> str:
    """Return why a layout is not that of a tensor over these axes, or nothing."""
    found = GRID.match(layout)
    if found is None:
        return f"expected a tensor with a metal_layout, not {layout[:80]!r}"
    if unknown := [axis for own in over for axis in own if axis not in axes]:
        return f"there is no axis {unknown[0]!r}; known are {', '.join(axes)}"
    if found[1].split("x")[:-1] != re.findall(r"\d+", shape):
        return f"the tensor below has another shape than [{shape}]"
    parts = [prod(axes[axis] for axis in own) for own in over]
    grid = [int(n) for n in found[2].split("x")]
    if [1] * (len(grid) - len(parts)) + parts != grid:
        return f"its grid is {found[2]}, and the axes split it {'x'.join(map(str, parts)) or 'not at all'}"
    return ""
