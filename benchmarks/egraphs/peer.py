"""egglog's side of the comparison: saturate, extract four ways, judge what came out by our cost model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.egraphs.decoding import decoded
from benchmarks.egraphs.extraction import Chosen, Cost, Solution, classes_of, greedy, optimal
from benchmarks.egraphs.kinds import Kinds
from benchmarks.egraphs.laws import Laws
from benchmarks.egraphs.saturation import Limits, Saturation
from benchmarks.egraphs.shared import normal_rules, shared_rules
from costmodel.plain import plain_cost
from hardware.mesh import Mesh
from hardware.timing import TICKS_PER_S
from teg.graph import Graph
from teg.sharding.placement import Placements
from teg.validate import InvalidGraph

__all__ = ["Limits", "Peer", "judged"]


def judged(graph: Graph, mesh: Mesh) -> dict[str, float]:
    """Time and peak memory of a program on one device, by the plain cost model."""
    tally = plain_cost(graph, Placements(), mesh)
    return {
        "time_s": tally.time_ticks / TICKS_PER_S,
        "peak_memory_bytes": float(tally.peak_memory_bytes),
    }


class Peer:
    """A program, its e-graph and what is taken out of it."""

    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        self.graph, self.mesh = graph, mesh
        self.kinds = Kinds(mesh)
        self.saturation = Saturation(shared_rules(), self.kinds, Laws(self.kinds, normal_rules()))

    def run(self, limits: Limits, ilp_s: float) -> dict[str, Any]:
        """Saturate and extract; `cpu_s` is that of saturation and of the integer program by time, `engine_cpu_s`
        without our Python that works out guards and right sides and hands them over.
        """
        self.saturation.insert(self.graph)
        report = self.saturation.saturate(limits)
        programs: dict[str, dict[str, Any]] = {}
        egraph, root = self.saturation.egraph, self.saturation.root
        classes = classes_of(egraph, self.saturation.frozen(), root)
        for name, cost in self.costs().items():
            for number in set(classes.kinds):
                cost(number)
            began = time.process_time()
            chosen = greedy(egraph, root, cost)
            cpu_s = time.process_time() - began
            programs[f"greedy_{name}"] = {"cpu_s": cpu_s, **self.described(chosen, cost)}
            solution = optimal(classes, cost, ilp_s, chosen.total(cost))
            programs[f"ilp_{name}"] = self.solved(solution, cost)
        return {
            "saturation": asdict(report),
            "classes": len(set(classes.owner)),
            "programs": programs,
            "cpu_s": report.egglog_s + report.laws_s + report.loading_s + programs["ilp_time"]["cpu_s"],
            "engine_cpu_s": report.egglog_s + programs["ilp_time"]["cpu_s"],
        }

    def costs(self) -> Mapping[str, Cost]:
        """Additive costs: time alone, and bytes with time to break ties."""
        return {"time": self.kinds.ticks, "bytes": self._bytes}

    def _bytes(self, number: int) -> int:
        return 1000 * self.kinds.size_bytes(number) + self.kinds.ticks(number) // 1000

    def described(self, chosen: Chosen, cost: Cost) -> dict[str, Any]:
        """A chosen program: its additive cost and what our cost model says of it, or why it is none."""
        try:
            program = decoded(self.graph, self.kinds, chosen)
        except InvalidGraph as error:
            return {"additive": chosen.total(cost), "invalid": str(error)}
        return {"additive": chosen.total(cost), "cost": judged(program, self.mesh)}

    def solved(self, solution: Solution, cost: Cost) -> dict[str, Any]:
        """What the integer program came to."""
        found = self.described(solution.chosen, cost) if solution.chosen is not None else {}
        return {**{k: v for k, v in solution._asdict().items() if k != "chosen"}, **found}
