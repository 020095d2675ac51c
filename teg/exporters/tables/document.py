"""A table of shardings as a JSON document, the form that does not depend on a framework."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from tapestry.teg.exporters.tables.table import (
    DimSharding,
    FactoredDims,
    LogicalAxis,
    ReadSharding,
    ShardingTable,
    TensorSharding,
)
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
        **({"micro_batches": table.micro_batches} if table.micro_batches else {}),
        "tensors": [_tensor(table, tensor) for tensor in table.tensors],
    }


def table_of_document(document: Mapping[str, Any]) -> ShardingTable:
    """Return the table that `table_document` converted; the sites of its tensors, which it does not state, are empty.

    Raises:
        ValueError: a document of another form or version.
    """
    if (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"expected a document of format {FORMAT!r}, version {VERSION}")
    mesh = document["mesh"]
    axes = (LogicalAxis(axis["name"], axis["size"], tuple(axis["sub_axes"])) for axis in mesh["axes"])
    return ShardingTable(
        document["program"],
        document["plan"],
        tuple(mesh["of"].items()),
        mesh["devices"],
        tuple(axes),
        tuple(map(_tensor_of, document["tensors"])),
        document.get("micro_batches", ""),
    )


def _tensor_of(document: Mapping[str, Any]) -> TensorSharding:
    partial, factored = document.get("partial", {}), document.get("factored")
    return TensorSharding(
        document["name"],
        document["role"],
        "",
        tuple(document["shape"]),
        document["dtype"],
        _dims_of(document["dims"]),
        tuple(partial.get("axes", ())),
        partial.get("monoid"),
        None if factored is None else _factored_of(factored),
        document.get("layout", ""),
        document.get("carries"),
        tuple(ReadSharding(read["name"], _dims_of(read["dims"])) for read in document.get("reads", ())),
    )


def _factored_of(document: Mapping[str, Any]) -> FactoredDims:
    groups = document.get("groups")
    arranged = None if groups is None else tuple(map(tuple, groups))
    return FactoredDims(tuple(document["shape"]), arranged, _dims_of(document["dims"]))


def _dims_of(documents: Sequence[Mapping[str, Any]]) -> tuple[DimSharding, ...]:
    return tuple(
        DimSharding(d["chunk"], tuple(d["axes"]), d.get("granule", 1), d.get("fault", "")) for d in documents
    )


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
    if tensor.reads:
        document["reads"] = [
            {"name": read.name, "dims": [_dim(dim) for dim in read.dims]} for read in tensor.reads
        ]
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
