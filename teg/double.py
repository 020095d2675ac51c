"""Programs in double precision: what differs between two forms of one program is then no rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tapestry.teg.builder import define
from tapestry.teg.dtypes import NAMES, is_float, numpy_dtype
from tapestry.teg.graph import Graph, Tensor

WIDER = {"complex64": "complex128"}


def in_double(graph: Graph) -> Graph:
    """Return the program with float64 in place of all floats; numbers that it states keep the precision they have.

    Raises:
        ValueError: blocks read the bits of floats, or cannot be defined for float64.
    """
    tensors: dict[str, Tensor] = {}
    blocks = []
    for block in graph.blocks:
        if _reads_bits(block.definition.attributes):
            raise ValueError(f"block {block.site!r} reads the bits of floats")
        given = [tensors[name].type for name in block.inputs]
        attributes = tuple((name, _widened(value)) for name, value in block.definition.attributes)
        definition, types = define(block.operator, attributes, given)
        for name, kind in zip(block.outputs, types, strict=True):
            tensors[name] = Tensor(name, kind.shape, kind.dtype, graph.tensors[name].names)
        blocks.append(replace(block, definition=definition))
    data = {name: widened(value) for name, value in graph.data.items()}
    return Graph(graph.name, tuple(blocks), tensors, data, graph.external)


def widened(array: np.ndarray) -> np.ndarray:
    """Return an array with float64 in place of another float type."""
    return array.astype(numpy_dtype(_widened(array.dtype.name)), copy=False)


def coarsest_rounding(graph: Graph) -> float:
    """Return the relative distance between neighbors of the coarsest float type of a program; 0 without floats."""
    finfo: Any = ml_dtypes.finfo
    floats = {t.dtype for t in graph.tensors.values() if is_float(t.dtype)}
    return max((float(finfo(numpy_dtype(name)).eps) for name in floats), default=0.0)


def _widened(value: Any) -> Any:
    if isinstance(value, str):
        return "float64" if value in NAMES and is_float(value) else WIDER.get(value, value)
    return tuple(map(_widened, value)) if isinstance(value, tuple) else value


def _reads_bits(value: Any) -> bool:
    return isinstance(value, tuple) and (value[:1] == ("bitcast",) or any(map(_reads_bits, value)))
