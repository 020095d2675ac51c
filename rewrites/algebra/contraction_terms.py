"""Helpers of the contraction laws: patterns of two operands, and renamings between equivalent names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.rule import Match, Op, TensorPattern, attr, op, tensor

X, Y, W, V = tensor("x"), tensor("y"), tensor("w"), tensor("v")
EINSUM = "distributivity and associativity of sums of products (Einstein notation)"


def contraction(name: str, labels: str, output: str, one: TensorPattern, other: TensorPattern) -> Op:
    """Build the left-hand-side pattern of a contraction of two tensors, in either operand order."""
    return op("contract", one, other, labels=attr(labels), output=attr(output)).commutative().named(name)


def renaming(old: Sequence[Labels], new: Sequence[Labels]) -> Mapping[str, str] | None:
    """Map the names of `new` to those of `old` if both describe equal operands alike, else return None."""
    if [len(a) for a in old] != [len(b) for b in new]:
        return None
    names: dict[str, str] = {}
    for a, b in zip(chain(*old), chain(*new), strict=True):
        if names.setdefault(b, a) != a:
            return None
    return names if len(set(names.values())) == len(names) else None


def agree(m: Match) -> bool:
    """Return whether the contractions `l1 -> o1` and `l2 -> o2` are the same up to names and operands."""
    return renaming((*m["l1"], m["o1"]), (*m["l2"], m["o2"])) is not None
