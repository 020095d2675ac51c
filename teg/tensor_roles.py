"""Roles of tensors in a program: parameters, gradients, states of the optimizer, activations and others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from tapestry.teg.graph import Block, Graph
from tapestry.teg.operators import body_of
from tapestry.teg.operators.fused_body import FUSED

PARAMETERS, GRADIENTS, STATES, ACTIVATIONS, INPUTS, CONSTANTS = TENSOR_ROLES = (
    "parameters",
    "gradients",
    "optimizer states",
    "activations",
    "inputs",
    "constants",
)
OF_SOURCES = {
    "activation": INPUTS,
    "parameter": PARAMETERS,
    "buffer": CONSTANTS,
    "constant": CONSTANTS,
    "optimizer_state": STATES,
}
TRAINED = (PARAMETERS, STATES)
_ELEMENTWISE = ("cell", "view", "reshape", "waypoint")
_MEASURING = ("reduce", "sink")


def tensor_roles(graph: Graph) -> Mapping[str, str]:
    """Return the role of every tensor.

    A new value of carried state has the role of the value that it replaces. What a new value of a parameter, or of a
    state of the optimizer, is computed from element by element is a gradient, back to what another kind of block makes;
    not what is also read for something else, such as the gradient of an activation.
    """
    roles = {tensor: ACTIVATIONS for block in graph.blocks for tensor in block.outputs}
    for source in graph.sources:
        roles |= dict.fromkeys(source.outputs, OF_SOURCES[source.definition["role"]])
    replaced = {
        sink.inputs[0]: roles[graph.carriers[sink.site].outputs[0]]
        for sink in graph.sinks
        if sink.site in graph.carriers
    }
    for tensor, role in replaced.items():
        if role in TRAINED:
            for found in _update(graph, tensor):
                if roles[found] == ACTIVATIONS:
                    roles[found] = GRADIENTS
    made = {tensor: role for tensor, role in replaced.items() if graph.producers[tensor].operator != "source"}
    return roles | made


def _update(graph: Graph, tensor: str) -> Iterator[str]:
    """Yield the tensors, as large as one, from which it is computed element by element, the first of them included."""
    size = prod(graph.tensors[tensor].shape)
    reached = [tensor]
    for found in reached:
        yield found
        block = graph.producers[found]
        if _is_elementwise(block):
            alike = (
                t for t in block.inputs if prod(graph.tensors[t].shape) == size and _is_of_update(graph, t)
            )
            reached += [t for t in alike if t not in reached]


def _is_of_update(graph: Graph, tensor: str) -> bool:
    """Return whether a tensor is read by what updates, or measures, a value element by element, and by nothing else."""
    return all(r.operator in _MEASURING or _is_elementwise(r) for r, _ in graph.readers[tensor])


def _is_elementwise(block: Block) -> bool:
    if block.operator == FUSED:
        return all(step.definition.operator in _ELEMENTWISE for step in body_of(block.definition).steps)
    return block.operator in _ELEMENTWISE
