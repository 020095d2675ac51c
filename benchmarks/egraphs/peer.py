"""egglog's side of the comparison: saturation, extraction in four ways, evaluation of the results by our cost model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.egraphs.decoding import decoded
from benchmarks.egraphs.extraction import Chosen, Cost, classes_of, greedy, optimal
from benchmarks.egraphs.kinds import Kinds
from benchmarks.egraphs.laws import Laws
from benchmarks.egraphs.saturation import Saturation, SaturationLimits
from benchmarks.egraphs.shared import normal_rules, shared_rules
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.validate import InvalidGraphError

__all__ = ["Peer", "SaturationLimits", "evaluated"]


def evaluated(graph: Graph, mesh: Mesh) -> dict[str, float]:
    """Compute the time and peak memory of a program on one device, by the reference cost model."""
    tally = reference_cost(graph, Placements(), mesh)
    return {
        "time_s": tally.time_ticks / TICKS_PER_S,
        "peak_memory_bytes": float(tally.peak_memory_bytes),
    }


class Peer:
    """A program, its e-graph and the programs extracted from it."""

    def __init__(self, graph: Graph, mesh: Mesh) -> None:
        self.graph, self.mesh = graph, mesh
        self.kinds = Kinds(mesh)
        self.saturation = Saturation(shared_rules(), self.kinds, Laws(self.kinds, normal_rules()))

    def run(self, limits: SaturationLimits, ilp_s: float) -> dict[str, Any]:
        """Saturate and extract; all CPU seconds are of this process.

        `cpu_s`: the time to have the validated programs of greedy extraction and of the integer program by
        time: the program's terms, saturation, the e-graph as arrays, costs of its e-nodes, extraction, decoding.
        `solver_cpu_s`: saturation and the integer program by time alone. `all_cpu_s`: with the programs by bytes.
        `engine_cpu_s`: egglog's own work and the integer program by time.
        """
        began = time.process_time()
        self.saturation.insert(self.graph)
        report = self.saturation.saturate(limits)
        classes = classes_of(self.saturation.egraph, self.saturation.frozen(), self.saturation.root)
        common_s = time.process_time() - began
        programs: dict[str, dict[str, Any]] = {}
        taken_s: dict[str, float] = {}
        for name, cost in self.costs().items():
            began = time.process_time()
            for number in set(classes.kinds):
                cost(number)
            chosen = greedy(self.saturation.egraph, self.saturation.root, cost)
            greedy_program = self.described(chosen, cost)
            taken_s[name] = time.process_time() - began
            solution = optimal(classes, cost, ilp_s, chosen.total(cost))
            began = time.process_time()
            found = self.described(solution.chosen, cost) if solution.chosen is not None else {}
            taken_s[name] += solution.cpu_s + time.process_time() - began
            solved = {k: v for k, v in solution._asdict().items() if k != "chosen"}
            programs |= {
                f"greedy_{name}": self.evaluated(greedy_program),
                f"ilp_{name}": {**solved, **self.evaluated(found)},
            }
        ilp_cpu_s = programs["ilp_time"]["cpu_s"]
        return {
            "saturation": asdict(report),
            "classes": len(set(classes.owner)),
            "programs": programs,
            "cpu_s": common_s + taken_s["time"],
            "all_cpu_s": common_s + sum(taken_s.values()),
            "solver_cpu_s": report.cpu_s + ilp_cpu_s,
            "engine_cpu_s": report.egglog_s + ilp_cpu_s,
        }

    def costs(self) -> Mapping[str, Cost]:
        """Return the additive costs: time alone, and bytes with time to break ties."""
        return {"time": self.kinds.ticks, "bytes": self._bytes}

    def _bytes(self, number: int) -> int:
        return 1000 * self.kinds.size_bytes(number) + self.kinds.ticks(number) // 1000

    def described(self, chosen: Chosen, cost: Cost) -> dict[str, Any]:
        """Decode a chosen program: return its additive cost and the `program`, or the reason why it is invalid."""
        try:
            return {"additive": chosen.total(cost), "program": decoded(self.graph, self.kinds, chosen)}
        except InvalidGraphError as error:
            return {"additive": chosen.total(cost), "invalid": str(error)}

    def evaluated(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the `program` of a description by its cost under the reference cost model."""
        found = {k: v for k, v in described.items() if k != "program"}
        if "program" in described:
            found["cost"] = evaluated(described["program"], self.mesh)
        return found
