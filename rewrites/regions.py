"""Sides of rules that stand for more than one block: all blocks that produce a tensor, and fused blocks.

On the left `above`, on the right `fuse()`, `ExpandFused()`, `Repeat()` and `PutWaypoint()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapestry.rewrites.fused_form import FusedForm
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block


@dataclass(frozen=True, eq=False)
class Above:
    """A left-side term: a tensor, with the blocks of some operators that compute it from blocks of `ends`.

    `all_operands`: all tensors in a row instead. `private`: operators of blocks that are matched in addition, if
    nothing outside the match reads them. `takes(edited, block, root)` may refuse a block. `through`: the paths
    contain at least one block of this kind.
    """

    operators: tuple[str, ...]
    ends: tuple[str, ...]
    most: int
    all_operands: bool = False
    private: tuple[str, ...] = ()
    takes: Callable[[TrackedGraph, Block, Block], bool] | None = None
    through: Callable[[Block], bool] | None = None


@dataclass(frozen=True, eq=False)
class Fuse:
    """A right side: all matched blocks become one fused block (`rewrites.fused_form`).

    A value that blocks outside read becomes a further output of it; with `recomputes` it keeps its producer instead,
    and the fused block recomputes it. Readers of matched values whose operators are in `joined` become part of
    the block where they can. `finished` may change the final block.
    """

    recomputes: bool = False
    joined: tuple[str, ...] = ()
    finished: Callable[[FusedForm], FusedForm] = lambda form: form


@dataclass(frozen=True, eq=False)
class ExpandFused:
    """A right side: the matched fused block is expanded into the blocks of its steps."""


@dataclass(frozen=True, eq=False)
class Repeat:
    """A right side: the matched block stays, and a repetition of it is added for its late readers.

    The choice says how many readers are early (`rewrites.repeating`). `changed` may change the repetition's block.
    """

    changed: Callable[[Block], Block] = lambda block: block


@dataclass(frozen=True, eq=False)
class PutWaypoint:
    """A right side: the matched block stays, and its late readers read a waypoint (`rewrites.waypoints`).

    It lies in a `memory`, by default that of the devices. `changed` may change the waypoint's block.
    """

    memory: str = ""
    changed: Callable[[Block], Block] = lambda block: block


def above(
    *operators: str, ends: Sequence[str], most: int, through: Callable[[Block], bool] | None = None
) -> Above:
    """Build a left-side term: a tensor and all blocks on the paths to it from blocks of `ends`.

    The paths begin with a block of `ends` and then go through at most `most` blocks of these operators. Other inputs
    of these blocks are left outside. At least one of these blocks must satisfy `through`.
    """
    return Above(operators, tuple(ends), most, through=through)


def all_above(
    *operators: str,
    ends: Sequence[str],
    most: int,
    private: Sequence[str] = (),
    takes: Callable[[TrackedGraph, Block, Block], bool] | None = None,
) -> Above:
    """Build a left-side term: any operands in a row, with all blocks on the paths to them as for `above`.

    An end may be an operand. Blocks of `private` operators that only matched blocks read are matched too;
    `takes(edited, block, root)` may refuse blocks.
    """
    return Above(operators, tuple(ends), most, True, tuple(private), takes)


def fuse(recomputes: bool = False, joined: Sequence[str] = ()) -> Fuse:
    """Build a right side: all matched blocks as one fused block.

    Inner values that others read become further outputs; with `recomputes` their producers stay for them. Readers
    of matched values whose operator is in `joined` are fused too, as far as order shows that no cycle arises.
    """
    return Fuse(recomputes, tuple(joined))
