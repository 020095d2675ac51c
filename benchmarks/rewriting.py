"""Rewriting against equality saturation: our search and egglog's e-graph, from the same rules, under one cost.

    python -m benchmarks.rewriting --graphs PATH... [--json FILE]

Both sides start from the program that our terminating rules simplify. egglog saturates within limits; from its
e-graph the cheapest program is taken greedily and by an acyclic integer program, once by time and once by
bytes. Our search gets the same rules (first row) and the whole catalogue (second row). What comes out is judged
by the plain cost model on one device: predictions of one model on both sides, no measurements of a device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.egraphs.peer import Limits, Peer, judged
from benchmarks.egraphs.shared import LAWS, normal_rules, searched_rules, shared_rules
from benchmarks.setting import find_models, write
from hardware import load_mesh
from hardware.mesh import Mesh
from optimizer import Budget, Result, optimize
from rewrites import saturate
from teg.graph import Graph
from teg.importers import from_onnx

MODELS = ("taso_nasrnn_h512_t5", "taso_bert_8layer_s64")
OBJECTIVES = ("time_s", "peak_memory_bytes")


def one_device(name: str) -> Mesh:
    """The machine of this name, cut down to one device."""
    mesh = load_mesh(name)
    return mesh.part(tuple((axis.name, 1) for axis in mesh.axes))


def searched(
    graph: Graph, mesh: Mesh, rules: Sequence[str] | None, evaluations: int, seed: int
) -> dict[str, Any]:
    """Our frontier's points, and what they took."""
    began = time.process_time()
    result = optimize(
        graph, mesh, OBJECTIVES, budget=Budget(evaluations=evaluations), seed=seed, islands=1, rules=rules
    )
    cpu_s = time.process_time() - began
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
    """How many places each rule changed on the way to the fastest plan."""
    fastest = min(result.frontier, key=lambda plan: plan.cost["time_s"])
    counts: dict[str, int] = {}
    for move in fastest.moves:
        counts[move.rule] = counts.get(move.rule, 0) + len(move.places)
    return counts


def compare(
    path: Path, mesh: Mesh, limits: Limits, ilp_s: float, evaluations: int, seed: int
) -> dict[str, Any]:
    """One graph: egglog's programs, our frontiers, and their ratios."""
    graph = from_onnx(path)
    simple = saturate(graph, [r for r in (*shared_rules(), *normal_rules()) if r.saturating]).graph
    ours = searched(graph, mesh, searched_rules(), evaluations, seed)
    whole = searched(graph, mesh, None, evaluations, seed)
    peer = Peer(simple, mesh).run(limits, ilp_s)
    return {
        "graph": path.stem,
        "blocks": len(graph.blocks),
        "simplified_blocks": len(simple.blocks),
        "simplified": judged(simple, mesh),
        "ours": ours,
        "ours_whole_catalogue": whole,
        "egglog": peer,
        "ratios": _ratios(ours, peer),
        "ratios_whole_catalogue": _ratios(whole, peer),
    }


def _ratios(ours: Mapping[str, Any], peer: Mapping[str, Any]) -> dict[str, Any]:
    """Ours over egglog's best: below 1 is better for us. `covered`: for each of its programs we have one as good."""
    programs = [p for p in peer["programs"].values() if p.get("cost")]
    if not programs:
        return {**dict.fromkeys((*OBJECTIVES, "cpu", "engine_cpu"), float("nan")), "covered": False}
    least = _least([p["cost"] for p in programs])
    covered = all(
        any(all(q[n] <= p["cost"][n] * (1 + 1e-12) for n in OBJECTIVES) for q in ours["points"])
        for p in programs
    )
    return {
        **{name: ours["least"][name] / least[name] for name in OBJECTIVES},
        "cpu": ours["cpu_s"] / peer["cpu_s"],
        "engine_cpu": ours["cpu_s"] / peer["engine_cpu_s"],
        "covered": covered,
    }


def row(found: Mapping[str, Any]) -> str:
    """One line of the table."""
    peer, ratios = found["egglog"], found["ratios"]
    us = {
        name: f"{1e6 * p['cost']['time_s']:.1f}" if p.get("cost") else "-"
        for name, p in peer["programs"].items()
    }
    gap = peer["programs"]["ilp_time"].get("gap")
    whole = found["ratios_whole_catalogue"]
    return (
        f"| {found['graph']} | {peer['saturation']['nodes']} {peer['saturation']['stopped']} "
        f"| {us['greedy_time']} | {us['ilp_time']} | {'-' if gap is None else f'{gap:.1%}'} "
        f"| {1e6 * found['ours']['least']['time_s']:.1f} | {ratios['time_s']:.3f} | {ratios['peak_memory_bytes']:.3f} "
        f"| {'yes' if ratios['covered'] else 'no'} | {peer['cpu_s']:.1f} | {found['ours']['cpu_s']:.1f} "
        f"| {whole['time_s']:.3f} | {whole['peak_memory_bytes']:.3f} |"
    )


HEADER = (
    "| graph | e-nodes, stopped by | greedy, us | ILP, us | gap | ours, us | time | memory | covered "
    "| egglog CPU s | our CPU s | time, all rules | memory, all rules |\n" + "|---|" + "--:|" * 12
)


def main(argv: Sequence[str] | None = None) -> None:
    """Compare on all graphs and store the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=Path, nargs="+", metavar="PATH", default=find_models(MODELS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100", help="whose device it is; one of it works")
    parser.add_argument("--ilp-seconds", type=float, default=120.0)
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--passes", type=int, default=Limits.passes)
    parser.add_argument(
        "--several", type=int, default=Limits.several, help="passes of rules with several roots"
    )
    parser.add_argument("--nodes", type=int, default=Limits.nodes)
    given = parser.parse_args(argv)
    limits = Limits(given.passes, given.several, given.nodes)
    mesh = one_device(given.mesh)
    warm_up_s = warm_up(mesh)
    found = []
    print(HEADER, flush=True)
    for path in given.graphs:
        found.append(compare(path, mesh, limits, given.ilp_seconds, given.evaluations, given.seed))
        print(row(found[-1]), flush=True)
        write(
            given.json,
            {
                "benchmark": "rewriting",
                "device": mesh.device.name,
                "egglog": version("egglog"),
                "limits": {
                    **asdict(limits),
                    "ilp_seconds": given.ilp_seconds,
                    "evaluations": given.evaluations,
                },
                "rules": LAWS,
                "seed": given.seed,
                "warm_up_cpu_s": warm_up_s,
                "graphs": found,
            },
        )


def warm_up(mesh: Mesh) -> float:
    """Load what is compiled by running a small search; returns its CPU seconds."""
    began = time.process_time()
    optimize(from_onnx(find_models(MODELS)[0]), mesh, OBJECTIVES, budget=Budget(evaluations=50), islands=1)
    return time.process_time() - began


if __name__ == "__main__":
    main()
