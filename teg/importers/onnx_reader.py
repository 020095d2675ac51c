"""Reading an ONNX file: checked, dimensions made static, attributes and roles as plain Python values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from teg.dtypes import NAMES, numpy_dtype
from teg.graph import ROLES
from teg.importers.failure import ImportFailure
from teg.importers.program import Value

OLDEST_OPSET = 7
STANDARD_DOMAINS = ("", "ai.onnx")
# Domains of ONNX itself, whose operators its reference knows.
OTHER_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training")


@dataclass(frozen=True)
class Node:
    """One application of an ONNX operator; missing optional inputs and outputs are `""`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any
    domain: str = ""

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute `name`, or `default`."""
        return self.attributes.get(name, default)

    @property
    def where(self) -> str:
        """How an error names this node."""
        return f"node {self.name!r} ({self.op})"


@dataclass(frozen=True)
class Model:
    """An ONNX model as read: graph inputs with roles, initializers, nodes in order, output names.

    `versions` are the operator versions by domain, the standard one called `""`; `declared` the types (as ONNX
    has them) that the model states of its values; `carries` the inputs whose next values outputs are, if it says so.
    """

    name: str
    opset: int
    inputs: tuple[tuple[Value, str], ...]
    initializers: Mapping[str, np.ndarray]
    initializer_roles: Mapping[str, str]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    versions: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    carries: Mapping[str, str] | None = None


def read_model(source: Any, dims: Mapping[str, int] | None = None, name: str | None = None) -> Model:
    """The model in a file, in bytes, or in a `ModelProto`; `dims` gives sizes to symbolic dimensions.

    Raises:
        ImportFailure: there is no such file, it is no ONNX model, it is too old, or a dimension has no size.
    """
    proto, label, folder = _load(source)
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    opset = _opset(proto, label)
    graph = proto.graph
    initializers = {t.name: _array(t, folder) for t in graph.initializer}
    if graph.sparse_initializer:
        raise ImportFailure(f"{label}: sparse initializers are not supported")
    roles = _roles(proto, label)
    wanted = [i for i in graph.input if i.name not in initializers]
    _check_static(wanted, dims or {}, label)
    inputs = tuple((_input_value(i, dims or {}, label), roles.get(i.name, "activation")) for i in wanted)
    nodes = tuple(_node(n, k, folder) for k, n in enumerate(graph.node))
    known = (*STANDARD_DOMAINS, *OTHER_DOMAINS)
    foreign = sorted({f"{n.domain}.{n.op_type}" for n in graph.node if n.domain not in known})
    if foreign:
        raise ImportFailure(f"{label}: unsupported operators of other domains: {', '.join(foreign)}")
    outputs = tuple(o.name for o in graph.output)
    versions = {str(o.domain): int(o.version) for o in proto.opset_import} | {"": opset}
    carries = _carries(proto, label)
    declared = {i.name: i.type for i in (*graph.value_info, *graph.output)}
    return Model(
        name or label, opset, inputs, initializers, roles, nodes, outputs, versions, declared, carries
    )


def _load(source: Any) -> tuple[Any, str, str | None]:
    """The model, a short name for it, and the folder of its external data; None: it may have none."""
    if isinstance(source, onnx.ModelProto):
        return _checked(source, source.graph.name or "model"), source.graph.name or "model", None
    if isinstance(source, (bytes, bytearray)):
        return _parse(bytes(source), "the given bytes"), "model", None
    path = Path(source)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ImportFailure(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise ImportFailure(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    return _parse(content, f"file {str(path)!r}"), path.stem, str(path.parent)


def _parse(content: bytes, label: str) -> Any:
    if not content:
        raise ImportFailure(f"{label} is empty, not an ONNX model")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception:  # protobuf has several builds, each with an error of its own
        raise ImportFailure(f"{label} is not an ONNX model, or it is truncated") from None
    return _checked(proto, label)


def _checked(proto: Any, label: str) -> Any:
    """The model, if it is one: any bytes may happen to parse as an empty message."""
    if not proto.opset_import or not proto.HasField("graph") or not proto.graph.output:
        raise ImportFailure(
            f"{label} is not an ONNX model (it has no graph, outputs or opset), or it is truncated"
        )
    known = {"", *(i.name for i in proto.graph.input), *(t.name for t in proto.graph.initializer)}
    known.update(t.values.name for t in proto.graph.sparse_initializer)
    for node in proto.graph.node:
        unknown = [x for x in node.input if x not in known]
        if unknown:
            raise ImportFailure(
                f"{label}: node {node.name or node.op_type!r} reads {unknown[0]!r}, which nothing makes"
            )
        known.update(node.output)
    unmade = [o.name for o in proto.graph.output if o.name not in known]
    if unmade:
        raise ImportFailure(f"{label}: nothing makes output {unmade[0]!r}; the file may be truncated")
    return proto


def _opset(proto: Any, label: str) -> int:
    versions = [int(o.version) for o in proto.opset_import if o.domain in STANDARD_DOMAINS]
    newest = onnx.defs.onnx_opset_version()
    if not versions:
        raise ImportFailure(f"{label} does not import the standard ONNX operators")
    if not OLDEST_OPSET <= versions[0] <= newest:
        raise ImportFailure(f"{label} uses opset {versions[0]}; supported are {OLDEST_OPSET} to {newest}")
    return versions[0]


def _roles(proto: Any, label: str) -> dict[str, str]:
    """Roles by name from the metadata entry `teg.inputs`."""
    roles = _told(proto, label, "teg.inputs", "role") or {}
    wrong = sorted({r for r in roles.values() if r not in ROLES})
    if wrong:
        raise ImportFailure(f"{label}: unknown role {wrong[0]!r} in 'teg.inputs'; use {', '.join(ROLES)}")
    return roles


def _carries(proto: Any, label: str) -> dict[str, str] | None:
    """The inputs whose next values outputs are, from the metadata entry `teg.outputs`."""
    return _told(proto, label, "teg.outputs", "carries")


def _told(proto: Any, label: str, key: str, what: str) -> dict[str, str] | None:
    """What a metadata entry, a JSON list of objects with `name`, says of names; None if there is no such entry."""
    for entry in proto.metadata_props:
        if entry.key == key:
            try:
                items = [(str(item["name"]), item.get(what)) for item in json.loads(entry.value)]
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise ImportFailure(
                    f"{label}: metadata {key!r} must be a JSON list of objects with name and {what}"
                ) from None
            return {name: str(value) for name, value in items if value is not None}
    return None


def _check_static(inputs: Iterable[Any], dims: Mapping[str, int], label: str) -> None:
    """Every dimension has a size, in the file or in `dims`; all that lack one are named at once."""
    open_dims: dict[str, str] = {}
    for i in inputs:
        if not i.type.HasField("tensor_type"):
            raise ImportFailure(f"{label}: input {i.name!r} is not a tensor")
        for k, d in enumerate(i.type.tensor_type.shape.dim):
            symbol = _symbol(i.name, k, d)
            if symbol and symbol not in dims:
                open_dims.setdefault(symbol, f"{i.name!r}")
    wrong = [f"{k}={v}" for k, v in dims.items() if v < 1]
    if wrong:
        raise ImportFailure(f"{label}: a dimension's size must be a positive number, not {', '.join(wrong)}")
    if open_dims:
        listed = ", ".join(f"{symbol!r} of input {where}" for symbol, where in open_dims.items())
        example = " ".join(f"--dim {symbol}=8" for symbol in open_dims)
        raise ImportFailure(
            f"{label} has dimensions without a size: {listed}; give them, for example {example}"
        )


def _symbol(name: str, position: int, dim: Any) -> str:
    """The name of a dimension without a size, or `""`; nameless ones are called by place."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return ""
    return dim.dim_param if dim.HasField("dim_param") and dim.dim_param else f"{name}.{position}"


def _input_value(info: Any, dims: Mapping[str, int], label: str) -> Value:
    kind = info.type.tensor_type
    shape = tuple(
        dims[symbol] if (symbol := _symbol(info.name, k, d)) else int(d.dim_value)
        for k, d in enumerate(kind.shape.dim)
    )
    return Value(info.name, shape, element_type(kind.elem_type, f"{label}: input {info.name!r}"))


def element_type(code: int, where: str) -> str:
    """The name of an ONNX element type.

    Raises:
        ImportFailure: it is none that tensors here may have (strings, packed types).
    """
    try:
        name = str(onnx.helper.tensor_dtype_to_np_dtype(code).name)
    except (KeyError, TypeError, ValueError):
        name = f"type {code}"
    if name not in NAMES:
        raise ImportFailure(f"{where} has unsupported element type {name}")
    return name


def _array(tensor: Any, folder: str | None) -> np.ndarray:
    if folder is None and tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ImportFailure(
            f"the data of initializer {tensor.name!r} lies in another file, which is not read here; "
            "put the data into the model itself (onnx.save with save_as_external_data=False)"
        )
    try:
        array = numpy_helper.to_array(tensor, base_dir=folder or "")
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ImportFailure(f"cannot read the data of initializer {tensor.name!r}: {error}") from None
    expected = numpy_dtype(element_type(tensor.data_type, f"initializer {tensor.name!r}"))
    if array.dtype != expected:
        array = array.view(expected) if array.dtype.itemsize == expected.itemsize else array.astype(expected)
    return np.asarray(array)


def _node(node: Any, position: int, folder: str | None) -> Node:
    attributes = {a.name: _attribute(a, folder) for a in node.attribute}
    first = next((o for o in node.output if o), "")
    name = node.name or (f"{first}.{node.op_type}" if first else f"{node.op_type}.{position}")
    domain = "" if node.domain in STANDARD_DOMAINS else node.domain
    return Node(name, node.op_type, tuple(node.input), tuple(node.output), attributes, node, domain)


def _attribute(attribute: Any, folder: str | None) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return _array(value, folder)
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value
