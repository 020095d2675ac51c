"""Frontiers of training steps against standard configurations, written down by hand as a specialist would set them.

    python -m benchmarks.training GRAPH... [--mesh dgx-a100 ...] [--seconds 30] [--islands 2] [--json FILE]

Each configuration is a choice of data, tensor, sequence and pipeline parallelism, sharded states, micro-batches and
recomputation (`benchmarks.training_plans`). It is held if a plan of the frontier is no worse in time and memory, or
at most 1 % worse in either. Configurations are of the simplified program.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.setting import write
from benchmarks.training_plans import Configuration, ModelSizes, placed, program_of, programs, standard
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Result
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.optimizer.run.search import search
from tapestry.rewrites import RULES, saturate
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.possible_rounds import rounds_of

OBJECTIVES = ("time_s", "peak_memory_bytes")
CLOSE = 0.01

# Sizes of dimensions by the names of models.
SIZES = {
    "train_gpt2_small_b8_s1024_adam": ModelSizes(8, (1024, 1023), (12, 3072, 50257)),
    # One sequence: its tokens are the data, and nothing can be cut into rounds.
    "llama2_7b_4layer": ModelSizes(2048, (2047,), (32, 11008, 32000)),
    "bert_large": ModelSizes(8, (512,), (16, 4096, 30522)),
}


def costs_by_hand(
    graph: Graph, mesh: Mesh, sizes: ModelSizes, chosen: Sequence[Configuration]
) -> list[Mapping[str, float]]:
    """Compute the costs of configurations of a program on a mesh."""
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    forms = programs(simple, mesh)
    graphs = [program_of(forms, c) for c in chosen]
    states = [(form, placed(form, mesh, sizes, c)) for form, c in zip(graphs, chosen, strict=True)]
    return PlanCosts(mesh, compiled=True).costs(states)


def against(cost: Mapping[str, float], result: Result) -> dict[str, Any]:
    """Compare a configuration with the plan that comes nearest to it, by the ratio of its worse objective."""
    ratios = {plan.id: max(plan.cost[name] / cost[name] for name in OBJECTIVES) for plan in result.frontier}
    best = min(ratios, key=ratios.__getitem__)
    return {"nearest": best, "ratio": ratios[best], "is_held": ratios[best] <= 1 + CLOSE}


def possible(graph: Graph, chosen: Sequence[Configuration]) -> list[Configuration]:
    """Return the configurations, in one round where the program has no dimension that can be cut into theirs."""
    return [c if c.rounds == 1 or rounds_of(graph, c.rounds) else replace(c, rounds=1) for c in chosen]


def compare(name: str, graph: Graph, mesh: Mesh, seconds: float, islands: int | None) -> dict[str, Any]:
    """Search a program, and compare the frontier with the standard configurations on the mesh."""
    sizes = next(found for key, found in SIZES.items() if key in name)
    chosen = possible(graph, standard(mesh.device_count))
    result = search(graph, mesh, seconds=seconds, islands=islands, objectives=OBJECTIVES)
    rows = [
        {"configuration": c.name, **{n: cost[n] for n in OBJECTIVES}, **against(cost, result)}
        for c, cost in zip(chosen, costs_by_hand(graph, mesh, sizes, chosen), strict=True)
    ]
    return {
        "graph": name,
        "mesh": mesh.name,
        "seconds": seconds,
        "evaluations": result.evaluations,
        "frontier": [{n: plan.cost[n] for n in OBJECTIVES} for plan in result.frontier],
        "held": sum(row["is_held"] for row in rows),
        "configurations": rows,
    }


def text_of(found: Mapping[str, Any]) -> str:
    """Format one comparison as a table."""
    lines = [f"{found['graph']} on {found['mesh']}: {found['held']} of {len(found['configurations'])} held"]
    for row in found["configurations"]:
        state = "held" if row["is_held"] else "NOT HELD"
        size = row["peak_memory_bytes"] / 2**30
        costs = f"{row['time_s'] * 1e3:9.2f} ms {size:8.3f} GiB"
        lines.append(f"  {row['configuration']:60}{costs}  nearest {row['ratio']:.3f}  {state}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Compare the graphs, print the tables, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--mesh", nargs="+", default=["dgx-a100"])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--islands", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    rows = []
    for path, mesh in product(given.graphs, map(load_mesh, given.mesh)):
        name = path.name.split(".")[0]
        rows.append(compare(name, read_program(path), mesh, given.seconds, given.islands))
        print(text_of(rows[-1]), flush=True)
        write(given.json, {"benchmark": "training", "comparisons": rows})


if __name__ == "__main__":
    main()
