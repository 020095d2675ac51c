"""Rare operators of ONNX: a fixed block holds the node as plain values; ONNX's reference defines its meaning.

`op`, `domain` and `opset` name the operator, `operands` says which operand stands at each of the node's inputs (-1:
none), `types` holds per output its shape and element type, or nothing where the node leaves it out, and `settings`
its attributes as (name, kind, value). Graphs, sequences and text as data have no form here.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import item_bytes, numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import integers, known_dtype, settings
from tapestry.teg.zspace import ZRange

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
SETTING_TYPES: dict[str, tuple[type, bool]] = {
    "float": (float, False),
    "int": (int, False),
    "string": (str, False),
    "floats": (float, True),
    "ints": (int, True),
    "strings": (str, True),
}
# The attributes of one node: tables of trees reach some hundred kilobytes.
LARGEST_SETTINGS_BYTES = 4 * 1024 * 1024


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("op", "opset", "operands", "types"), ("domain", "settings"))
    op, domain = given["op"], given.get("domain", "")
    if not isinstance(op, str) or not op.isidentifier():
        raise ValueError(f"attribute 'op' must be the name of an ONNX operator, not {op!r}")
    if domain not in DOMAINS:
        raise ValueError(f"attribute 'domain' must be one of {list(DOMAINS)}, not {domain!r}")
    if type(given["opset"]) is not int or not 1 <= given["opset"] < 2**31:
        raise ValueError(f"attribute 'opset' must be a version number, not {given['opset']!r}")
    operands = integers(given["operands"], "operands", least=-1)
    if {k for k in operands if k >= 0} != set(range(len(inputs))):
        raise ValueError(f"attribute 'operands' must name each of {len(inputs)} inputs, not {operands}")
    _check_settings(given.get("settings", ()))
    return Inferred(None, tuple(t for t in _outputs(given["types"]) if t is not None))


def _outputs(value: Any) -> tuple[TensorType | None, ...]:
    if not isinstance(value, tuple) or not all(isinstance(v, tuple) and len(v) in (0, 2) for v in value):
        raise ValueError(f"attribute 'types' must hold (shape, element type) or () for each, not {value!r}")
    return tuple(
        TensorType(integers(v[0], "types", least=0), known_dtype(v[1])) if v else None for v in value
    )


def _check_settings(value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(v, tuple) and len(v) == 3 for v in value):
        raise ValueError(f"attribute 'settings' must hold (name, kind, value), not {value!r}")
    size = 0
    for name, kind, held in value:
        if not isinstance(name, str) or not name:
            raise ValueError(f"a setting's name must be text, not {name!r}")
        if kind == "tensor":
            size += _tensor_bytes(name, held)
            continue
        if kind not in SETTING_TYPES:
            raise ValueError(
                f"setting {name!r} is of kind {kind!r}; known are tensor, {', '.join(SETTING_TYPES)}"
            )
        item, many = SETTING_TYPES[kind]
        values = held if many else (held,)
        if not isinstance(values, tuple) or not all(type(v) is item for v in values):
            raise ValueError(f"setting {name!r} is not of kind {kind}: {held!r}")
        size += sum(len(v) if item is str else 8 for v in values)
    if size > LARGEST_SETTINGS_BYTES:
        raise ValueError(f"the settings take {size} bytes; at most {LARGEST_SETTINGS_BYTES} are allowed")


def _tensor_bytes(name: str, value: Any) -> int:
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[2], str):
        raise ValueError(f"setting {name!r} must be (element type, shape, base64), not {value!r}")
    wanted = math.prod(integers(value[1], name, least=0)) * item_bytes(known_dtype(value[0]))
    try:
        found = len(base64.b64decode(value[2], validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"setting {name!r} is broken base64 ({error})") from None
    if found != wanted:
        raise ValueError(f"setting {name!r} holds {found} bytes; its shape and type make {wanted}")
    return wanted


def tensor_setting(name: str, array: np.ndarray) -> tuple[str, str, Any]:
    """Convert a tensor to a setting.

    Raises:
        ValueError: its element type has no name here.
    """
    dense = np.ascontiguousarray(array, numpy_dtype(known_dtype(array.dtype.name)))
    return name, "tensor", (dense.dtype.name, array.shape, base64.b64encode(dense.tobytes()).decode("ascii"))


def _evaluate(
    _: ArrayNamespace, definition: Definition, __: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    from tapestry.teg.operators.onnx_reference import ReferenceCall, run_reference

    outputs = _outputs(definition["types"])
    call = ReferenceCall(
        definition["op"],
        definition.get("domain", ""),
        definition["opset"],
        definition["operands"],
        tuple(t is not None for t in outputs),
        definition.get("settings", ()),
    )
    made = run_reference(call, [o.array for o in operands])
    return tuple(_as(array, kind) for array, kind in zip(made, filter(None, outputs), strict=True))


def _as(array: np.ndarray, kind: TensorType) -> np.ndarray:
    if array.shape != kind.shape:
        raise ValueError(
            f"the values of the operands make shape {list(array.shape)}, the program states {list(kind.shape)}"
        )
    return array.astype(numpy_dtype(kind.dtype), copy=False)


def _work(_: Definition, __: Sequence[TensorType], outputs: Sequence[TensorType]) -> Work:
    """Count one operation per output element, because nothing more is known of the operator."""
    return Work("vector", float(sum(math.prod(t.shape) for t in outputs)))


def _example(op: str, inputs: Sequence[TensorType], outputs: Sequence[Any], *held: Any) -> OperatorExample:
    operands = tuple(range(len(inputs)))
    attrs = attributes(op=op, opset=20, operands=operands, types=tuple(outputs), settings=held)
    return OperatorExample(attrs, tuple(inputs))


_MATRICES = TensorType((3, 4, 4), "float32")
_IMAGE = TensorType((1, 2, 4, 6), "float32")
_POOLED = (1, 2, 2, 3)

ONNX = Operator(
    name="onnx",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    host_only=True,
    examples=(
        _example("Det", (_MATRICES,), (((3,), "float32"),)),
        _example(
            "MaxPool",
            (_IMAGE,),
            ((_POOLED, "float32"), (_POOLED, "int64")),
            ("kernel_shape", "ints", (2, 2)),
            ("strides", "ints", (2, 2)),
        ),
    ),
)

FOREIGN: tuple[Operator, ...] = (ONNX,)
