"""The benefit of choosing layouts: the frontier with every tensor in its device's default layout, and with chosen
ones.

    python -m benchmarks.layout_choice --json FILE [--graph A.onnx ...] [--mesh tpu-v5e-4x4 galaxy-4x8] [--seconds 15]

Both searches have the same budget and seed. Hypervolumes over time, peak memory and traffic share one reference point,
1.1 times the worst value of each objective among the two fronts, and one ideal point at zero. Every plan is proven and
run dry on the simulator, which counts the slots of the layouts in which parts are stored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.setting import find_models, write
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.analysis.verification import verify_plan
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.optimizer.archive.representatives import values_of
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

DEFAULT_MODELS = ("gpt2_small_b1_s1024", "resnet50_b16_224")
DEFAULT_MESHES = ("tpu-v5e-4x4", "galaxy-4x8")
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes")
MOVES = frozenset({"store_as", "read_as"})


def compare(graph: Graph, mesh: Mesh, budget: Budget, seeds: Sequence[int]) -> dict[str, Any]:
    """Compute the hypervolumes of both kinds of search, one per seed, over one reference, and check their plans."""
    results = {
        kind: [search(graph, mesh, OBJECTIVES, budget=budget, seed=s, layouts=kind) for s in seeds]
        for kind in ("chosen", "native")
    }
    objectives = results["native"][0].objectives
    fronts = {
        k: [values_of([p.cost for p in r.frontier], objectives) for r in rs] for k, rs in results.items()
    }
    reference = np.concatenate([f for fs in fronts.values() for f in fs]).max(axis=0) * 1.1 + 1e-9
    volumes = {k: [hypervolume(f, reference) for f in fs] for k, fs in fronts.items()}
    median = {k: float(np.median(v)) for k, v in volumes.items()}
    best = {
        k: {o.name: float(np.median([f[:, j].min() for f in fs])) for j, o in enumerate(objectives)}
        for k, fs in fronts.items()
    }
    return {
        "reference": reference.tolist(),
        "hypervolume": volumes,
        "gain": median["chosen"] / median["native"] - 1,
        "best": best,
        "evaluations": {k: [r.evaluations for r in rs] for k, rs in results.items()},
        "checked": {k: checked(rs[0], mesh) for k, rs in results.items()},
    }


def checked(result: Result, mesh: Mesh) -> dict[str, int]:
    """Count a frontier's plans, those that store a tensor in another layout, those proven with bytes as counted."""
    plans = result.frontier
    good = 0
    for plan in plans:
        found = verify_plan(plan, mesh)
        counted = found.memory.predicted == found.memory.counted
        good += not found.issues and counted and found.traffic.predicted == found.traffic.counted
    laid = sum(any(move.rule in MOVES for move in plan.moves) for plan in plans)
    return {"plans": len(plans), "with_layouts": laid, "proven_and_counted": good}


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """Build a table by graph and mesh: hypervolumes, the gain, the best time and peak memory, and the checks."""
    table = Table("graph", "mesh", "native", "chosen", "gain", "best time", "least peak memory", "checked")
    for row in rows:
        volume = {k: f"{np.median(v):.4f}" for k, v in row["hypervolume"].items()}
        time, memory = (
            " -> ".join(f"{row['best'][k][name] * scale:.3g}" for k in ("native", "chosen"))
            for name, scale in (("time_s", 1e3), ("peak_memory_bytes", 1e-6))
        )
        both = [f"{c['proven_and_counted']}/{c['plans']}" for c in row["checked"].values()]
        cells = (volume["native"], volume["chosen"], f"{row['gain']:+.1%}", f"{time} ms", f"{memory} MB")
        table.add_row(row["graph"], row["mesh"], *cells, ", ".join(both))
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--graph", nargs="*", type=Path, metavar="FILE.onnx")
    parser.add_argument("--mesh", nargs="*", default=DEFAULT_MESHES)
    parser.add_argument("--seconds", type=float, default=15.0, help="of search per run")
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args(argv)
    rows = []
    for path in given.graph or find_models(DEFAULT_MODELS):
        for name in given.mesh:
            found = compare(
                from_onnx(path), load_mesh(name), Budget(seconds=given.seconds), range(given.repeats)
            )
            rows.append({"graph": path.stem, "mesh": name} | found)
    Console(width=140).print(table_of(rows))
    write(given.json, {"benchmark": "layout_choice", "seconds": given.seconds, "rows": rows})


if __name__ == "__main__":
    main()
