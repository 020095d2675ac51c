"""The nodes of a Loom graph as records, and their conversion from and to JSON.

    {"id": ..., "nodes": [{"id", "type", "label"?, "body", "tags"?}, ...]}

A node's type and its tags are URIs, of which only the last name matters. A tensor covers a range that may
start anywhere; an operation selects ranges of tensors by name; an application is one shard of an operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tapestry.teg.jsonvalues as take
from tapestry.teg.encoding import MalformedError
from tapestry.teg.issues import Issue, key_path
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange

SCHEMAS = "http://tensortapestry.org/schemas/loom/2024-01"
NODES = f"{SCHEMAS}/node_types.jsd#/nodes"
TAGS = f"{SCHEMAS}/tag_types.jsd#/tags"
KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
MAX_NODES = 1_000_000


@dataclass(frozen=True)
class Selection:
    """A range of a tensor."""

    tensor: str
    range: ZRange


Selections = Mapping[str, tuple[Selection, ...]]
Projections = Mapping[str, tuple[IndexProjection, ...]]


@dataclass(frozen=True)
class NoteBody:
    """Text for people."""

    message: str


@dataclass(frozen=True)
class TensorBody:
    """A tensor: element type and range."""

    dtype: str
    range: ZRange


@dataclass(frozen=True)
class OperationBody:
    """A kernel with its parameters, inputs and outputs. None: the document leaves it out."""

    kernel: str
    params: Mapping[str, Any] | None
    inputs: Selections | None
    outputs: Selections | None


@dataclass(frozen=True)
class ApplicationBody:
    """A shard of an operation, with its inputs and outputs. None: the document leaves it out."""

    operation: str
    inputs: Selections | None
    outputs: Selections | None


Body = NoteBody | TensorBody | OperationBody | ApplicationBody


@dataclass(frozen=True)
class IpfSignature:
    """The tag that maps an operation's index to its selections."""

    inputs: Projections
    outputs: Projections


@dataclass(frozen=True)
class LoomNode:
    """One node; `path` is its place in the document. Known tags are parsed, all are kept unchanged."""

    id: str
    type: str
    label: str | None
    body: Body
    tags: Mapping[str, Any]
    path: str = field(compare=False)
    signature: IpfSignature | None = None
    index: ZRange | None = None
    is_sequence_point: bool = False


@dataclass(frozen=True)
class LoomGraph:
    """A graph's id (None if it has none) and nodes, in the order of the document."""

    id: str | None
    nodes: tuple[LoomNode, ...]


def parse(obj: Any) -> tuple[LoomGraph, list[Issue]]:
    """Parse the well-formed nodes; return them with an issue of kind `schema` for each malformed place."""
    issues: list[Issue] = []
    try:
        take.members(obj, "$", ("nodes",), ("id",))
        values = take.listed(obj["nodes"], "$.nodes")
        name = take.site(obj["id"], "$.id") if "id" in obj else None
        if len(values) > MAX_NODES:
            raise MalformedError("$.nodes", f"{len(values)} nodes", f"at most {MAX_NODES} are read")
    except MalformedError as problem:
        return LoomGraph(None, ()), [_schema(problem)]
    nodes = []
    for k, value in enumerate(values):
        try:
            nodes.append(_node(value, f"$.nodes[{k}]"))
        except MalformedError as problem:
            issues.append(_schema(problem))
    return LoomGraph(name, tuple(nodes)), issues


def to_json(graph: LoomGraph) -> dict[str, Any]:
    """Convert a graph to JSON, which `parse` reads back as the same nodes."""
    nodes = []
    for node in graph.nodes:
        value: dict[str, Any] = {"id": node.id, "type": node.type}
        if node.label is not None:
            value["label"] = node.label
        value["body"] = _body_json(node.body)
        if node.tags:
            value["tags"] = dict(node.tags)
        nodes.append(value)
    return {"nodes": nodes} if graph.id is None else {"id": graph.id, "nodes": nodes}


def signature_json(signature: IpfSignature) -> dict[str, Any]:
    """Build the value of an IPFSignature tag."""
    return {
        side: {name: [_projection_json(p) for p in listed] for name, listed in ports.items()}
        for side, ports in (("inputs", signature.inputs), ("outputs", signature.outputs))
    }


def range_json(box: ZRange) -> dict[str, Any]:
    """Convert a range to JSON, as in bodies and IPFIndex tags."""
    return {"start": list(box.start), "end": list(box.end)}


def short(uri: str) -> str:
    """Return the name that a type's or a tag's URI ends in."""
    return re.split(r"[/#]", uri)[-1]


def _schema(problem: MalformedError) -> Issue:
    issue = problem.issue
    return Issue("schema", issue.path, issue.message, issue.expected)


def _node(value: Any, path: str) -> LoomNode:
    take.members(value, path, ("id", "type", "body"), ("label", "tags", "annotations"))
    uri = take.site(value["type"], f"{path}.type")
    reader = BODIES.get(short(uri))
    if reader is None:
        known = ", ".join(BODIES)
        raise MalformedError(f"{path}.type", f"unknown type of node {uri!r}", f"known are {known}")
    label = value.get("label")
    tags = value.get("tags") or value.get("annotations") or {}  # the word of older documents
    if type(tags) is not dict:
        raise MalformedError(f"{path}.tags", take.kind_of(tags), "expected an object of tags")
    known_tags: dict[str, Any] = {}
    for key, tag in tags.items():
        where = key_path(f"{path}.tags", key)
        if short(key) == "IPFSignature":
            known_tags["signature"] = _signature(tag, where)
        elif short(key) == "IPFIndex":
            known_tags["index"] = take.box(tag, where)
        elif short(key) == "IOSequencePoint":
            known_tags["is_sequence_point"] = True
    return LoomNode(
        take.site(value["id"], f"{path}.id"),
        uri,
        None if label is None else take.text(label, f"{path}.label"),
        reader(value["body"], f"{path}.body"),
        tags,
        path,
        **known_tags,
    )


def _note(value: Any, path: str) -> NoteBody:
    take.members(value, path, ("message",))
    if type(value["message"]) is not str:
        raise MalformedError(f"{path}.message", take.kind_of(value["message"]), "expected text")
    return NoteBody(value["message"])


def _tensor(value: Any, path: str) -> TensorBody:
    take.members(value, path, ("dtype", "range"))
    return TensorBody(take.text(value["dtype"], f"{path}.dtype"), take.box(value["range"], f"{path}.range"))


def _operation(value: Any, path: str) -> OperationBody:
    take.members(value, path, ("kernel",), ("params", "inputs", "outputs"))
    params = value.get("params")
    if params is not None:
        _keys(params, f"{path}.params")
    kernel = take.site(value["kernel"], f"{path}.kernel")
    return OperationBody(kernel, params, *_sides(value, path))


def _application(value: Any, path: str) -> ApplicationBody:
    take.members(value, path, ("operationId",), ("inputs", "outputs"))
    return ApplicationBody(take.site(value["operationId"], f"{path}.operationId"), *_sides(value, path))


def _sides(value: Any, path: str) -> tuple[Selections | None, Selections | None]:
    inputs, outputs = (
        _ports(value[side], f"{path}.{side}", _selection) if side in value else None
        for side in ("inputs", "outputs")
    )
    return inputs, outputs


def _ports(value: Any, path: str, read: Callable[[Any, str], Any]) -> dict[str, tuple[Any, ...]]:
    _keys(value, path)
    ports = {}
    for name, listed in value.items():
        where = f"{path}.{name}"
        if not take.listed(listed, where):
            raise MalformedError(where, "an empty list", "a name stands for at least one tensor")
        ports[name] = tuple(read(v, f"{where}[{k}]") for k, v in enumerate(listed))
    return ports


def _keys(value: Any, path: str) -> None:
    if type(value) is not dict:
        raise MalformedError(path, take.kind_of(value), "expected an object")
    for key in value:
        if not KEY.fullmatch(key):
            raise MalformedError(key_path(path, key), f"the name {key!r}", "use letters, digits and _")


def _selection(value: Any, path: str) -> Selection:
    take.members(value, path, ("tensorId", "range"))
    return Selection(
        take.site(value["tensorId"], f"{path}.tensorId"), take.box(value["range"], f"{path}.range")
    )


def _signature(value: Any, path: str) -> IpfSignature:
    take.members(value, path, ("inputs", "outputs"))
    inputs, outputs = (_ports(value[s], f"{path}.{s}", _projection) for s in ("inputs", "outputs"))
    return IpfSignature(inputs, outputs)


def _projection(value: Any, path: str) -> IndexProjection:
    take.members(value, path, ("affineMap",), ("shape",))
    where = f"{path}.affineMap"
    take.members(value["affineMap"], where, ("projection",), ("offset",))
    rows = take.listed(value["affineMap"]["projection"], f"{where}.projection")
    matrix = tuple(take.integers(row, f"{where}.projection[{k}]") for k, row in enumerate(rows))
    offset = take.integers(value["affineMap"].get("offset", [0] * len(rows)), f"{where}.offset")
    shape = take.integers(value.get("shape", [1] * len(rows)), f"{path}.shape")
    try:
        return IndexProjection(ZAffineMap(matrix, offset), shape)
    except ValueError as error:
        raise MalformedError(path, "no projection", str(error)) from None


BODIES: Mapping[str, Callable[[Any, str], Body]] = {
    "Note": _note,
    "Tensor": _tensor,
    "Operation": _operation,
    "Application": _application,
}


def _body_json(body: Body) -> dict[str, Any]:
    if isinstance(body, NoteBody):
        return {"message": body.message}
    if isinstance(body, TensorBody):
        return {"dtype": body.dtype, "range": range_json(body.range)}
    if isinstance(body, OperationBody):
        value: dict[str, Any] = {"kernel": body.kernel}
        if body.params is not None:
            value["params"] = dict(body.params)
    else:
        value = {"operationId": body.operation}
    for side, ports in (("inputs", body.inputs), ("outputs", body.outputs)):
        if ports is not None:
            value[side] = {name: _selections_json(listed) for name, listed in ports.items()}
    return value


def _selections_json(listed: Sequence[Selection]) -> list[dict[str, Any]]:
    return [{"tensorId": s.tensor, "range": range_json(s.range)} for s in listed]


def _projection_json(p: IndexProjection) -> dict[str, Any]:
    rows = [list(row) for row in p.start.matrix]
    return {"affineMap": {"projection": rows, "offset": list(p.start.offset)}, "shape": list(p.shape)}
