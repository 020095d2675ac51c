"""What the search adds to its seeds: hypervolume of seeds only, search only, and both.

    python -m benchmarks.search_quality --json FILE [--seconds 10] [--repeats 3] [--mesh dgx-h100]

All fronts of a graph share one reference point, 1.1 times the worst value of each objective among them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.throughput import find_models
from hardware import Mesh, load_mesh
from optimizer import Budget, Result, optimize
from optimizer.fronts import hypervolume
from optimizer.report import values_of
from teg.graph import Graph
from teg.importers import from_onnx

DEFAULT_MODELS = ("gpt2_small_b1_s1024", "resnet50_b16_224", "llama2_7b_1layer_b1_s2048")
KINDS = {
    "seeds only": {"seeds": True, "search": False},
    "search only": {"seeds": False, "search": True},
    "both": {"seeds": True, "search": True},
}


def compare(graph: Graph, mesh: Mesh, seconds: float, repeats: int) -> dict[str, Any]:
    """Hypervolumes by kind, one per repeat (seed 0, 1, ...), over the common reference."""
    results: dict[str, list[Result]] = {}
    for kind, flags in KINDS.items():
        seeds = range(repeats if flags["search"] else 1)
        budget = Budget(seconds=seconds)
        results[kind] = [optimize(graph, mesh, budget=budget, seed=s, **flags) for s in seeds]
    fronts = {
        k: [values_of([p.cost for p in r.frontier], r.objectives) for r in rs] for k, rs in results.items()
    }
    worst = np.concatenate([f for fs in fronts.values() for f in fs]).max(axis=0)
    reference = worst * 1.1 + 1e-9
    return {
        "graph": graph.name,
        "objectives": [o.name for o in results["both"][0].objectives],
        "hypervolume": {k: [hypervolume(f, reference) for f in fs] for k, fs in fronts.items()},
        "evaluations": {k: [r.evaluations for r in rs] for k, rs in results.items()},
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison, print a line per graph, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    rows = []
    for path in given.models or find_models(DEFAULT_MODELS):
        row = compare(from_onnx(path), mesh, given.seconds, given.repeats)
        rows.append(row)
        figures = ", ".join(f"{k} {np.median(v):.4f}" for k, v in row["hypervolume"].items())
        print(f"{row['graph']}: hypervolume {figures}", flush=True)
    if given.json:
        document = {"mesh": mesh.name, "seconds": given.seconds, "graphs": rows}
        given.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
