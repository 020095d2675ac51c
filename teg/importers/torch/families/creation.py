"""Creation of tensors without inputs: equal elements, progressions, identities; and calls that produce nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call, cast, coordinate, tree_of


def _full(t: Tracer, size: Sequence[int], fill_value: Any) -> Value:
    return t.full(t.shape, fill_value, t.dtype)


def _full_like(t: Tracer, x: Value, fill_value: Any) -> Value:
    return t.full(t.shape, fill_value, t.dtype)


def _zeros(t: Tracer, *_: Any, **__: Any) -> Value:
    """Create zeros; uninitialized memory of torch (`empty`) is zero here."""
    return t.full(t.shape, 0, t.dtype)


def _ones(t: Tracer, *_: Any, **__: Any) -> Value:
    return t.full(t.shape, 1, t.dtype)


def _fill(t: Tracer, x: Value, value: Any) -> Value:
    return (
        t.expand(t.cast(value, t.dtype), t.shape)
        if isinstance(value, Value)
        else t.full(t.shape, value, t.dtype)
    )


def _scalar_tensor(t: Tracer, s: Any) -> Value:
    return t.full((), s, t.dtype)


def _arange(t: Tracer, *bounds: Any, start: Any = None, end: Any = None, step: Any = None) -> Value:
    """Translate `arange(end)`, `(start, end)` or `(start, end, step)`; the recorded shape gives the length."""
    given = list(bounds)
    if len(given) == 1 and start is None:
        end = given.pop()
    names = [n for n, v in (("start", start), ("end", end), ("step", step)) if v is None]
    found = {"start": start, "end": end, "step": step} | dict(zip(names, given, strict=False))
    first, pace = found["start"] or 0, 1 if found["step"] is None else found["step"]
    line = call("add", call("mul", coordinate(0), pace), first) if first or pace != 1 else coordinate(0)
    return t.elements(tree_of(cast(t.dtype, line)), (), t.dtype, t.shape)


def _linspace(t: Tracer, start: float, end: float, steps: int) -> Value:
    pace = (end - start) / max(steps - 1, 1)
    return t.elements(tree_of(cast(t.dtype, coordinate(0) * pace + start)), (), t.dtype, t.shape)


def _eye(t: Tracer, n: int, m: int | None = None) -> Value:
    same = call("eq", coordinate(0), coordinate(1))
    return t.elements(tree_of(cast(t.dtype, same)), (), t.dtype, t.shape)


def _triangle(t: Tracer, x: Value, diagonal: int, comparison: str) -> Value:
    rank = len(x.shape)
    kept = (comparison, ("index", f"d{rank - 1}"), ("add", ("index", f"d{rank - 2}"), ("const", diagonal)))
    zero = ("cast", x.dtype, ("const", 0))
    return t.elements(("where", kept, ("input", 0), zero), [x], x.dtype)


def _tril(t: Tracer, x: Value, diagonal: int = 0) -> Value:
    return _triangle(t, x, diagonal, "le")


def _triu(t: Tracer, x: Value, diagonal: int = 0) -> Value:
    return _triangle(t, x, diagonal, "ge")


def _nothing(t: Tracer, *_: Any, **__: Any) -> tuple[()]:
    """Ignore a check that torch makes at run time: shapes and types are checked at import."""
    return ()


CREATION: tuple[TorchOperator, ...] = (
    TorchOperator(aten("full"), _full),
    TorchOperator(aten("full_like"), _full_like),
    TorchOperator(aten("new_full"), lambda t, x, size, fill_value: _full(t, size, fill_value)),
    TorchOperator(
        (
            *aten(
                "zeros",
                "zeros_like",
                "new_zeros",
                "zero",
                "empty.memory_format",
                "empty_strided",
                "empty_like",
            ),
            *aten("empty_permuted", "new_empty", "new_empty_strided", "_efficientzerotensor"),
        ),
        _zeros,
    ),
    TorchOperator(aten("ones", "ones_like", "new_ones"), _ones),
    TorchOperator(aten("fill.Scalar", "fill.Tensor"), _fill),
    TorchOperator(aten("scalar_tensor"), _scalar_tensor),
    TorchOperator(aten("arange", "arange.start", "arange.start_step"), _arange),
    TorchOperator(aten("linspace"), _linspace),
    TorchOperator(aten("eye", "eye.m"), _eye),
    TorchOperator(aten("tril"), _tril),
    TorchOperator(aten("triu"), _triu),
    TorchOperator(
        (
            *aten("_assert_tensor_metadata", "_assert_scalar", "_assert_async.msg", "_assert_async"),
            *aten("sym_constrain_range_for_size", "sym_constrain_range"),
        ),
        _nothing,
    ),
)
