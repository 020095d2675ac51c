"""Concatenation, stacking and interleaving of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tapestry.teg.importers.program import Concat
from tapestry.teg.programs.base import Dim
from tapestry.teg.programs.failure import ProgramError
from tapestry.teg.programs.movement import Movement

T = TypeVar("T", bound=Movement)


def concat(tensors: Sequence[T], dim: Dim = 0) -> T:
    """Concatenate the tensors along `dim`; where all have names, dimensions are matched by name.

    Raises:
        ProgramError: there is none, or they differ in type or in another dimension.
    """
    if not tensors:
        raise ProgramError("there is nothing to concatenate; give at least one tensor")
    first = tensors[0]
    axis = first.axis(dim)
    turned = [_like(first, t) for t in tensors]
    for t in turned[1:]:
        _check_partner(first, t, axis)
    if len(turned) == 1:
        return first
    shape = list(first.shape)
    shape[axis] = sum(t.shape[axis] for t in turned)
    site = first.writer.site("concat")
    value = first.writer.declare(site, shape, first.dtype, first.names)
    first.writer.emit(Concat(site, tuple(t.value.name for t in turned), site, axis))
    return first.made(value, first.names)


def _like(first: T, other: T) -> T:
    """Return `other` with its dimensions in the order of `first`, where both have the same names."""
    if all(first.names) and other.names != first.names and set(other.names) == set(first.names):
        return other.transpose(*first.names)
    return other


def stack(tensors: Sequence[T], axis: int = 0, name: str = "") -> T:
    """Stack the tensors along a new dimension at `axis`."""
    if not tensors:
        raise ProgramError("there is nothing to stack; give at least one tensor")
    first = tensors[0]
    return concat([_like(first, t).unsqueeze(axis, name) for t in tensors], axis % (first.rank + 1))


def interleave(tensors: Sequence[T], dim: Dim = 0) -> T:
    """Interleave the tensors: element i of tensor k is at i * count + k along `dim`.

    Raises:
        ProgramError: there is none, or they differ in shape or type.
    """
    if not tensors:
        raise ProgramError("there is nothing to interleave; give at least one tensor")
    first = tensors[0]
    axis = first.axis(dim)
    turned = [_like(first, t) for t in tensors]
    for t in turned[1:]:
        _check_partner(first, t, None)
    if len(turned) == 1:
        return first
    label = first.labels[axis]
    target = tuple(f"{label}_in_turn" if k == axis else d for k, d in enumerate(first.labels))
    shape = [size * len(turned) if k == axis else size for k, size in enumerate(first.shape)]
    return first.compute(
        "interleave",
        "interleave",
        (shape, first.names),
        {"axis": label},
        others=turned[1:],
        labels=[first.labels] * len(turned),
        target=target,
        whole=frozenset({label, target[axis]}),
    )


def _check_partner(first: Movement, other: Movement, but: int | None) -> None:
    """Check that tensors agree in program, shape and type, but for the size of dimension `but`.

    Raises:
        ProgramError: they differ.
    """
    if other.writer is not first.writer:
        raise ProgramError(f"{other!r} belongs to program {other.writer.program.name!r}")
    differs = other.rank != first.rank or any(
        a != b for k, (a, b) in enumerate(zip(other.shape, first.shape, strict=True)) if k != but
    )
    if differs or other.dtype != first.dtype:
        where = "" if but is None else f" in all but dimension {first.names[but] or but!r}"
        raise ProgramError(f"{first!r} and {other!r} must agree{where}")
