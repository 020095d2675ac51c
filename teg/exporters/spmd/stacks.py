"""Sources and sinks of plans with rounds as arrays of a program: slices are stacked along a dimension of their own.

A source of `(8, 64)` of which 4 rounds take slices of its first dimension is `(4, 2, 64)` to an exported program, of
which a device has `(4, 1, 64)`: whole values are reshaped, nothing is moved. Without rounds it is all as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.teg.sharding.expand import ExplicitGraph


@dataclass(frozen=True, eq=False)
class Stack:
    """The parts that devices of a stage have of an array of `shape`: `boxes` `(devices, rank, 2)`, by round.

    There is a key of a buffer for each round. The rounds are along `dim`; there is none where there is but one key.
    """

    keys: tuple[str, ...]
    shape: tuple[int, ...]
    boxes: np.ndarray
    dim: int | None
    stage: int = 0

    @property
    def devices(self) -> range:
        """The devices of the stage, as those of all stages are numbered: one for each of the boxes."""
        return range(self.stage * len(self.boxes), (self.stage + 1) * len(self.boxes))

    def parts_of(self, value: np.ndarray) -> list[np.ndarray]:
        """Cut a whole value into the parts that devices have."""
        stacked = value.reshape(self.shape)
        return [stacked[tuple(slice(a, b) for a, b in box)] for box in self.boxes]


def source_stacks(explicit: ExplicitGraph) -> dict[str, Stack]:
    """Return what devices have of each source, by its site; keys are those of buffers."""
    keys: dict[str, list[str]] = {}
    for key, tensor in explicit.sources.items():
        keys.setdefault(tensor, []).append(key)
    found = {}
    for block in explicit.abstract.sources:
        (tensor,) = block.outputs
        shape = explicit.abstract.tensors[tensor].shape
        buffer = explicit.buffers[keys[tensor][0]]
        found[block.site] = _stack(keys[tensor], shape, buffer.boxes, buffer.stage)
    return found


def sink_stacks(explicit: ExplicitGraph) -> dict[str, Stack]:
    """Return what devices have of each output, by its site; keys are those of the buffers that its reads are from."""
    steps: dict[str, list[tuple[str, np.ndarray]]] = {}
    stages: dict[str, int] = {}
    for slot in explicit.slots:
        if slot.step.definition.operator == "sink":
            (read,) = slot.step.reads
            steps.setdefault(slot.step.site, []).append((read.buffer, read.wanted))
            stages[slot.step.site] = slot.step.stage
    tensors = explicit.abstract.tensors
    shapes = {block.site: tensors[block.inputs[0]].shape for block in explicit.abstract.sinks}
    return {
        site: _stack([key for key, _ in found], shapes[site], found[0][1], stages[site])
        for site, found in steps.items()
    }


def given_parts(explicit: ExplicitGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Cut whole values of sources into the parts that devices begin with; stored values are the plan's."""
    data, by_site = explicit.abstract.data, explicit.abstract.by_site
    return {
        site: stack.parts_of(inputs[site] if site in inputs else data[by_site[site].outputs[0]])
        for site, stack in source_stacks(explicit).items()
    }


def _stack(keys: Sequence[str], shape: tuple[int, ...], boxes: np.ndarray, stage: int) -> Stack:
    """Return the stack of slices of a tensor of `shape`, the first of which is in `boxes` on the devices."""
    count = len(keys)
    if count == 1:
        return Stack(tuple(keys), shape, boxes, None, stage)
    last = boxes[:, :, 1].max(axis=0)
    dim = next(k for k, size in enumerate(shape) if last[k] == size // count and size > last[k])
    rounds = np.broadcast_to((0, count), (len(boxes), 1, 2))
    stacked = np.concatenate([boxes[:, :dim], rounds, boxes[:, dim:]], axis=1)
    whole = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    return Stack(tuple(keys), whole, stacked, dim, stage)
