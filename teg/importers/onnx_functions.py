"""Inlining of the functions that an ONNX model itself defines."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.inliner

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_checks import STANDARD_DOMAINS, all_nodes


def unfolded(proto: Any, label: str, opset: int) -> Any:
    """Inline the model's own functions; those of another opset are converted where that changes anything.

    Raises:
        ImportFailure: a function of another opset cannot be converted.
    """
    if not proto.functions:
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for function in copy.functions:
        for imported in function.opset_import:
            if imported.domain in STANDARD_DOMAINS and _same_meaning(function, imported.version, opset):
                imported.version = opset
    try:
        return onnx.inliner.inline_local_functions(copy, convert_version=True)
    except Exception as error:  # whatever the inliner raises
        raise ImportFailure(
            f"{label}: its functions cannot be unfolded; write them for opset {opset}, the model's own "
            f"({' '.join(str(error).split())})"
        ) from None


def _same_meaning(function: Any, version: int, other: int) -> bool:
    """Return whether the standard operators of a function's body are the same in both versions."""
    standard = [n for n in all_nodes(function.node) if n.domain in STANDARD_DOMAINS]
    return all(
        onnx.defs.has(n.op_type, version, "")
        and onnx.defs.has(n.op_type, other, "")
        and onnx.defs.get_schema(n.op_type, version, "").since_version
        == onnx.defs.get_schema(n.op_type, other, "").since_version
        for n in standard
    )
