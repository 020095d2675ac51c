"""Conversion of a refined graph's inputs and outputs: user shapes on the outside, factors inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tapestry.teg.faults import ArgumentError, joined, no_such
from tapestry.teg.graph import Graph, TensorType
from tapestry.teg.tensor_files import typed


def pack_inputs(graph: Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reshape the arrays to the shapes of the graph's sources, by site; sources that have data may be left out.

    Arrays that the graph does not read are ignored, since an import drops inputs without effect; but where one is
    missing they are reported, for one of them may be it. Elements that a `.npz` file keeps as plain bytes are taken as
    the source's type.

    Raises:
        ArgumentError: an array is missing, or is not of the source's logical shape and element type; all are listed.
    """
    known = {source.site: graph.tensors[source.outputs[0]] for source in graph.sources}
    elements = {
        name: typed(np.asarray(array), known[name].dtype) if name in known else np.asarray(array)
        for name, array in arrays.items()
    }
    types = {name: TensorType(array.shape, array.dtype.name) for name, array in elements.items()}
    if faults := input_faults(graph, types):
        raise ArgumentError(f"graph {graph.name!r}: {joined(list(faults.values()))}")
    return {name: elements[name].reshape(tensor.shape) for name, tensor in known.items() if name in elements}


def input_faults(graph: Graph, given: Mapping[str, TensorType]) -> dict[str, str]:
    """Describe the faults of values of these types, in the program's shapes, for the graph's sources; by name.

    Names that no source has are faults where a value is missing.
    """
    faults: dict[str, str] = {}
    is_complete = True
    for source in graph.sources:
        tensor = graph.tensors[source.outputs[0]]
        wanted = TensorType(source.definition.get("logical_shape", tensor.shape), tensor.dtype)
        found = given.get(source.site)
        if found is None and tensor.site not in graph.data:
            is_complete = False
            faults[source.site] = (
                f"input {source.site!r} of shape {wanted.shape} and type {wanted.dtype} is missing"
            )
        elif found is not None and found != wanted:
            faults[source.site] = (
                f"input {source.site!r} must have shape {wanted.shape} and type {wanted.dtype}, "
                f"not shape {found.shape} and type {found.dtype}"
            )
    if not is_complete:
        faults |= unread_names(graph, given)
    return faults


def unread_names(graph: Graph, names: Iterable[str]) -> dict[str, str]:
    """Describe the names that no source of the graph has."""
    known = [source.site for source in graph.sources]
    return {name: no_such("input", name, known) for name in names if name not in known}


def unpack_outputs(graph: Graph, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reshape the values of sinks, by site, to the shapes that the imported program states."""
    return {
        sink.site: values[sink.site].reshape(sink.definition.get("logical_shape", values[sink.site].shape))
        for sink in graph.sinks
        if sink.site in values
    }
