"""Operators that the standard itself defines by others: their bodies are translated in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Fixed
from tapestry.teg.importers.translate.control import inline
from tapestry.teg.importers.translate.translation import Translation


def expand_node(t: Translation, node: OnnxNode) -> None:
    """Emit the body that the standard gives the node's operator, if all of it has a translation here.

    Raises:
        ImportFailure: the standard gives none, or a part of it would be a fixed block.
    """
    schema = _schema(t, node)
    body = _body(t, node, schema)
    graph = onnx.GraphProto()
    graph.node.extend(body.node)
    _bind_attributes(graph, _attributes(node, schema))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in body.output)
    operands = (*node.inputs, *[""] * len(body.input))
    given = dict(zip(body.input, operands, strict=False))
    first, outer = len(t.program.steps), (t.opset, t.versions)
    t.versions = {**t.versions, **{str(o.domain): int(o.version) for o in body.opset_import}}
    t.opset = t.versions[""]
    try:
        made = inline(t, graph, given, f"{node.name}/{node.op}")
    finally:
        t.opset, t.versions = outer
    if any(isinstance(s, Fixed) and s.operator == "onnx" for s in t.program.steps[first:]):
        raise ImportFailure(f"{node.where} is defined by operators that have no translation here")
    for output, name in zip(node.outputs, made, strict=False):
        if output:
            t.alias(output, name)


def _schema(t: Translation, node: OnnxNode) -> Any:
    try:
        return onnx.defs.get_schema(node.op, t.version(node.domain), node.domain)
    except onnx.defs.SchemaError:
        raise ImportFailure(f"{node.where} is no operator of the standard") from None


def _body(t: Translation, node: OnnxNode, schema: Any) -> Any:
    """Find the newest definition in operators that the model's version has, or else the oldest of later ones."""
    if schema.has_function:
        versions, get = schema.function_opset_versions, schema.get_function_with_opset_version
    elif schema.has_context_dependent_function:
        kinds = [_kind(t, name) for name in node.inputs]
        proto = node.proto.SerializeToString()
        versions = schema.context_dependent_function_opset_versions

        def get(version: int) -> bytes:
            return bytes(schema.get_context_dependent_function_with_opset_version(version, proto, kinds))
    else:
        raise ImportFailure(f"{node.where} is not defined by other operators")
    usable = [v for v in versions if v <= t.opset]
    text = get(max(usable) if usable else min(versions))
    if not text:
        raise ImportFailure(f"{node.where} is not defined by other operators with these operands")
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def _kind(t: Translation, name: str) -> bytes:
    """Return the serialized ONNX type of an operand; empty for one that is left out."""
    if not name:
        return b""
    value = t.value(name)
    code = helper.np_dtype_to_tensor_dtype(numpy_dtype(value.dtype))
    return bytes(helper.make_tensor_type_proto(code, value.shape).SerializeToString())


def _attributes(node: OnnxNode, schema: Any) -> dict[str, Any]:
    """Return the node's attributes, with the operator's defaults for those that it leaves out."""
    found = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED
    }
    return found | {a.name: a for a in node.proto.attribute}


def _bind_attributes(graph: Any, given: Mapping[str, Any]) -> None:
    """Replace references to attributes by the attributes; drop those that refer to none."""
    for node in graph.node:
        kept = []
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in given:
                    continue
                bound = onnx.AttributeProto()
                bound.CopyFrom(given[attribute.ref_attr_name])
                bound.name = attribute.name
                kept.append(bound)
            else:
                if attribute.HasField("g"):
                    _bind_attributes(attribute.g, given)
                kept.append(attribute)
        copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
        del node.attribute[:]
        node.attribute.extend(copies)
