"""Copies as statements: collectives where they are even, exchanges of pieces where they are not."""

from __future__ import annotations

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue
from tapestry.teg.exporters.spmd.collectives import is_local, regular_fetch, regular_scatter
from tapestry.teg.exporters.spmd.part_functions import PartFunctions, is_even
from tapestry.teg.exporters.spmd.specs import SpecTexts
from tapestry.teg.exporters.spmd.statements import StatementList, variable
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes


class CopyWriter:
    """Writes the copies of one program; `xp` is the namespace of statements that all devices run.

    Where parts of one size are needed, `functions` writes what is local to devices with parts of others.
    """

    def __init__(
        self, mesh_shape: MeshShape, specs: SpecTexts, xp: ArrayText, functions: PartFunctions | None
    ) -> None:
        self.mesh_shape, self.specs, self.xp, self.functions = mesh_shape, specs, xp, functions
        self.statements: StatementList = xp.statements

    def write(self, result: str, source: str, plan: CopyPlan, shape: tuple[int, ...], comment: str) -> None:
        """Append the statements that make the buffer `result` from the text `source` of another buffer."""
        text = source
        phases = [self._reduced] if plan.reduces else []
        if plan.fetch:
            phases.append(self._fetched)
        for number, phase in enumerate(phases):
            text = phase(text, plan, shape)
            if number + 1 < len(phases):
                text = variable(self.statements.temporary(text))
        self.statements.assign(result, text, comment)

    def _reduced(self, text: str, plan: CopyPlan, shape: tuple[int, ...]) -> str:
        """Write the reductions: scatter steps first, then those that leave the result on all members."""
        monoid = plan.source.monoid
        option = "" if monoid == "sum" else f', op="{monoid}"'
        if plan.scatter:
            regular = regular_scatter(plan, shape, self.mesh_shape) if self._fits(plan, shape) else None
            if regular is not None:
                text = f"reduce_scatter({text}, {regular.cut}, {_axes_text(regular.axes)}{option})"
            else:
                held, middle = (self.specs.text(s.whole(), shape) for s in (plan.source, plan.middle))
                steps = _steps_text(plan.scatter)
                text = f"reduce_scatter_parts({text}, {held}, {middle}, {steps}{option})"
        else:
            text = self._part(text, plan.source, plan.middle, shape)
        if not plan.reduce:
            return text
        if plan.scatter:
            text = variable(self.statements.temporary(text))
        return f"all_reduce({text}, {_steps_text(plan.reduce)}{option})"

    def _fetched(self, text: str, plan: CopyPlan, shape: tuple[int, ...]) -> str:
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


def _axes_text(axes: tuple[str, ...]) -> str:
    """Return the text of a group's sub-axes."""
    return ", ".join(f'"{a}"' for a in axes)


def _steps_text(steps: tuple[CollectiveStep, ...]) -> str:
    """Return the text of steps, a list of sub-axes each, as arguments that follow."""
    return ", ".join(f"[{_axes_text(axes)}]" for _, axes in steps)
