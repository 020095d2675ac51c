"""The search stage of a pipeline: rewritten programs compared by what they cost on one device, the fastest kept."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.structure.criteria import criteria_of
from tapestry.optimizer.structure.search import StructuralSearch
from tapestry.rewrites import Rule
from tapestry.rewrites.pipelines import Search, Searched
from tapestry.rewrites.rules import catalog
from tapestry.teg.graph import Graph

# The share of the evaluations that a program's size warrants at the start of a run: a pipeline is waited for.
EFFORT = 0.2


def search_on(device: Device, most: int | None = None) -> Search:
    """Return a search that rewrites a program by some rules to the fastest one found on one device.

    After each move the program is simplified by all rules that end by themselves. At most `most` rewritten programs
    are evaluated; none is random, and no clock is read: the same program gives the same result.
    """

    known = KnownObjectives()
    objectives = known.require(("time_s", "peak_memory_bytes"), device)
    criteria = criteria_of(objectives, (), Mesh(device.name, device, ()), RunOptions().epsilon, known)

    def search(graph: Graph, rules: Sequence[Rule], refused: Sequence[str] = ()) -> Searched:
        simplifying = [
            r for r in catalog().values() if r.saturating and r not in rules and r.name not in refused
        ]
        structural = StructuralSearch((*simplifying, *rules))
        found = structural.presearch(graph, (), criteria, RunOptions(), most, EFFORT).run()
        return Searched(found[0].graph, found[0].moves, structural.refused)

    return search
