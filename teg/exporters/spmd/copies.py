"""Copies as statements: collectives where they are even, exchanges of pieces where they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue
from tapestry.teg.exporters.spmd.collectives import is_local, regular_fetch, regular_scatter
from tapestry.teg.exporters.spmd.part_functions import PartFunctions, is_even
from tapestry.teg.exporters.spmd.specs import SpecTexts
from tapestry.teg.exporters.spmd.statements import StatementList, started, variable
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes

Phase = Callable[[str], str]


class CopyWriter:
    """Writes the copies of one program; `xp` is the namespace of statements that all devices run.

    Where parts of one size are needed, `functions` writes what is local to devices with parts of others.
    """

    def __init__(
        self, mesh_shape: MeshShape, specs: SpecTexts, xp: ArrayText, functions: PartFunctions | None
    ) -> None:
        self.mesh_shape, self.specs, self.xp, self.functions = mesh_shape, specs, xp, functions
        self.statements: StatementList = xp.statements

    def write(
        self,
        result: str,
        source: str,
        plan: CopyPlan,
        shape: tuple[int, ...],
        comment: str,
        early: bool = False,
    ) -> Callable[[], None] | None:
        """Append the statements that make the buffer `result` from the text `source` of another buffer.

        A copy that is `early` and moves something is only started; the function returned appends the rest.
        """
        first, *others = self._phases(plan, shape)
        text = first(source)
        if early and (plan.reduces or not is_local(plan, shape, self.mesh_shape)):
            coming = started(result)
            self.statements.assign(coming, text.replace("(", ".start(", 1))
            return partial(self._rest, result, f"{variable(coming)}.wait()", others, comment)
        self._rest(result, text, others, comment)
        return None

    def _phases(self, plan: CopyPlan, shape: tuple[int, ...]) -> list[Phase]:
        """Return the phases of a copy, in order."""
        present = [
            (plan.scatter, self._scattered),
            (plan.reduce, self._reduced),
            (plan.fetch, self._fetched),
        ]
        return [partial(phase, plan, shape) for wanted, phase in present if wanted]

    def _rest(self, result: str, text: str, phases: Sequence[Phase], comment: str) -> None:
        """Append what follows the first phase of a copy, whose text is given."""
        for phase in phases:
            text = phase(variable(self.statements.temporary(text)))
        self.statements.assign(result, text, comment)

    def _scattered(self, plan: CopyPlan, shape: tuple[int, ...], text: str) -> str:
        """Write the reductions that leave each member its part of the result."""
        option = _monoid_option(plan)
        regular = regular_scatter(plan, shape, self.mesh_shape) if self._fits(plan, shape) else None
        if regular is not None:
            return f"reduce_scatter({text}, {regular.cut}, {_axes_text(regular.axes)}{option})"
        held, middle = (self.specs.text(s.whole(), shape) for s in (plan.source, plan.middle))
        return f"reduce_scatter_parts({text}, {held}, {middle}, {_steps_text(plan.scatter)}{option})"

    def _reduced(self, plan: CopyPlan, shape: tuple[int, ...], text: str) -> str:
        """Write the reductions that leave the result on all members."""
        if not plan.scatter:
            text = self._part(text, plan.source, plan.middle, shape)
        return f"all_reduce({text}, {_steps_text(plan.reduce)}{_monoid_option(plan)})"

    def _fetched(self, plan: CopyPlan, shape: tuple[int, ...], text: str) -> str:
        if is_local(plan, shape, self.mesh_shape):
            return self._part(text, plan.middle, plan.needed, shape)
        regular = regular_fetch(plan, shape, self.mesh_shape) if self._fits(plan, shape) else None
        if regular is not None and regular.kind == "all_gather":
            return f"all_gather({text}, {regular.joined}, {_axes_text(regular.axes)})"
        if regular is not None:
            return f"all_to_all({text}, {regular.cut}, {regular.joined}, {_axes_text(regular.axes)})"
        return (
            f"exchange({text}, {self.specs.text(plan.middle, shape)}, {self.specs.text(plan.needed, shape)})"
        )

    def _fits(self, plan: CopyPlan, shape: tuple[int, ...]) -> bool:
        """Return whether parts of a copy have sizes with which a collective can be one call."""
        every = (boxes(spec, shape, self.mesh_shape) for spec in (plan.source, plan.middle, plan.needed))
        return self.functions is None or all(map(is_even, every))

    def _part(self, text: str, held: Spec, needed: Spec, shape: tuple[int, ...]) -> str:
        """Write the local part that is needed of the one that is held."""
        inside, outside = boxes(needed, shape, self.mesh_shape), boxes(held, shape, self.mesh_shape)
        value = TextValue(text, outside[:, :, 1] - outside[:, :, 0], "")
        spans: list[DimSpan] = []
        for k in range(len(shape)):
            start, stop = inside[:, k, 0] - outside[:, k, 0], inside[:, k, 1] - outside[:, k, 0]
            spans.append((np.where(stop > start, start, 0), np.where(stop > start, stop, 0), 1))
        sizes = inside[:, :, 1] - inside[:, :, 0]
        if self.functions is not None and not (is_even(inside) and is_even(outside)):
            return self.functions.call("slice", [value], lambda xp, v: [xp.part(v[0], spans, sizes).text])
        return self.xp.part(value, spans, inside[:, :, 1] - inside[:, :, 0]).text


def _monoid_option(plan: CopyPlan) -> str:
    """Return the text of a reduction's monoid, as an argument that follows; a sum is meant without it."""
    monoid = plan.source.monoid
    return "" if monoid == "sum" else f', op="{monoid}"'


def _axes_text(axes: tuple[str, ...]) -> str:
    """Return the text of a group's sub-axes."""
    return ", ".join(f'"{a}"' for a in axes)


def _steps_text(steps: tuple[CollectiveStep, ...]) -> str:
    """Return the text of steps, a list of sub-axes each, as arguments that follow."""
    return ", ".join(f"[{_axes_text(axes)}]" for _, axes in steps)
