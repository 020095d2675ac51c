"""The members of a document as JSON values: definitions, tensors, blocks, data; read back by `teg.decoding`.

Raises:
    MalformedError: from every function, a value that JSON cannot represent exactly, with its path.
"""

from __future__ import annotations

import json
from typing import Any

from tapestry.teg.costs import CostTable
from tapestry.teg.encoding import MalformedError, encode_value
from tapestry.teg.external_data import ExternalData
from tapestry.teg.graph import Block, Definition, Tensor
from tapestry.teg.issues import key_path
from tapestry.teg.signature import Signature
from tapestry.teg.zspace import IndexProjection, ZRange


def tensor_member(tensor: Tensor, path: str) -> dict[str, Any]:
    """Convert a tensor to JSON values."""
    document = {"site": tensor.site, "shape": _integers(tensor.shape, f"{path}.shape"), "dtype": tensor.dtype}
    return {**document, "names": list(tensor.names)} if tensor.names else document


def definition_member(definition: Definition, path: str) -> dict[str, Any]:
    """Convert a definition to JSON values."""
    names = [k for k, _ in definition.attributes]
    if names != sorted(set(names)):
        message = f"attributes {names} are not sorted or not unique"
        raise MalformedError(
            f"{path}.attributes", message, "make them with teg.graph.attributes", "attribute"
        )
    where = f"{path}.attributes"
    document = {
        "operator": definition.operator,
        "attributes": {k: encode_value(v, key_path(where, k)) for k, v in definition.attributes},
        "signature": _signature(definition.signature, f"{path}.signature"),
    }
    return document if definition.costs is None else {**document, "costs": _costs(definition.costs)}


def external_member(value: ExternalData, path: str) -> dict[str, Any]:
    """Convert the name of a source's values to JSON values."""
    return {
        "tensor": value.tensor,
        "dtype": value.dtype,
        "shape": _integers(value.shape, f"{path}.shape"),
        "sha256": value.sha256,
        "box": _range(value.box, f"{path}.box"),
    }


def _costs(table: CostTable) -> dict[str, Any]:
    """Convert each resource to its amount, or to its fixed amount and steps where it depends on the index."""
    return {
        r.resource: {"fixed": r.fixed, "steps": dict(r.steps)} if r.steps else r.fixed
        for r in table.resources
    }


def _signature(signature: Signature | None, path: str) -> dict[str, Any] | None:
    if signature is None:
        return None
    return {
        "dims": [
            {"name": d.name, "size": _integer(d.size, f"{path}.dims[{k}].size"), "kind": d.kind}
            for k, d in enumerate(signature.dims)
        ],
        "inputs": [_projection(p, f"{path}.inputs[{k}]") for k, p in enumerate(signature.inputs)],
        "outputs": [_projection(p, f"{path}.outputs[{k}]") for k, p in enumerate(signature.outputs)],
    }


def _projection(projection: IndexProjection, path: str) -> dict[str, Any]:
    return {
        "matrix": [_integers(row, f"{path}.matrix[{k}]") for k, row in enumerate(projection.start.matrix)],
        "offset": _integers(projection.start.offset, f"{path}.offset"),
        "shape": _integers(projection.shape, f"{path}.shape"),
    }


def block_member(block: Block, definition: int, path: str) -> dict[str, Any]:
    """Convert a block to JSON values; `definition` is the position of its definition in the document."""
    document: dict[str, Any] = {
        "site": block.site,
        "definition": definition,
        "inputs": list(block.inputs),
        "outputs": list(block.outputs),
    }
    if block.index is not None:
        document["index"] = _range(block.index, f"{path}.index")
    if block.device is not None:
        document["device"] = _integer(block.device, f"{path}.device")
    if block.after:
        document["after"] = list(block.after)
    if block.repetition:
        document["repetition"] = _integer(block.repetition, f"{path}.repetition")
    return document


def _range(box: ZRange, path: str) -> dict[str, Any]:
    return {"start": _integers(box.start, f"{path}.start"), "end": _integers(box.end, f"{path}.end")}


def _integers(values: tuple[int, ...], path: str) -> list[int]:
    return [_integer(v, f"{path}[{k}]") for k, v in enumerate(values)]


def _integer(value: int, path: str) -> int:
    if type(value) is not int:
        raise MalformedError(path, f"{value!r} is a {type(value).__name__}", "use a Python int", "type")
    return value


def compact(value: Any) -> str:
    """Format JSON values in one line without blanks."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
