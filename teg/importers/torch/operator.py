"""The record of a torch operator's translation, and the binding of a call's arguments to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.torch.listing import TorchCall

# Arguments that say where and how a result is stored; its element type is recorded with it.
STORAGE = frozenset(
    (
        "layout",
        "device",
        "pin_memory",
        "memory_format",
        "non_blocking",
        "requires_grad",
        "implicit",
        "sparse_grad",
    )
)


class TorchOperator(NamedTuple):
    """A translation of some torch operators to steps: `translate(tracer, arguments as in torch's schema)`.

    The schema's `self` is called `x`. The result is a value, or one value (or None) per result of the operator.
    """

    targets: tuple[str, ...]
    translate: Callable[..., Any]


def aten(*names: str) -> tuple[str, ...]:
    """Return targets of the library `aten`; `add.Tensor` stays, `relu` means its default overload."""
    return tuple(f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names)


@cache
def _signature(translate: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(translate)


def bind(
    operator: TorchOperator, call: TorchCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Bind the arguments of `operator.translate` after the tracer, by position and by name.

    Raises:
        ImportFailure: there are arguments that the translation does not support.
    """
    bound = _bound(operator, call, args, kwargs)
    return bound.args[1:], bound.kwargs


def operand(operator: TorchOperator, call: TorchCall, name: str) -> Any:
    """Return the argument of a call, as listed, that `operator.translate` calls `name`."""
    return _bound(operator, call, call.args, call.kwargs).arguments[name]


def _bound(
    operator: TorchOperator, call: TorchCall, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    named = {"x" if k == "self" else k: v for k, v in kwargs.items() if k not in STORAGE}
    signature = _signature(operator.translate)
    if "dtype" not in signature.parameters:
        named.pop("dtype", None)
    try:
        return signature.bind(None, *args, **named)
    except TypeError as error:
        raise ImportFailure(f"{call.where} has arguments that are unsupported: {error}") from None
