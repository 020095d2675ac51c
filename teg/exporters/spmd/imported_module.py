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
