"""Feasibility of kernels: a fused block whose parts are independent and keep little between steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapestry.rewrites.fused_form import FusedRegion, region
from tapestry.rewrites.rule import Match
from tapestry.teg.operators.fused_body import check_use
from tapestry.teg.operators.fused_space import space_of
from tapestry.teg.operators.fused_values import between_bytes
from tapestry.teg.signature import PARALLEL, IndexDim
from tapestry.teg.zspace import ZRange

# What one part may keep between steps: the fast memory of a core, give or take.
MOST_BETWEEN_BYTES = 1 << 20

# Equal layers are estimated once; a long search meets new ones without end.
MOST_ESTIMATES = 1 << 14


class KernelEstimate(NamedTuple):
    """The evaluation of a fused block before it exists.

    It holds its index dimensions, the bytes that its smallest part keeps between steps, and the number of results.
    """

    dims: tuple[IndexDim, ...]
    between_bytes: int
    outputs: int

    @property
    def parallel(self) -> int:
        """The number of dimensions that split it into independent parts."""
        return sum(d.kind == PARALLEL and d.size > 1 for d in self.dims)

    @property
    def streams(self) -> bool:
        """True if it splits into independent parts whose values between steps stay in fast memory."""
        return self.parallel > 0 and self.between_bytes <= MOST_BETWEEN_BYTES


_estimates: dict[tuple[Any, ...], KernelEstimate | None] = {}


def estimated(m: Match, recomputes: bool = False, joined: Sequence[str] = ()) -> KernelEstimate | None:
    """Evaluate the matched blocks as one fused block; None if they cannot be one."""
    whole = region(m.edited, m.roots, m.blocks, recomputes, joined)
    key = whole.key
    if key not in _estimates:
        if len(_estimates) >= MOST_ESTIMATES:
            _estimates.clear()
        _estimates[key] = _estimate(whole)
    return _estimates[key]


def _estimate(whole: FusedRegion) -> KernelEstimate | None:
    body = whole.body()
    if any(s.definition.signature is None or s.operator.meaningless for s in body.steps):
        return None
    try:
        check_use(body)
    except ValueError:
        return None
    space = space_of(body)
    smallest = ZRange.of_shape([min(1, n) for n in space.index_range.shape])
    return KernelEstimate(space.signature.dims, between_bytes(body, space, smallest), len(body.outputs))
