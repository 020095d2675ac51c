"""A table of shardings as a JSON document, the form that does not depend on a framework."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from tapestry.teg.exporters.tables.table import DimSharding, ShardingTable, TensorSharding
from tapestry.teg.exporters.tables.verdicts import verdicts

FORMAT, VERSION = "tapestry.shardings", 1


def table_document(table: ShardingTable) -> dict[str, Any]:
    """Convert a table to JSON values; `table_schema` describes them."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "program": table.program,
        "plan": table.plan,
        "mesh": {
            "of": dict(table.mesh),
            "devices": table.devices,
            "axes": [
                {"name": axis.name, "size": axis.size, "sub_axes": list(axis.sub_axes)} for axis in table.axes
            ],
        },
        "tensors": [_tensor(table, tensor) for tensor in table.tensors],
    }


def table_schema() -> dict[str, Any]:
    """Load the published JSON Schema (draft 2020-12) of the document."""
    path = files("tapestry.teg") / "schema" / f"shardings-{VERSION}.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def table_text(table: ShardingTable) -> str:
    """Format the document as text with one tensor per line."""
    document = table_document(table)
    tensors = document.pop("tensors")
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in document.items())
    rows = ",\n".join(f"  {json.dumps(tensor)}" for tensor in tensors)
    return f'{{\n{head} "tensors": [\n{rows}\n ]\n}}\n'


def _tensor(table: ShardingTable, tensor: TensorSharding) -> dict[str, Any]:
    used = {*tensor.axes, *tensor.partial}
    factored = tensor.factored
    if factored is not None:
        used.update(axis for dim in factored.dims for axis in dim.axes)
    document: dict[str, Any] = {
        "name": tensor.name,
        "role": tensor.role,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "dims": [_dim(dim) for dim in tensor.dims],
        "replicated": [axis.name for axis in table.axes if axis.name not in used],
    }
    if tensor.partial:
        document["partial"] = {"axes": list(tensor.partial), "monoid": tensor.monoid}
    if factored is not None:
        document["factored"] = {
            "shape": list(factored.shape),
            "dims": [_dim(dim) for dim in factored.dims],
        }
        if factored.groups is not None:
            document["factored"]["groups"] = [list(group) for group in factored.groups]
    if tensor.layout:
        document["layout"] = tensor.layout
    if tensor.carries is not None:
        document["carries"] = tensor.carries
    return {**document, "verdicts": verdicts(table, tensor)}


def _dim(dim: DimSharding) -> dict[str, Any]:
    document: dict[str, Any] = {"axes": list(dim.axes), "chunk": dim.chunk}
    if dim.granule != 1:
        document["granule"] = dim.granule
    return {**document, "fault": dim.fault} if dim.fault else document
