"""What the laws of contractions have in common: patterns of two operands, and names that say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.rule import Match, Op, Tensor, attr, op, tensor

X, Y, W, V = tensor("x"), tensor("y"), tensor("w"), tensor("v")
EINSUM = "distributivity and associativity of sums of products (Einstein notation)"


def contraction(name: str, labels: str, output: str, one: Tensor, other: Tensor) -> Op:
    """Left side: a contraction of two tensors, either way round."""
    return op("contract", one, other, labels=attr(labels), output=attr(output)).commutative().named(name)


def renaming(old: Sequence[Labels], new: Sequence[Labels]) -> Mapping[str, str] | None:
    """The names of `old` for those of `new` where both say the same of equal operands, else None."""
    if [len(a) for a in old] != [len(b) for b in new]:
        return None
    names: dict[str, str] = {}
    for a, b in zip(chain(*old), chain(*new), strict=True):
        if names.setdefault(b, a) != a:
            return None
    return names if len(set(names.values())) == len(names) else None


def agree(m: Match) -> bool:
    """Whether the contractions `l1 -> o1` and `l2 -> o2` are the same but for names and operands."""
    return renaming((*m["l1"], m["o1"]), (*m["l2"], m["o2"])) is not None
