"""ONNX nodes without a translation here: fixed blocks whose meaning is that of ONNX's own reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.translate.folding import RANDOM
from tapestry.teg.importers.translate.inference import InferredOutput, infer_types, static_type
from tapestry.teg.importers.translate.translation import Translation
from tapestry.teg.operators.onnx_fallback import tensor_setting
from tapestry.teg.operators.onnx_reference import ReferenceCall, Setting, check_known

KINDS = {
    onnx.AttributeProto.FLOAT: "float",
    onnx.AttributeProto.INT: "int",
    onnx.AttributeProto.STRING: "string",
    onnx.AttributeProto.FLOATS: "floats",
    onnx.AttributeProto.INTS: "ints",
    onnx.AttributeProto.STRINGS: "strings",
}

# Operators for which the reference needs a library that does not come with it.
NEEDED_LIBRARIES = {"ImageDecoder": ("PIL", "Pillow")}


def fix_node(t: Translation, node: OnnxNode, declared: Mapping[str, Any]) -> None:
    """Emit the node as a fixed block; `declared` are the types that the model states, by value.

    Raises:
        ImportFailure: it is no operator on static tensors, or the reference does not have it.
    """
    if node.op in RANDOM:
        raise ImportFailure(f"{node.where} draws numbers at random, and ONNX does not say which")
    if node.op == "Dropout" and "seed" not in node.attributes:
        raise ImportFailure(f"{node.where} draws other numbers each time; give it an attribute 'seed'")
    module, library = NEEDED_LIBRARIES.get(node.op, ("", ""))
    if module and find_spec(module) is None:
        raise ImportFailure(f"{node.where} needs the library {library}, which is not installed")
    names = tuple(dict.fromkeys(n for n in node.inputs if n))
    operands = tuple(names.index(n) if n else -1 for n in node.inputs)
    made = tuple(bool(o) for o in node.outputs)
    call = ReferenceCall(node.op, node.domain, t.version(node.domain), operands, made, _settings(node))
    try:
        check_known(call, [t.value(n).dtype for n in names])
    except ValueError as error:
        raise ImportFailure(f"{node.where} has no translation here, and {error}") from None
    found = _types(t, node, names, declared)
    outputs = [o for o in node.outputs if o]
    for name in outputs:
        t.declare(name, *found[name])
    attributes = {
        "op": call.op,
        "domain": call.domain or None,
        "opset": call.opset,
        "operands": operands,
        "types": tuple(found[o] if o else () for o in node.outputs),
        "settings": call.settings or None,
    }
    t.fixed(node.name, "onnx", names, outputs, attributes)


def _settings(node: OnnxNode) -> tuple[Setting, ...]:
    return tuple(_setting(node, a) for a in sorted(node.proto.attribute, key=lambda a: str(a.name)))


def _setting(node: OnnxNode, attribute: Any) -> Setting:
    if attribute.type == onnx.AttributeProto.TENSOR:
        try:
            return tensor_setting(attribute.name, np.asarray(node.attributes[attribute.name]))
        except ValueError as error:
            raise ImportFailure(f"{node.where}: attribute {attribute.name!r}: {error}") from None
    if attribute.type not in KINDS:
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type).lower()
        raise ImportFailure(
            f"{node.where} has attribute {attribute.name!r} of kind {kind}, which no static tensor program has"
        )
    value = helper.get_attribute_value(attribute)
    return attribute.name, KINDS[attribute.type], _plain(node, attribute.name, value)


def _plain(node: OnnxNode, name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ImportFailure(f"{node.where}: attribute {name!r} is text that is not UTF-8") from None
    return tuple(_plain(node, name, v) for v in value) if isinstance(value, list) else value


def _types(
    t: Translation, node: OnnxNode, names: Sequence[str], declared: Mapping[str, Any]
) -> dict[str, InferredOutput]:
    """Return shapes and element types of the node's outputs: inferred by ONNX, else as the model states them."""
    operands = {n: (t.value(n), t.literal(n)) for n in names}
    inferred = infer_types(node, {"": t.opset, node.domain: t.version(node.domain)}, operands)
    found: dict[str, InferredOutput] = {}
    for name in node.outputs:
        if name:
            kinds = (inferred.get(name), declared.get(name))
            static = [s for kind in kinds if kind is not None and (s := static_type(kind, node)) is not None]
            if not static:
                raise ImportFailure(
                    f"{node.where} has no translation here, and the shape of its output {name!r} is not static: "
                    "state it in the model's value_info, or make what it depends on constant"
                    f"{t.budget.reason}"
                )
            found[name] = static[0]
    return found
