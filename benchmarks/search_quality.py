"""Contribution of the search over its seeds: hypervolume of seeds only, search only, and both.

    python -m benchmarks.search_quality --json FILE [--graph A.onnx ...] [--seconds 10] [--repeats 3] [--mesh ...]

All fronts of a graph share one reference point, 1.1 times the worst value of each objective among them, and
one ideal point at zero. Repeats differ in their seed; the seeds by propagation do not depend on it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.setting import find_models, write
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.optimizer.archive.report import values_of
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

DEFAULT_MODELS = ("gpt2_small_b1_s1024", "resnet50_b16_224", "llama2_7b_1layer_b1_s2048")
KINDS: Mapping[str, Mapping[str, bool]] = {
    "seeds only": {"seeds": True, "search": False},
    "search only": {"seeds": False, "search": True},
    "both": {"seeds": True, "search": True},
}


def compare(graph: Graph, mesh: Mesh, budget: Budget, repeats: int, **options: Any) -> dict[str, Any]:
    """Compute the hypervolumes by kind, one per repeat, over the common reference; `options` go to `optimize`."""
    results: dict[str, list[Result]] = {}
    for kind, flags in KINDS.items():
        seeds = range(repeats if flags["search"] else 1)
        results[kind] = [search(graph, mesh, budget=budget, seed=s, **flags, **options) for s in seeds]
    objectives = results["both"][0].objectives
    fronts = {
        k: [values_of([p.cost for p in r.frontier], objectives) for r in rs] for k, rs in results.items()
    }
    worst = np.concatenate([f for fs in fronts.values() for f in fs]).max(axis=0)
    reference = worst * 1.1 + 1e-9
    volumes = {k: [hypervolume(f, reference) for f in fs] for k, fs in fronts.items()}
    return {
        "objectives": [o.name for o in objectives],
        "reference": reference.tolist(),
        "hypervolume": volumes,
        "median": {k: float(np.median(v)) for k, v in volumes.items()},
        "frontier": {k: [len(f) for f in fs] for k, fs in fronts.items()},
        "evaluations": {k: [r.evaluations for r in rs] for k, rs in results.items()},
        "best": {
            k: {o.name: float(np.median([f[:, j].min() for f in fs])) for j, o in enumerate(objectives)}
            for k, fs in fronts.items()
        },
        "search_adds": float(np.median(volumes["both"]) - max(volumes["seeds only"])),
    }


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Build a table of the median hypervolume per graph and kind, with the range over repeats."""
    table = Table("graph", *KINDS, "the search adds")
    for row in rows:
        cells = [
            f"{row['median'][k]:.4f}" + (f" ({min(v):.4f} to {max(v):.4f})" if len(v) > 1 else "")
            for k, v in row["hypervolume"].items()
        ]
        table.add_row(row["graph"], *cells, f"{row['search_adds']:+.4f}")
    return table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--graph", nargs="*", type=Path, metavar="FILE.onnx")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=10.0, help="of search per run")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    rows = []
    for path in given.graph or find_models(DEFAULT_MODELS):
        budget = Budget(seconds=given.seconds)
        rows.append({"graph": path.stem} | compare(from_onnx(path), mesh, budget, given.repeats))
    Console(width=120).print(table_of(rows))
    document = {"benchmark": "search_quality", "mesh": mesh.name, "seconds": given.seconds, "graphs": rows}
    write(given.json, document)


if __name__ == "__main__":
    main()
