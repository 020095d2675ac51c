"""Sizes as numbers, which are known here; and operators whose results' sizes depend on data, which are refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.strided import row_major
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer


def _size(t: Tracer, x: Value, dim: int) -> int:
    return x.shape[t.axis(dim, len(x.shape))]


def _stride(t: Tracer, x: Value, dim: int) -> int:
    if not t.is_row_major(x):
        raise t.refuse("is supported only on tensors that are stored row-major")
    return row_major(x.shape)[t.axis(dim, len(x.shape))]


def _count(t: Tracer, x: Value) -> int:
    return math.prod(x.shape)


def _offset(t: Tracer, x: Value) -> int:
    if not t.is_row_major(x):
        raise t.refuse("is supported only on tensors that are stored by themselves")
    return 0


def _number(t: Tracer, x: Value) -> Any:
    """Return the only element of a tensor, where it is known."""
    known = t.known(x)
    if known is None or known.array.size != 1:
        raise t.refuse("reads a number out of data: what depends on it is known only at run time")
    return known.array.reshape(()).item()


def _refused(what: str, t: Tracer, *_: Any, **__: Any) -> Value:
    raise t.refuse(f"{what}: the size of its result depends on data, which is unsupported")


_CHOICES = ("nonzero", "nonzero_numpy", "nonzero_static", "masked_select", "argwhere")
_SETS = ("_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount")

DYNAMIC: tuple[TorchOperator, ...] = (
    TorchOperator(aten("sym_size.int", "size.int"), _size),
    TorchOperator(aten("sym_stride.int"), _stride),
    TorchOperator(aten("sym_numel", "numel"), _count),
    TorchOperator(aten("sym_storage_offset"), _offset),
    TorchOperator(aten("_local_scalar_dense", "item"), _number),
    TorchOperator(aten(*_CHOICES), partial(_refused, "chooses elements by their values")),
    TorchOperator(aten(*_SETS), partial(_refused, "counts elements by their values")),
)
