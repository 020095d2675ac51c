"""What a real kernel could do: one fused block whose parts are independent and keep little between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewrites.fused_form import FusedForm, fused_form
from rewrites.laws import functions_of
from rewrites.rule import Match
from teg.graph import Definition, TensorType
from teg.operators import body_of
from teg.operators.fused_space import space_of
from teg.operators.fused_values import between_bytes
from teg.signature import PARALLEL
from teg.zspace import ZRange

# What one part may keep between steps: the fast memory of a core, give or take.
MOST_BETWEEN_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Computing:
    """An attribute pattern: cells whose expression applies at least one of these functions."""

    functions: frozenset[str]

    def ways(self, definition: Definition, _: Sequence[TensorType]) -> Sequence[Mapping[str, Any]]:
        """One way, or none."""
        return () if self.functions.isdisjoint(functions_of(definition)) else ({},)


def computing(*functions: str) -> Computing:
    """Left side: `inside` of a cell that applies one of these functions."""
    return Computing(frozenset(functions))


def form_of(m: Match, recomputes: bool = False) -> FusedForm | None:
    """The matched blocks as one fused block; None where they cannot be one."""
    form = fused_form(m.draft, m.roots, m.blocks, recomputes)
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
    return between_bytes(body, space, ZRange.of_shape([min(1, d.size) for d in space.signature.dims]))
