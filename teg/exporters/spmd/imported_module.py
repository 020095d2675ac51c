"""A module of a plan that is imported again: it says itself what is computed, the plan which parts devices have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tapestry.teg.double import in_double
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure
from tapestry.teg.sharding.expand import ExplicitGraph

# How many faults an error shows.
SHOWN = 5


@dataclass(frozen=True)
class ImportedModule(ABC):
    """A module of the plan `explicit`: `graph` computes what all devices do, from their parts of inputs."""

    explicit: ExplicitGraph
    graph: Graph

    def in_double(self) -> Self:
        """Return the module in double precision.

        Raises:
            ValueError: it reads the bits of floats.
        """
        return replace(self, graph=in_double(self.graph))

    @abstractmethod
    def outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
        """Compute the part of each output that every device has, from whole values of the plan's sources."""


def refuse_module(faults: Sequence[str], hint: str = "") -> None:
    """Refuse a module that has faults.

    Raises:
        ImportFailure: there are any.
    """
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        advice = f"; {hint}" if hint else ""
        raise ImportFailure(f"this is no program of the plan: {'; '.join(faults[:SHOWN])}{more}{advice}")


def source_parts(explicit: ExplicitGraph) -> dict[tuple[str, str], np.ndarray]:
    """Return the boxes of each source that devices hold, `(devices, rank, 2)`, by its site and tensor."""
    tensors = [(block.site, block.outputs[0]) for block in explicit.abstract.sources]
    return {(site, t): explicit.buffers[explicit.sources[t]].boxes for site, t in tensors}


def observed_parts(explicit: ExplicitGraph) -> dict[str, np.ndarray]:
    """Return the boxes of each output that devices have, `(devices, rank, 2)`, by sink."""
    sinks = {block.site for block in explicit.abstract.sinks}
    steps = [slot.step for slot in explicit.slots if slot.step.site in sinks]
    return {step.site: step.reads[0].wanted for step in steps}


def given_parts(explicit: ExplicitGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Cut whole values of sources into the parts that devices begin with; stored values are the plan's."""
    data = explicit.abstract.data
    return {
        site: parts_of(inputs[site] if site in inputs else data[tensor], boxes)
        for (site, tensor), boxes in source_parts(explicit).items()
    }


def parts_of(value: np.ndarray, boxes: np.ndarray) -> list[np.ndarray]:
    """Cut a tensor into the parts that devices have, given their boxes `(devices, rank, 2)`."""
    return [value[tuple(slice(a, b) for a, b in box)] for box in boxes]
