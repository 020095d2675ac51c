"""A plan in which tensors of every element type take part in every kind of collective."""

from __future__ import annotations

import numpy as np

from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.exporters.spmd.array_text import DTYPES
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.spmd.models import Arrays

SHAPE, ROWS = (8, 4), ("row", "column")


def typed_collectives(mesh_shape: MeshShape) -> tuple[ExplicitGraph, Arrays, Arrays]:
    """Build the plan: rows are gathered, exchanged for columns, and added up, evenly and not; with values for it."""
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    even, uneven = Split(axes), Split(axes, 3)
    build = GraphBuilder("types")
    blocks: dict[str, Placement] = {}
    arrays: dict[str, np.ndarray] = {}
    outputs: dict[str, np.ndarray] = {}

    def place(site: str, *splits: Split) -> None:
        blocks[site] = Placement(Strategy(splits))

    for dtype in DTYPES:
        for form, splits in (
            ("gathered", (WHOLE, WHOLE)),
            ("columns", (WHOLE, even)),
            ("uneven", (WHOLE, uneven)),
        ):
            name, site = f"{dtype} rows {form}", f"{dtype} {form}"
            x = build.source(name, SHAPE, dtype)
            place(name, even, WHOLE)
            labels, dims = (ROWS,), tuple(zip(ROWS, SHAPE, strict=True))
            (y,) = build.apply(
                "cell", [x], site=site, expr=("input", 0), labels=labels, dims=dims, dtype=dtype
            )
            build.sink(y, site=f"{site}.out")
            arrays[name] = outputs[f"{site}.out"] = _values(dtype)
            for placed in (site, f"{site}.out"):
                place(placed, *splits)
        for form, split in (("everywhere", WHOLE), ("scattered", even), ("in parts", uneven)):
            name, site = f"{dtype} terms {form}", f"{dtype} added {form}"
            x = build.source(name, SHAPE, dtype)
            place(name, even, WHOLE)
            monoid, total = ("any", np.any) if dtype == "bool" else ("sum", np.sum)
            (y,) = build.apply(
                "reduce", [x], site=site, monoid=monoid, labels=ROWS, output=("column",), keep=()
            )
            place(site, WHOLE, even)
            build.sink(y, site=f"{site}.out")
            place(f"{site}.out", split)
            arrays[name] = _values(dtype)
            outputs[f"{site}.out"] = np.asarray(total(arrays[name], axis=0), numpy_dtype(dtype))
    return expand(build.build(), Placements(blocks), mesh_shape), arrays, outputs


def _values(dtype: str) -> np.ndarray:
    """Return small whole numbers, whose sums are exact in every type."""
    numbers = np.arange(32).reshape(SHAPE) % 5
    return np.asarray(numbers + 1j * (numbers % 3) if dtype.startswith("complex") else numbers).astype(
        numpy_dtype(dtype)
    )
