"""Comparison on one graph: our search and egglog's e-graph from the same simplified program, and their ratios."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.egraphs.peer import Peer, SaturationLimits, evaluated
from benchmarks.egraphs.shared import normal_rules, searched_rules, shared_rules
from benchmarks.setting import find_models
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.run.search import search
from tapestry.rewrites import saturate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

OBJECTIVES = ("time_s", "peak_memory_bytes")
SMALL = "taso_nasrnn_h512_t5"


def one_device(name: str) -> Mesh:
    """Load the mesh of this name, cut down to one device."""
    mesh = load_mesh(name)
    return mesh.part(tuple((axis.name, 1) for axis in mesh.axes))


def compare(
    path: Path, mesh: Mesh, limits: Sequence[SaturationLimits], ilp_s: float, evaluations: int, seed: int
) -> list[dict[str, Any]]:
    """Compare egglog's programs, our frontiers and their ratios on one graph, under every limit until one is not met.

    Both sides start from the same simplified program in memory; what simplified it is counted for neither.
    """
    graph = from_onnx(path)
    simple = saturate(graph, [r for r in (*shared_rules(), *normal_rules()) if r.saturating]).graph
    ours = searched(simple, mesh, searched_rules(), evaluations, seed)
    whole = searched(graph, mesh, None, evaluations, seed)
    results = []
    for limit in limits:
        peer = Peer(simple, mesh).run(limit, ilp_s)
        results.append(
            {
                "graph": path.stem,
                "nodes": limit.nodes,
                "blocks": len(graph.blocks),
                "simplified_blocks": len(simple.blocks),
                "simplified": evaluated(simple, mesh),
                "ours": ours,
                "ours_whole_catalog": whole,
                "egglog": peer,
                "ratios": ratios(ours, peer),
                "ratios_whole_catalog": ratios(whole, peer),
            }
        )
        if peer["saturation"]["stopped"] != "nodes":
            break
    return results


def searched(
    graph: Graph, mesh: Mesh, rules: Sequence[str] | None, evaluations: int, seed: int
) -> dict[str, Any]:
    """Compute our frontier's points and their CPU seconds: the whole call of the optimizer, its checks included."""
    began = time.process_time()
    budget = Budget(evaluations=evaluations)
    result = search(graph, mesh, OBJECTIVES, budget=budget, seed=seed, islands=1, rules=rules)
    cpu_s = time.process_time() - began
    if not result.frontier:
        raise ValueError("no plan fits the memory of one device")
    points = [{name: plan.cost[name] for name in OBJECTIVES} for plan in result.frontier]
    return {
        "cpu_s": cpu_s,
        "evaluations": result.evaluations,
        "stopped": result.stopped,
        "points": points,
        "least": _least(points),
        "moves": _fired(result),
    }


def _least(points: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: min(p[name] for p in points) for name in OBJECTIVES}


def _fired(result: Result) -> dict[str, int]:
    """Count the places that each rule changed on the way to the fastest plan."""
    fastest = min(result.frontier, key=lambda plan: plan.cost["time_s"])
    counts: dict[str, int] = {}
    for move in fastest.moves:
        counts[move.rule] = counts.get(move.rule, 0) + len(move.places)
    return counts


def ratios(ours: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, Any]:
    """Compute our results over egglog's best: below 1 is better for us.

    `covered`: for each of its programs we have one as good. All values are None if egglog found no program.
    """
    programs = [p for p in peer["programs"].values() if p.get("cost")]
    if not programs:
        return {**dict.fromkeys((*OBJECTIVES, "cpu", "solver_cpu"), None), "covered": None}
    least = _least([p["cost"] for p in programs])
    covered = all(
        any(all(q[n] <= p["cost"][n] * (1 + 1e-12) for n in OBJECTIVES) for q in ours["points"])
        for p in programs
    )
    return {
        **{name: ours["least"][name] / least[name] for name in OBJECTIVES},
        "cpu": ours["cpu_s"] / peer["cpu_s"],
        "solver_cpu": ours["cpu_s"] / peer["solver_cpu_s"],
        "covered": covered,
    }


def warm_up(mesh: Mesh) -> float:
    """Load compiled code and trace functions that are traced once, on both sides; return the CPU seconds."""
    began = time.process_time()
    graph = from_onnx(find_models([SMALL])[0])
    search(graph, mesh, OBJECTIVES, budget=Budget(evaluations=50), islands=1)
    Peer(graph, mesh).run(SaturationLimits(passes=1, nodes=1000), 1.0)
    return time.process_time() - began
