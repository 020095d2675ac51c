"""Runs of several steps: state begins a step where the step before left it, and nothing moves in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import Execution
from tapestry.hardware.simulator.run import simulate
from tapestry.teg.sharding.expand import ExplicitGraph
from tapestry.teg.sharding.partition import same_boxes


def simulate_steps(
    program: ExplicitGraph,
    mesh: Mesh,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    steps: int,
    **options: Any,
) -> Iterator[Execution]:
    """Run `program` so many times and yield each run; `options` and `inputs` are those of `simulate`.

    Inputs are the same in all steps, but for carried state: after the first step, it begins as the step before left it.

    Raises:
        RuntimeError: a step leaves state elsewhere than where it begins.
    """
    if steps > 1:
        check_state(program)
    state = None
    for _ in range(steps):
        execution = simulate(program, mesh, inputs, state=state, **options)
        yield execution
        state = execution.state


def check_state(program: ExplicitGraph) -> None:
    """Check that every device ends a step with the part of each state, as a buffer in the layout with which it begins.

    Raises:
        RuntimeError: it does not; the message names the state and a device.
    """
    graph = program.abstract
    for slot in program.slots:
        source = graph.carriers.get(slot.step.site)
        if source is None:
            continue
        read, begun = slot.step.reads[0], program.buffers[program.sources[source.outputs[0]]]
        held = program.buffers[read.buffer]
        if held.stage != begun.stage:
            raise RuntimeError(
                f"state {source.site!r} ends a step on stage {held.stage} and begins one on stage {begun.stage}"
            )
        differs = ~same_boxes(held.boxes, begun.boxes)
        if differs.any():
            device = int(np.flatnonzero(differs)[0])
            raise RuntimeError(
                f"device {device} ends a step with the part {held.boxes[device].tolist()} of state {source.site!r}, "
                f"and begins one with {begun.boxes[device].tolist()}"
            )
        if held.layout != begun.layout:
            raise RuntimeError(
                f"state {source.site!r} ends a step in layout {held.layout!r} and begins one in {begun.layout!r}"
            )
