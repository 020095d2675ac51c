"""Copies as statements: collectives where they are even, exchanges of pieces where they are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue
from tapestry.teg.exporters.spmd.collectives import (
    CollectiveCall,
    Regular,
    is_local,
    regular_fetch,
    regular_scatter,
)
from tapestry.teg.exporters.spmd.part_functions import PartFunctions, is_even
from tapestry.teg.exporters.spmd.per_rank import axes_text
from tapestry.teg.exporters.spmd.specs import SpecTexts
from tapestry.teg.exporters.spmd.statements import StatementList, started, variable
from tapestry.teg.sharding.copies import CollectiveStep, CopyPlan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Spec, boxes

Phase = Callable[[str], str]


class HostEnds(NamedTuple):
    """The ends of a copy on the host: it comes from there, goes there, and `is_alone` if it moves nothing else."""

    comes: bool = False
    goes: bool = False
    is_alone: bool = False

    def around(self, phases: list[Phase]) -> list[Phase]:
        """Return the phases of a copy with those between device and host.

        What devices exchange comes from the host before, whole.
        """
        coming = [_host_phase("to_device")] if self.comes else []
        going = [_host_phase("to_host")] if self.goes else []
        return [*phases, *coming, *going] if self.is_alone else [*coming, *phases, *going]


ON_DEVICES = HostEnds()


def _host_phase(function: str) -> Phase:
    return lambda text: f"{function}({text})"


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
        host: HostEnds = ON_DEVICES,
    ) -> Callable[[], None] | None:
        """Append the statements that make the buffer `result` from the text `source` of another buffer.

        A copy that is `early` and moves something is only started; the function returned appends the rest.
        """
        phases = self._phases(plan, shape)
        is_host = host.comes or host.goes
        if is_host and host.is_alone:  # what is needed is cut out before
            for phase in phases if phases[0](source) != source else ():
                source = variable(self.statements.temporary(phase(source)))
            phases = []
        first, *others = host.around(phases)
        text = first(source)
        if early and (is_host or plan.reduces or not is_local(plan, shape, self.mesh_shape)):
            coming = started(result)
            self.statements.assign(coming, text.replace("(", ".start(", 1))
            return partial(self._rest, result, f"{variable(coming)}.wait()", others, comment)
        self._rest(result, text, others, comment)
        return None

    def send(
        self, result: str, source: str, plan: CopyPlan, shape: tuple[int, ...], stage: int
    ) -> Callable[[], None]:
        """Append the statements that begin to send what another stage needs; the function returned waits for it."""
        text = self.reduced(source, plan, shape)
        going = started(result)
        self.statements.assign(going, f"send({text}, {self._sent(plan, shape, stage)})")
        return partial(self.statements.do, f"{variable(going)}.wait()")

    def reduced(self, source: str, plan: CopyPlan, shape: tuple[int, ...]) -> str:
        """Append the statements that leave a stage what it holds of what another one needs; return its text."""
        text = source
        for phase in self._reductions(plan, shape):
            text = variable(self.statements.temporary(phase(text)))
        return text

    def hand_over(self, text: str, plan: CopyPlan, shape: tuple[int, ...], stage: int) -> str:
        """Return the call by which one process gives a stage what another one holds."""
        return f"hand_over({text}, {self._sent(plan, shape, stage)})"

    def receive(
        self,
        result: str,
        dtype: str,
        plan: CopyPlan,
        shape: tuple[int, ...],
        stage: int,
        comment: str,
        early: bool,
    ) -> Callable[[], None] | None:
        """Append the statements that make a buffer of what another stage sends; see `write`."""
        arguments = f"{self.xp.dtype_text(dtype)}, {self._sent(plan, shape, stage)}"
        if not early:
            self.statements.receive(result, f"receive({arguments})", comment)
            return None
        coming = started(result)
        self.statements.receive(coming, f"receive.start({arguments})")
        return partial(self._rest, result, f"{variable(coming)}.wait()", [], comment)

    def _sent(self, plan: CopyPlan, shape: tuple[int, ...], stage: int) -> str:
        """Return what both stages state of a copy: what is held, what is needed, the other stage, and who shares."""
        assert plan.route is not None
        held, needed = (self.specs.text(spec, shape) for spec in (plan.middle, plan.needed))
        axes = [name for name, _ in self.mesh_shape.axes]
        slow = axes[: axes.index(plan.route.axis) + 1]
        apart = len({s.axis for s in self.mesh_shape.sub_axes if s.axis in slow})
        return f"{held}, {needed}, {stage}, {apart}"

    def _phases(self, plan: CopyPlan, shape: tuple[int, ...]) -> list[Phase]:
        """Return the phases of a copy, in order: each writes one call, of the text that it is given."""
        return self._reductions(plan, shape) + (self._fetched(plan, shape) if plan.fetch else [])

    def _reductions(self, plan: CopyPlan, shape: tuple[int, ...]) -> list[Phase]:
        phases = self._scattered(plan, shape) if plan.scatter else []
        return phases + ([partial(self._reduced, plan, shape)] if plan.reduce else [])

    def _rest(self, result: str, text: str, phases: Sequence[Phase], comment: str) -> None:
        """Append what follows the first phase of a copy, whose text is given."""
        for phase in phases:
            text = phase(variable(self.statements.temporary(text)))
        self.statements.assign(result, text, comment)

    def _scattered(self, plan: CopyPlan, shape: tuple[int, ...]) -> list[Phase]:
        """Return the reductions that leave each member its part: of one dimension after the other, if they are even."""
        option = self._monoid_option(plan)
        regular = regular_scatter(plan, shape, self.mesh_shape) if self._fits(plan, shape) else None
        if regular is None:
            held, middle = (self.specs.text(s.whole(), shape) for s in (plan.source, plan.middle))
            rest = f"{held}, {middle}, {self._steps(plan.scatter)}{option}"
            return [lambda text: f"reduce_scatter_parts({text}, {rest})"]
        held_boxes = boxes(plan.source, shape, self.mesh_shape)
        sizes, phases = held_boxes[:, :, 1] - held_boxes[:, :, 0], list[Phase]()
        for step in regular.steps:
            phases.append(partial(self._scattered_along, step, sizes, option))
            sizes = sizes.copy()
            sizes[:, step.cut] //= self.mesh_shape.size_of((*step.axes, *step.kept))
        return phases

    def _scattered_along(self, step: CollectiveCall, sizes: np.ndarray, option: str, text: str) -> str:
        """Write the reduce-scatter of a dimension of parts of `sizes` `(devices, rank)`."""
        value = TextValue(text, sizes, "")
        if step.kept:
            value = self.xp.named(self._kept(value, step))
        return f"reduce_scatter({value.text}, {step.cut}, {axes_text(step.axes, self.mesh_shape)}{option})"

    def _reduced(self, plan: CopyPlan, shape: tuple[int, ...], text: str) -> str:
        """Write the reductions that leave the result on all members."""
        if not plan.scatter:
            text = self._part(text, plan.source, plan.middle, shape)
        return f"all_reduce({text}, {self._steps(plan.reduce)}{self._monoid_option(plan)})"

    def _monoid_option(self, plan: CopyPlan) -> str:
        """Return the text of a reduction's function, as an argument that follows; a sum is meant without it."""
        monoid = plan.source.monoid
        return "" if monoid == "sum" else f", op={self.xp.combining[str(monoid)]}"

    def _kept(self, value: TextValue, step: CollectiveCall) -> TextValue:
        """Write the part of each part that this device keeps: by a dimension more, of parts."""
        cut, count = step.cut, self.mesh_shape.size_of(step.axes)
        size = value.shape[:, cut] // count
        parts = np.insert(value.shape, cut, count, axis=1)
        parts[:, cut + 1] = size
        own = size // self.mesh_shape.size_of(step.kept)
        start = self.mesh_shape.linear(step.kept) * own
        zeros = np.zeros_like(size)
        spans: list[DimSpan] = [(zeros, parts[:, k], 1) for k in range(parts.shape[1])]
        spans[cut + 1] = (start, start + own, 1)
        shape, joined = parts.copy(), value.shape.copy()
        shape[:, cut + 1], joined[:, cut] = own, count * own
        return self.xp.reshape(self.xp.part(self.xp.reshape(value, parts), spans, shape), joined)

    def _fetched(self, plan: CopyPlan, shape: tuple[int, ...]) -> list[Phase]:
        """Return the fetch: a local part, even collectives, or an exchange."""
        if is_local(plan, shape, self.mesh_shape):
            return [lambda text: self._part(text, plan.middle, plan.needed, shape)]
        regular = regular_fetch(plan, shape, self.mesh_shape) if self._fits(plan, shape) else None
        if regular is not None:
            first, *others = regular.steps
            phases: list[Phase] = [partial(self._fetched_along, regular.kind, step) for step in others]
            return [partial(self._first_fetched, plan, shape, regular, first), *phases]
        # Ranks that differ along a fast axis only share what comes from afar.
        function = "exchange" if len(self.mesh_shape.axes) == 1 else "shared_exchange"
        held, needed = (self.specs.text(spec, shape) for spec in (plan.middle, plan.needed))
        return [lambda text: f"{function}({text}, {held}, {needed})"]

    def _first_fetched(
        self, plan: CopyPlan, shape: tuple[int, ...], regular: Regular, step: CollectiveCall, text: str
    ) -> str:
        """Write the first collective of a fetch, of what is needed of a part."""
        if regular.sent is not None:
            text = self._local(text, boxes(plan.middle, shape, self.mesh_shape), regular.sent)
            text = variable(self.statements.temporary(text))
        return self._fetched_along(regular.kind, step, text)

    def _fetched_along(self, kind: str, step: CollectiveCall, text: str) -> str:
        dims = f"{step.joined}" if step.cut < 0 else f"{step.cut}, {step.joined}"
        return f"{kind}({text}, {dims}, {axes_text(step.axes, self.mesh_shape)})"

    def _fits(self, plan: CopyPlan, shape: tuple[int, ...]) -> bool:
        """Return whether parts of a copy have sizes with which a collective can be one call."""
        every = (boxes(spec, shape, self.mesh_shape) for spec in (plan.source, plan.middle, plan.needed))
        return self.functions is None or all(map(is_even, every))

    def _part(self, text: str, held: Spec, needed: Spec, shape: tuple[int, ...]) -> str:
        """Write the local part that is needed of the one that is held."""
        outside, inside = (boxes(spec, shape, self.mesh_shape) for spec in (held, needed))
        return self._local(text, outside, inside)

    def _local(self, text: str, outside: np.ndarray, inside: np.ndarray) -> str:
        """Write the boxes `inside` `(devices, rank, 2)` of a buffer that is the boxes `outside`."""
        value = TextValue(text, outside[:, :, 1] - outside[:, :, 0], "")
        spans: list[DimSpan] = []
        for k in range(inside.shape[1]):
            start, stop = inside[:, k, 0] - outside[:, k, 0], inside[:, k, 1] - outside[:, k, 0]
            spans.append((np.where(stop > start, start, 0), np.where(stop > start, stop, 0), 1))
        sizes = inside[:, :, 1] - inside[:, :, 0]
        if self.functions is not None and not (is_even(inside) and is_even(outside)):
            return self.functions.call("slice", [value], lambda xp, v: [xp.part(v[0], spans, sizes).text])
        return self.xp.part(value, spans, sizes).text

    def _steps(self, steps: tuple[CollectiveStep, ...]) -> str:
        """Return the text of steps, a list of axes each, as arguments that follow."""
        return ", ".join(f"[{axes_text(axes, self.mesh_shape)}]" for _, axes in steps)
