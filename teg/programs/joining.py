"""Several tensors as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from teg.importers.program import Concat
from teg.programs.base import Dim
from teg.programs.failure import ProgramError
from teg.programs.movement import Movement

T = TypeVar("T", bound=Movement)


def concat(tensors: Sequence[T], dim: Dim = 0) -> T:
    """The tensors one after the other along `dim`; where all have names, dimensions are matched by name.

    Raises:
        ProgramError: there is none, or they differ in type or in another dimension.
    """
    if not tensors:
        raise ProgramError("there is nothing to concatenate; give at least one tensor")
    first = tensors[0]
    axis = first.axis(dim)
    turned = [_like(first, t) for t in tensors]
    for t in turned[1:]:
        if t.writer is not first.writer:
            raise ProgramError(f"{t!r} belongs to program {t.writer.program.name!r}")
        differs = t.rank != first.rank or any(
            a != b for k, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if k != axis
        )
        if differs or t.dtype != first.dtype:
            raise ProgramError(f"{first!r} and {t!r} must agree in all but dimension {dim!r}")
    if len(turned) == 1:
        return first
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in turned)
    site = first.writer.site("concat")
    value = first.writer.declare(site, shape, first.dtype, first.names)
    first.writer.emit(Concat(site, tuple(t.value.name for t in turned), site, axis))
    return first.made(value, first.names)


def _like(first: T, other: T) -> T:
    """`other` with its dimensions in the order of `first`, where both have the same names."""
    if all(first.names) and other.names != first.names and set(other.names) == set(first.names):
        return other.transpose(*first.names)
    return other


def stack(tensors: Sequence[T], axis: int = 0, name: str = "") -> T:
    """The tensors side by side along a new dimension at `axis`."""
    if not tensors:
        raise ProgramError("there is nothing to stack; give at least one tensor")
    first = tensors[0]
    return concat([_like(first, t).unsqueeze(axis, name) for t in tensors], axis % (first.rank + 1))


def interleave(tensors: Sequence[T], dim: Dim = 0) -> T:
    """Element i of tensor k at i * count + k along `dim`: the tensors stacked behind it and merged with it."""
    if not tensors:
        raise ProgramError("there is nothing to interleave; give at least one tensor")
    first = tensors[0]
    axis = first.axis(dim)
    if any(t.rank != first.rank or t.shape != first.shape for t in tensors):
        raise ProgramError(
            f"tensors of one shape can be interleaved; these have {', '.join(str(t.shape) for t in tensors)}"
        )
    joined = stack(tensors, axis + 1)
    return joined.merge(axis, axis + 1, into=first.names[axis])
