"""Checks of a plug-in's operator before it is added to the catalog.

These are the cheap checks, made whenever a process starts; the whole contract is `teg.operators.testing`.
"""

from __future__ import annotations

from typing import Any

from tapestry.teg.graph import TensorType
from tapestry.teg.operators.operator import Inferred, Operator, OperatorExample
from tapestry.teg.plugins import PlugInError, PlugInGroup, require, require_name, sequence_of
from tapestry.teg.signature import Signature

GROUP = "tapestry.operators"
FUNCTIONS = ("infer", "evaluate", "work")


def checked_operator(offered: Any) -> Operator:
    """Return the operator, if it is one and its shape rule accepts its examples.

    Raises:
        Refused: it is no operator, lacks a function or examples, or `infer` fails on one or gives no types.
    """
    operator = require(offered, Operator)
    require_name(operator.name)
    missing = [name for name in FUNCTIONS if not callable(getattr(operator, name))]
    if missing:
        raise PlugInError(f"{missing[0]} is no function", "see teg.operators.operator.Operator")
    if not operator.examples:
        raise PlugInError("it has no examples", "give at least one: the contract is tested on them")
    for k, example in enumerate(operator.examples):
        _examine(operator, k, require(example, OperatorExample))
    return operator


def _examine(operator: Operator, k: int, example: OperatorExample) -> None:
    hint = f"repair examples[{k}] or infer; `tapestry plugins --check` reports more once it is let in"
    try:
        inferred: Any = operator.infer(example.attributes, example.inputs)
    except Exception as error:
        raise PlugInError(f"infer fails on examples[{k}]: {type(error).__name__}: {error}", hint) from error
    if not isinstance(inferred, Inferred) or not _are_types(inferred.outputs, inferred.signature):
        raise PlugInError(f"infer gives {inferred!r:.80} for examples[{k}], no Inferred of TensorTypes", hint)


def _are_types(outputs: Any, signature: Any) -> bool:
    kinds = isinstance(outputs, tuple) and all(isinstance(kind, TensorType) for kind in outputs)
    return kinds and isinstance(signature, Signature | None)


OPERATOR_GROUP = PlugInGroup(
    GROUP, "operator", sequence_of(Operator), checked_operator, lambda operator: (operator.name,)
)
