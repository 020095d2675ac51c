"""Conversion of a refined graph's inputs and outputs: user shapes on the outside, factors inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.faults import ArgumentError, joined, no_such
from tapestry.teg.graph import Graph
from tapestry.teg.tensor_files import typed


def pack_inputs(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reshape the arrays to the shapes of the graph's sources, by site; sources that have data may be left out.

    Arrays that the graph does not read are ignored, since an import drops inputs without effect; but where one is
    missing they are reported, for one of them may be it. Elements that a `.npz` file keeps as plain bytes are taken as
    the source's type.

    Raises:
        ArgumentError: an array is missing, or is not of the source's logical shape and element type; all are listed.
    """
    packed, issues, is_complete = {}, [], True
    for source in graph.sources:
        tensor = graph.tensors[source.outputs[0]]
        logical = source.definition.get("logical_shape", tensor.shape)
        if source.site not in arrays:
            if tensor.site not in graph.data:
                is_complete = False
                issues.append(f"input {source.site!r} of shape {logical} and type {tensor.dtype} is missing")
            continue
        array = typed(np.asarray(arrays[source.site]), tensor.dtype)
        if array.shape != logical or array.dtype != numpy_dtype(tensor.dtype):
            issues.append(
                f"input {source.site!r} must have shape {logical} and type {tensor.dtype}, "
                f"not shape {array.shape} and type {array.dtype}"
            )
        else:
            packed[source.site] = array.reshape(tensor.shape)
    if not is_complete:
        issues += unread_names(graph, arrays)
    if issues:
        raise ArgumentError(f"graph {graph.name!r}: {joined(issues)}")
    return packed


def unread_names(graph: Graph, names: Iterable[str]) -> list[str]:
    """Describe the names that no source of the graph has, one line each."""
    known = [source.site for source in graph.sources]
    return [no_such("input", name, known) for name in names if name not in known]


def unpack_outputs(graph: Graph, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reshape the values of sinks, by site, to the shapes that the imported program states."""
    return {
        sink.site: values[sink.site].reshape(sink.definition.get("logical_shape", values[sink.site].shape))
        for sink in graph.sinks
        if sink.site in values
    }
