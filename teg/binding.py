"""Binding of external data: the values that a graph names by content, supplied by name or content hash."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.external_data import ExternalData, content_hash
from tapestry.teg.graph import Graph


def bind_values(graph: Graph, values: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph with the values of its external data, each source with its part of the whole tensor.

    `values` are whole tensors by name, such as `data` of the program that was sharded, or by content hash; those that
    the graph does not name are ignored. What they lack stays external.

    Raises:
        ValueError: a value of another shape, element type or content than the graph names; all are listed.
    """
    data, left = dict(graph.data), {}
    checked: dict[tuple[str, str], str | None] = {}
    for site, named in graph.external.items():
        key = named.tensor if named.tensor in values else named.sha256
        if key not in values:
            left[site] = named
            continue
        known = (named.tensor, named.sha256)
        if known not in checked:
            checked[known] = _fault(named, values[key])
        if checked[known] is None:
            part = values[key][tuple(map(slice, named.box.start, named.box.end))]
            part.setflags(write=False)
            data[site] = part
    faults = [fault for fault in checked.values() if fault]
    if faults:
        raise ValueError(f"graph {graph.name!r} needs other values: {'; '.join(faults)}")
    return Graph(graph.name, graph.blocks, graph.tensors, data, left)


def _fault(named: ExternalData, value: np.ndarray) -> str | None:
    if value.shape != named.shape or value.dtype != numpy_dtype(named.dtype):
        return (
            f"{named.tensor!r} has shape {list(named.shape)} and type {named.dtype}, "
            f"not shape {list(value.shape)} and type {value.dtype}"
        )
    found = content_hash(value)
    if found != named.sha256:
        return f"the values of {named.tensor!r} have the content hash {found}, not {named.sha256}"
    return None
