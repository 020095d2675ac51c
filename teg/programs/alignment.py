"""Alignment of the dimensions of several tensors: by name where all have names, else as numpy does.

*By name*: every dimension of every operand has a name. Equal names run together wherever they stand, and size 1
is broadcast. The result has the dimensions of the operand with the most (the first of equals), then those that
only others have. *By position*: numpy's rule, aligned at the right; where two dimensions that meet both have
names, these must be equal, and a name goes over to the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapestry.teg.importers.program import Labels
from tapestry.teg.programs.base import TensorBase, labels_for
from tapestry.teg.programs.failure import ProgramError


class Aligned(NamedTuple):
    """Labels per operand (`""`: a size 1 that is broadcast) and the dimensions of the result."""

    labels: tuple[Labels, ...]
    target: Labels
    shape: tuple[int, ...]
    names: tuple[str, ...]


def align(operands: Sequence[TensorBase]) -> Aligned:
    """Align the dimensions of the operands.

    Raises:
        ProgramError: sizes or names that meet do not agree.
    """
    if all(name for o in operands for name in o.names):
        return _by_name(operands)
    return _by_position(operands)


def _by_name(operands: Sequence[TensorBase]) -> Aligned:
    first = max(operands, key=lambda o: o.rank)
    names = tuple(dict.fromkeys([*first.names, *(n for o in operands for n in o.names)]))
    shape = tuple(_common([o.dims.get(name, 1) for o in operands], repr(name)) for name in names)
    sizes = dict(zip(names, shape, strict=True))
    labels = tuple(
        tuple("" if size == 1 != sizes[n] else n for n, size in zip(o.names, o.shape, strict=True))
        for o in operands
    )
    return Aligned(labels, names, shape, names)


def _by_position(operands: Sequence[TensorBase]) -> Aligned:
    rank = max(o.rank for o in operands)
    shape, names = [], []
    for back in range(rank, 0, -1):
        here = [o for o in operands if o.rank >= back]
        shape.append(
            _common([o.shape[-back] if o.rank >= back else 1 for o in operands], f"dimension {-back}")
        )
        found = dict.fromkeys(o.names[-back] for o in here if o.names[-back])
        if len(found) > 1:
            a, b, *_ = found
            raise ProgramError(
                f"dimension {-back} is {a!r} in one operand and {b!r} in another; name all dimensions of "
                "both to align them by name, or rename one"
            )
        names.append(next(iter(found), ""))
    twice = sorted({n for n in names if n and names.count(n) > 1})
    if twice:
        raise ProgramError(f"two dimensions of the result would be called {twice[0]!r}; rename one")
    target = labels_for(names)
    labels = tuple(
        tuple(
            "" if size == 1 != wanted else label
            for size, wanted, label in zip(
                o.shape, shape[rank - o.rank :], target[rank - o.rank :], strict=True
            )
        )
        for o in operands
    )
    return Aligned(labels, target, tuple(shape), tuple(names))


def _common(sizes: Sequence[int], what: str) -> int:
    """Return the one size other than 1, or 1 if there is none.

    Raises:
        ProgramError: there are several.
    """
    others = [s for s in sizes if s != 1]
    if len(set(others)) > 1:
        if len(sizes) == 2:
            raise ProgramError(f"{what} is {sizes[0]} on the left and {sizes[1]} on the right")
        raise ProgramError(f"{what} is {', '.join(map(str, sizes))} in the operands")
    return others[0] if others else 1
