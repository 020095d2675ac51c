"""Specs as texts: per dimension its size, or how it is split; repeated ones are named at the top of a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from tapestry.teg.exporters.spmd.per_rank import NumberTexts, axes_text
from tapestry.teg.sharding.copies import group_members
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, Split, boxes, chunk_bounds


@dataclass
class SpecTexts:
    """The specs that a program's exchanges name; `names` by their texts."""

    numbers: NumberTexts
    names: dict[str, str] = field(default_factory=dict)

    def text(self, spec: Spec, shape: Sequence[int]) -> str:
        """Return the name of a spec of a tensor of `shape`."""
        return self.names.setdefault(
            spec_text(spec, shape, self.numbers.mesh_shape), f"SPEC_{len(self.names)}"
        )


def spec_text(spec: Spec, shape: Sequence[int], mesh_shape: MeshShape) -> str:
    """Return a spec as a tuple: an integer for a whole dimension, `split(...)` and `window(...)` for others."""
    held = boxes(spec, tuple(shape), mesh_shape)
    return _tuple([_dimension(spec, k, size, held[:, k], mesh_shape) for k, size in enumerate(shape)])


def _dimension(spec: Spec, dim: int, size: int, spans: np.ndarray, mesh_shape: MeshShape) -> str:
    if (spans == spans[0]).all():
        start, stop = spans[0].tolist()
        return str(size) if (start, stop) == (0, size) else f"(({start}, {stop}),)"
    split, window = spec.dims[dim], spec.window(dim)
    count = size if window is None else window.count
    granule = f", granule={split.granule}" if split.granule != 1 else ""
    parts = f"split({count}, {axes_text(split.axes, mesh_shape)}{granule})"
    if window is None:
        return parts
    return f"window({parts}, {window.stride}, {window.offset}, {window.extent}, {window.low}, {window.high})"


def boxes_text(box: np.ndarray, shape: Sequence[int], mesh_shape: MeshShape) -> str:
    """Return boxes `(devices, rank, 2)` of a tensor of `shape` as a spec, found again from the parts."""
    return _tuple([_parts_text(box[:, k], size, mesh_shape) for k, size in enumerate(shape)])


def _parts_text(spans: np.ndarray, size: int, mesh_shape: MeshShape) -> str:
    if (spans == (0, size)).all():
        return str(size)
    chunk = int((spans[:, 1] - spans[:, 0]).max())
    names = [s.name for s in mesh_shape.sub_axes if _varies(spans, s.name, mesh_shape)]
    for axes in permutations(names):
        for granule in (1, chunk):
            if (chunk_bounds(size, Split(axes, granule), mesh_shape) == spans).all():
                return _dimension(Spec((Split(axes, granule),)), 0, size, spans, mesh_shape)
    return str(tuple(map(tuple, spans.tolist())))


def _tuple(dims: Sequence[str]) -> str:
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def _varies(spans: np.ndarray, name: str, mesh_shape: MeshShape) -> bool:
    members = group_members(mesh_shape, (name,))
    return bool((spans[members] != spans[:, None]).any())
