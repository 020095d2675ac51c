"""Reader of ONNX files: checked, dimensions made static, attributes and roles as plain Python values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tapestry.teg.dtypes import item_bytes
from tapestry.teg.faults import near_hint
from tapestry.teg.graph import ROLES
from tapestry.teg.importers.failure import IN_PYTHON, ImportFailure
from tapestry.teg.importers.onnx_checks import LARGEST_FILE_BYTES, STANDARD_DOMAINS, check_model, check_node
from tapestry.teg.importers.onnx_functions import unfolded
from tapestry.teg.importers.onnx_names import free_node_name, rename_values, renamings
from tapestry.teg.importers.onnx_tensors import (
    attribute_value,
    checked_shape,
    element_type,
    sparse_to_array,
    to_array,
)
from tapestry.teg.importers.program import Value

OLDEST_OPSET = 7
# Domains of ONNX itself, whose operators its reference knows.
OTHER_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


@dataclass(frozen=True)
class OnnxNode:
    """One application of an ONNX operator; missing optional inputs and outputs are `""`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any
    domain: str = ""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the attribute `name`, or `default`."""
        return self.attributes.get(name, default)

    @property
    def where(self) -> str:
        """The description of this node in error messages."""
        return f"node {self.name!r} ({self.op})"


@dataclass(frozen=True)
class Model:
    """An ONNX model as read: graph inputs with roles, initializers, nodes in order, values by output.

    `versions` are the operator versions by domain, the standard one called `""`; `declared` the types (as ONNX
    has them) that the model states for its values; `carries` the inputs whose next values outputs are, if the model
    states them.
    """

    name: str
    opset: int
    inputs: tuple[tuple[Value, str], ...]
    initializers: Mapping[str, np.ndarray]
    initializer_roles: Mapping[str, str]
    nodes: tuple[OnnxNode, ...]
    outputs: Mapping[str, str]
    versions: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    carries: Mapping[str, str] | None = None


def read_model(
    source: Any,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    external_data: str | Path | None = None,
) -> Model:
    """Read the model from a file, from bytes, or from a `ModelProto`; `dims` gives sizes to symbolic dimensions.

    Data in other files is read from the folder `external_data` only.

    Raises:
        ImportFailure: there is no such file, it is no ONNX model, it is too old, or a dimension has no size.
    """
    folder = _folder(external_data)
    given, place, label = _load(source)
    check_model(given, place)
    proto = unfolded(given, label, _opset(given, label))
    outputs = tuple(o.name for o in proto.graph.output)
    new = renamings(proto)
    if new:
        proto = _copy(proto)
        rename_values(proto, new)
    graph, opset = proto.graph, _opset(proto, label)
    initializers = {t.name: to_array(t, f"initializer {t.name!r}", folder) for t in graph.initializer}
    for t in graph.sparse_initializer:
        initializers[t.values.name] = sparse_to_array(t, f"initializer {t.values.name!r}", folder)
    versions = {str(o.domain): int(o.version) for o in proto.opset_import} | {"": opset}
    roles = _roles(proto, label)
    wanted = [i for i in graph.input if i.name not in initializers]
    _check_static(wanted, dims or {}, label)
    return Model(
        name or label,
        opset,
        tuple((_input_value(i, dims or {}, label), roles.get(i.name, "activation")) for i in wanted),
        initializers,
        roles,
        tuple(_nodes(graph, versions, label, folder)),
        {o: new.get(o, o) for o in outputs},
        versions,
        {i.name: i.type for i in (*graph.value_info, *graph.output)},
        _named_values(proto, label, "teg.outputs", "carries"),
    )


def _folder(external_data: str | Path | None) -> Path | None:
    """Return the folder of external data, or None if none is named.

    Raises:
        ImportFailure: the folder does not exist.
    """
    if external_data is not None and not Path(external_data).is_dir():
        raise ImportFailure(f"there is no folder {str(external_data)!r} of external data")
    return None if external_data is None else Path(external_data)


def _load(source: Any) -> tuple[Any, str, str]:
    """Load the model; return it, its location, and a short name for it."""
    if isinstance(source, onnx.ModelProto):
        called = source.graph.name or "model"
        return source, called, called
    if isinstance(source, (bytes, bytearray)):
        return _parse(bytes(source), "the given file"), "the given file", "model"
    path = Path(source)
    label = f"file {str(path)!r}"
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise ImportFailure(
                f"{label} has {size:,} bytes; ONNX files have at most {LARGEST_FILE_BYTES:,}: "
                "keep weights in external data, or make them inputs"
            )
        content = path.read_bytes()
    except FileNotFoundError:
        raise ImportFailure(f"there is no file {str(path)!r}") from None
    except OSError as error:
        raise ImportFailure(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    return _parse(content, label), label, path.stem


def _parse(content: bytes, label: str) -> Any:
    if not content:
        raise ImportFailure(f"{label} is empty, not an ONNX model")
    if len(content) > LARGEST_FILE_BYTES:
        raise ImportFailure(
            f"{label} have {len(content):,} bytes; ONNX models have at most {LARGEST_FILE_BYTES:,}"
        )
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception:  # protobuf has several builds, each with an error of its own
        raise ImportFailure(f"{label} is not an ONNX model, or it is truncated") from None
    return proto


def _copy(proto: Any) -> Any:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    return copy


def _opset(proto: Any, label: str) -> int:
    newest = int(onnx.defs.onnx_opset_version())
    versions = [int(o.version) for o in proto.opset_import if o.domain in STANDARD_DOMAINS]
    if not versions and any(o.domain in OTHER_DOMAINS for o in proto.opset_import):
        return newest
    if not versions:
        raise ImportFailure(f"{label} does not import the standard ONNX operators")
    if not OLDEST_OPSET <= versions[0] <= newest:
        raise ImportFailure(f"{label} uses opset {versions[0]}; supported are {OLDEST_OPSET} to {newest}")
    return versions[0]


def _roles(proto: Any, label: str) -> dict[str, str]:
    """Parse the roles by name from the metadata entry `teg.inputs`."""
    roles = _named_values(proto, label, "teg.inputs", "role") or {}
    wrong = sorted({r for r in roles.values() if r not in ROLES})
    if wrong:
        raise ImportFailure(f"{label}: unknown role {wrong[0]!r} in 'teg.inputs'; use {', '.join(ROLES)}")
    return roles


def _named_values(proto: Any, label: str, key: str, what: str) -> dict[str, str] | None:
    """Parse a metadata entry, a JSON list of objects with `name`, into a map from name to `what`.

    None if there is no such entry.
    """
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
    """Check that every dimension has a size, in the file or in `dims`; the error names all that lack one."""
    open_dims: dict[str, str] = {}
    symbols: set[str] = set()
    for i in inputs:
        if not i.type.HasField("tensor_type"):
            raise ImportFailure(f"{label}: input {i.name!r} is not a tensor")
        if not i.type.tensor_type.HasField("shape"):
            raise ImportFailure(f"{label}: input {i.name!r} has no shape; state it in the model")
        for k, d in enumerate(i.type.tensor_type.shape.dim):
            symbol = _symbol(i.name, k, d)
            symbols |= {symbol} - {""}
            if symbol and symbol not in dims:
                open_dims.setdefault(symbol, f"{i.name!r}")
    wrong = [f"{k}={v}" for k, v in dims.items() if v < 1]
    if wrong:
        raise ImportFailure(f"{label}: a dimension's size must be a positive number, not {', '.join(wrong)}")
    unknown = [name for name in dims if name not in symbols]
    if unknown:
        known = near_hint(unknown[0], sorted(symbols)) if symbols else "all its dimensions have sizes"
        raise ImportFailure(f"{label} has no dimension {unknown[0]!r} without a size; {known}")
    if open_dims:
        listed = ", ".join(f"{symbol!r} of input {where}" for symbol, where in open_dims.items())
        example = " ".join(f"--dim {symbol}=8" for symbol in open_dims)
        raise ImportFailure(
            f"{label} has dimensions without a size: {listed}; give them, for example {example}"
            f"{IN_PYTHON}dims={dict.fromkeys(open_dims, 8)})"
        )


def _symbol(name: str, position: int, dim: Any) -> str:
    """Return the name of a dimension without a size, or `""`; unnamed dimensions are named by position."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return ""
    return dim.dim_param if dim.HasField("dim_param") and dim.dim_param else f"{name}.{position}"


def _input_value(info: Any, dims: Mapping[str, int], label: str) -> Value:
    kind, where = info.type.tensor_type, f"{label}: input {info.name!r}"
    sizes = [
        dims[symbol] if (symbol := _symbol(info.name, k, d)) else int(d.dim_value)
        for k, d in enumerate(kind.shape.dim)
    ]
    dtype = element_type(kind.elem_type, where)
    return Value(info.name, checked_shape(sizes, where, item_bytes(dtype)), dtype)


def _nodes(graph: Any, versions: Mapping[str, int], label: str, folder: Path | None) -> Iterator[OnnxNode]:
    known = (*STANDARD_DOMAINS, *OTHER_DOMAINS)
    foreign = sorted({f"{n.domain}.{n.op_type}" for n in graph.node if n.domain not in known})
    if foreign:
        raise ImportFailure(f"{label}: unsupported operators of other domains: {', '.join(foreign)}")
    values = sorted(
        {*(i.name for i in graph.input), *(t.name for t in graph.initializer)}
        | {o for n in graph.node for o in n.output}
    )
    for position, node in enumerate(graph.node):
        first = next((o for o in node.output if o), "")
        name = node.name or (f"{first}.{node.op_type}" if first else f"{node.op_type}.{position}")
        name = free_node_name(name, values)
        where = f"node {name!r} ({node.op_type})"
        check_node(node, f"{label}: {where}", versions.get(node.domain, 1))
        attributes = {a.name: attribute_value(a, where, folder) for a in node.attribute}
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain
        yield OnnxNode(name, node.op_type, tuple(node.input), tuple(node.output), attributes, node, domain)


def nodes_of(graph: Any, name: str, versions: Mapping[str, int]) -> tuple[OnnxNode, ...]:
    """Return the nodes of a body in order; their names are prefixed with `name` unless they already are."""
    return tuple(
        n if n.name.startswith(f"{name}/") else replace(n, name=f"{name}/{n.name}")
        for n in _nodes(graph, versions, name, None)
    )
