"""What a real kernel could do: one fused block whose parts are independent and keep little between steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rewrites.fused_form import FusedForm, region
from rewrites.rule import Match
from teg.graph import Definition
from teg.operators import body_of
from teg.operators.fused_space import space_of
from teg.operators.fused_values import between_bytes
from teg.signature import PARALLEL
from teg.zspace import ZRange

# What one part may keep between steps: the fast memory of a core, give or take.
MOST_BETWEEN_BYTES = 1 << 20


def form_of(m: Match, recomputes: bool = False, joined: Sequence[str] = ()) -> FusedForm | None:
    """The matched blocks as one fused block; None where they cannot be one."""
    form = region(m.draft, m.roots, m.blocks, recomputes, joined).form()
    try:
        form.define()
    except ValueError:
        return None
    return form


def streams(form: FusedForm) -> bool:
    """Whether the block falls into independent parts whose values between steps stay in fast memory."""
    definition, _ = form.define()
    signature = definition.signature
    if signature is None or not any(d.kind == PARALLEL and d.size > 1 for d in signature.dims):
        return False
    return least_between_bytes(definition) <= MOST_BETWEEN_BYTES


@lru_cache(maxsize=4096)
def least_between_bytes(fused: Definition) -> int:
    """What the smallest part of a fused block keeps between steps."""
    body = body_of(fused)
    space = space_of(body)
    return between_bytes(body, space, ZRange.of_shape([min(1, n) for n in space.index_range.shape]))
