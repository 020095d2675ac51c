"""Sides of rules that stand for more than one block: all that makes a tensor, and fused blocks.

On the left `above`, on the right `fuse()` and `SpellOut()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapestry.rewrites.fused_form import FusedForm
from tapestry.rewrites.sight import Sight
from tapestry.teg.graph import Block


@dataclass(frozen=True, eq=False)
class Above:
    """Left side only: a tensor, with the blocks of some operators that make it out of blocks of `ends`.

    `all_operands`: all tensors in a row instead. `private`: operators of blocks that ends and others take in
    besides, where nobody outside the match reads them. `takes(draft, block, root)` may refuse a block. `through`:
    on the ways stands at least one block of this kind.
    """

    operators: tuple[str, ...]
    ends: tuple[str, ...]
    most: int
    all_operands: bool = False
    private: tuple[str, ...] = ()
    takes: Callable[[Sight, Block, Block], bool] | None = None
    through: Callable[[Block], bool] | None = None


@dataclass(frozen=True, eq=False)
class Fuse:
    """Right side only: all matched blocks become one fused block (`rewrites.fused_form`).

    What blocks outside read becomes a further output of it; with `recomputes` it keeps its maker instead, and
    the fused block computes it again. Readers of what is matched whose operators are in `joined` become part of
    the block where they can. `finished` has the last word on the block.
    """

    recomputes: bool = False
    joined: tuple[str, ...] = ()
    finished: Callable[[FusedForm], FusedForm] = lambda form: form


@dataclass(frozen=True, eq=False)
class SpellOut:
    """Right side only: the matched fused block becomes the blocks that it does the work of."""


def above(
    *operators: str, ends: Sequence[str], most: int, through: Callable[[Block], bool] | None = None
) -> Above:
    """Left: a tensor and all blocks on the ways to it that begin with a block of `ends` and then go through at
    most `most` blocks of these operators. What else these blocks read is left outside. `through` says of which kind
    one of these blocks must be at least.
    """
    return Above(operators, tuple(ends), most, through=through)


def all_above(
    *operators: str,
    ends: Sequence[str],
    most: int,
    private: Sequence[str] = (),
    takes: Callable[[Sight, Block, Block], bool] | None = None,
) -> Above:
    """Left: any operands in a row, and all blocks on the ways to them as for `above`; an end may be an operand.

    Blocks of `private` operators that only matched blocks read are matched too; `takes(draft, block, root)`
    may refuse blocks.
    """
    return Above(operators, tuple(ends), most, True, tuple(private), takes)


def fuse(recomputes: bool = False, joined: Sequence[str] = ()) -> Fuse:
    """A right side: all matched blocks as one fused block.

    Inner values that others read become further outputs; with `recomputes` their makers stay for them. Readers
    of matched values whose operator is in `joined` are taken in, as far as order shows that no cycle arises.
    """
    return Fuse(recomputes, tuple(joined))
