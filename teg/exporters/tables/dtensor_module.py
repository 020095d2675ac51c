"""A table of shardings as a Python module for PyTorch: mesh, DTensor placements by name, and a parallelize plan."""

from __future__ import annotations

from collections.abc import Iterable

from tapestry.teg.exporters.tables.table import (
    BUFFER,
    INPUT,
    INTERMEDIATE,
    OUTPUT,
    PARAMETER,
    STATE,
    ShardingTable,
    TensorSharding,
)
from tapestry.teg.exporters.tables.text import axis_sizes, dictionary, heading, reads, sizes
from tapestry.teg.exporters.tables.verdicts import DTENSOR_REDUCTIONS, OK, TARGETS, verdict
from tapestry.teg.python_text import quoted

DTENSOR = next(target for target in TARGETS if target.name == "dtensor")

_HEAD = """
from math import prod

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
"""

_FUNCTIONS = '''

def make_mesh(device_type="cpu", first_rank=0):
    """Return the mesh over consecutive ranks."""
    ranks = torch.arange(first_rank, first_rank + prod(AXES.values())).reshape(tuple(AXES.values()))
    return DeviceMesh(device_type, ranks, mesh_dim_names=tuple(AXES))


def distribute(mesh, name, tensor):
    """Return the tensor as a DTensor, placed as the plan does."""
    return distribute_tensor(tensor, mesh, (INPUTS | PARAMETERS)[name])


def constrain(mesh, name, value):
    """Return the DTensor where the plan leaves a value of this name; terms stay as its operator leaves them."""
    placements = INTERMEDIATES.get(name)
    if placements is None or any(isinstance(p, Partial) for p in placements):
        return value
    return value.redistribute(mesh, placements)


def read(mesh, reader, name, value):
    """Return the DTensor called `name` where the plan reads it to make the value called `reader`."""
    placements = READS.get(reader, {}).get(name)
    return value if placements is None else value.redistribute(mesh, placements)


def distribute_parameters(mesh, module):
    """Replace the parameters and buffers of a module, in place, by DTensors placed as the plan does."""
    for name, placements in PARAMETERS.items():
        owner, _, leaf = name.rpartition(".")
        inside = module.get_submodule(owner)
        old = getattr(inside, leaf)
        new = distribute_tensor(old.detach(), mesh, placements)
        if isinstance(old, nn.Parameter):
            inside.register_parameter(leaf, nn.Parameter(new, requires_grad=old.requires_grad))
        else:
            inside.register_buffer(leaf, new)
    return module


def parallelize_plan(module, axis):
    """Return the plan of `parallelize_module` for the linear and embedding layers that are split over `axis` alone."""
    plan = {}
    for name, (split_axis, dim) in LAYERS.items():
        layer = module.get_submodule(name)
        if split_axis == axis and isinstance(layer, (nn.Linear, nn.Embedding)):
            is_columns = (dim == 0) == isinstance(layer, nn.Linear)
            plan[name] = ColwiseParallel() if is_columns else RowwiseParallel()
    return plan


def parallelize(mesh, module):
    """Apply the plans of all axes to a module: layers and their activations, as PyTorch's own styles place them."""
    for axis in AXES:
        parallelize_module(module, mesh[axis], parallelize_plan(module, axis))
    return module
'''


def dtensor_module(table: ShardingTable) -> str:
    """Write the module; what DTensor cannot place as the plan does is replicated, with the reason in
    `NOT_EXPRESSIBLE`.
    """
    faults = {t.name: verdict(table, t, DTENSOR) for t in table.tensors}
    inside = [t for t in table.of_roles([INTERMEDIATE]) if faults[t.name] == OK]
    parameters = table.of_roles([PARAMETER, BUFFER])
    lines = [
        heading(table, "DTensor placements"),
        _HEAD,
        axis_sizes(table),
        "",
        *_placements("INPUTS", table, table.of_roles([INPUT, STATE])),
        "",
        *_placements("PARAMETERS", table, parameters),
        "",
        *_placements("OUTPUTS", table, table.of_roles([OUTPUT])),
        "",
        "# Values inside the program, by the names that the import gives them: see `constrain`.",
        *_placements("INTERMEDIATES", table, inside),
        "",
        "# Values that are moved before others are made of them: see `read`.",
        *dictionary("READS", reads(table, _fault, _listed)),
        "",
        "# Layers whose weight is split over one axis: the axis, and the dimension of the weight.",
        *dictionary("LAYERS", _layers(table, parameters)),
        "",
        *dictionary("NOT_EXPRESSIBLE", {name: quoted(why) for name, why in faults.items() if why != OK}),
    ]
    return "\n".join(lines) + "\n" + _FUNCTIONS


def _placements(name: str, table: ShardingTable, tensors: Iterable[TensorSharding]) -> list[str]:
    known = tuple(tensors)
    entries = {t.name: _listed(table, t) for t in known}
    return dictionary(name, entries, {t.name: sizes(t.shape, t.dtype) for t in known})


def _fault(table: ShardingTable, tensor: TensorSharding) -> str:
    found = verdict(table, tensor, DTENSOR)
    return "" if found == OK else found


def _listed(table: ShardingTable, tensor: TensorSharding) -> str:
    return f"[{', '.join(placements(table, tensor))}]"


def placements(table: ShardingTable, tensor: TensorSharding) -> list[str]:
    """Return the expression of the placement on each axis of the mesh; all replicate where one cannot be stated."""
    if verdict(table, tensor, DTENSOR) != OK:
        return ["Replicate()"] * len(table.axes)
    where = {axis: k for k, dim in enumerate(tensor.dims) for axis in dim.axes}
    partial = quoted(DTENSOR_REDUCTIONS.get(tensor.monoid or "sum", "sum"))
    return [
        f"Shard({where[axis]})"
        if axis in where
        else f"Partial({partial})"
        if axis in tensor.partial
        else "Replicate()"
        for axis in table.sizes
    ]


def _layers(table: ShardingTable, parameters: Iterable[TensorSharding]) -> dict[str, str]:
    """Return the layers `NAME` of the weights `NAME.weight` of two dimensions that are split over one axis."""
    found = {}
    for tensor in parameters:
        layer, _, leaf = tensor.name.rpartition(".")
        is_matrix = leaf == "weight" and layer and len(tensor.shape) == 2 and len(tensor.axes) == 1
        if is_matrix and verdict(table, tensor, DTENSOR) == OK:
            dim = next(k for k, own in enumerate(tensor.dims) if own.axes)
            found[layer] = f"({quoted(tensor.axes[0])}, {dim})"
    return found
