"""Does the frontier hold its own against specialists? Hand-made plans, verified, against a search's frontier.

    python -m benchmarks.specialists --json FILE [--seconds 20] [--execute]

Each plan is proven and counted on the simulator; with `--execute` it also runs with seeded numbers and its
outputs are compared with the unsharded reference. It holds when a plan of the frontier is no worse in any of
the searched objectives.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.specialist_plans import (
    Recipe,
    data_parallel,
    lay,
    spatial,
    tensor_and_sequence_parallel,
    tensor_parallel,
)
from costmodel.plain import plain_cost
from hardware import Mesh, load_mesh
from optimizer import Budget, Plan, Result, optimize, verify_plan
from optimizer.report import costs_of
from teg.evaluate import evaluate, random_inputs
from teg.graph import Graph
from teg.importers import from_onnx
from teg.sharding.mesh import MeshShape

ROOT = Path(__file__).parent.parent
MODELS = (ROOT / "examples" / "models", ROOT / "tests" / "data" / "graphs")


@dataclass(frozen=True)
class Case:
    """A model and the recipes a specialist would try on it."""

    model: str
    recipes: tuple[Recipe, ...]


CASES = (
    Case("resnet50_b16_224", (data_parallel(16), spatial())),
    Case(
        "gpt2_small_b1_s1024",
        (tensor_parallel(12, 3072, 50257), tensor_and_sequence_parallel(12, 3072, 50257, 1024)),
    ),
    Case(
        "llama2_7b_1layer_b1_s2048",
        (tensor_parallel(32, 11008, 32000), tensor_and_sequence_parallel(32, 11008, 32000, 2048)),
    ),
)


def model_file(name: str) -> Path:
    """The ONNX file of a model that comes with the project.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    for folder in MODELS:
        for path in sorted(folder.rglob(f"{name}.onnx")):
            if "tiny" not in path.parts:
                return path
    raise FileNotFoundError(f"no model {name!r} in {', '.join(str(f) for f in MODELS)}")


def hand_made(recipe: Recipe, graph: Graph, mesh: Mesh) -> Plan:
    """A recipe's plan with its costs by the plain model."""
    placements = lay(recipe, graph, MeshShape(mesh.axis_sizes))
    cost = costs_of(plain_cost(graph, placements, mesh).vector(), mesh)
    return Plan(graph, placements, (), cost, cost["peak_memory_bytes"] <= mesh.device.memory_bytes)


def dominating(plan: Plan, result: Result) -> Plan | None:
    """The plan of the frontier, if any, that is no worse in any searched objective; the fastest of them."""
    names = [o.name for o in result.objectives]
    found = [p for p in result.frontier if all(p.cost[n] <= plan.cost[n] for n in names)]
    return min(found, key=lambda p: p.cost["time_s"]) if found else None


def compare(case: Case, mesh: Mesh, seconds: float, seed: int, execute: bool) -> list[dict[str, Any]]:
    """One row per recipe: its costs, whether it verifies, and the plan of the frontier that holds against it."""
    graph = from_onnx(model_file(case.model))
    result = optimize(graph, mesh, budget=Budget(seconds=seconds), seed=seed)
    inputs = random_inputs(graph, np.random.default_rng(seed)) if execute else None
    reference = evaluate(graph, inputs) if inputs is not None else None
    rows = []
    for recipe in case.recipes:
        plan = hand_made(recipe, graph, mesh)
        checked = verify_plan(plan, mesh, inputs=inputs, execute=execute, reference=reference)
        holder = dominating(plan, result)
        rows.append(
            {
                "graph": case.model,
                "recipe": recipe.name,
                "cost": {o.name: plan.cost[o.name] for o in result.objectives},
                "verified": checked.to_json(),
                "ok": checked.ok,
                "held_by": None if holder is None else holder.id,
                "holder_cost": None
                if holder is None
                else {o.name: holder.cost[o.name] for o in result.objectives},
                "evaluations": result.evaluations,
            }
        )
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the cases, print a line each, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--execute", action="store_true", help="run the hand-made plans with numbers too")
    parser.add_argument("--only", metavar="MODEL", help="one model")
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    rows = []
    for case in CASES:
        if given.only in (None, case.model):
            for row in compare(case, mesh, given.seconds, given.seed, given.execute):
                rows.append(row)
                print(_line(row), flush=True)
    if given.json:
        given.json.write_text(
            json.dumps({"mesh": mesh.name, "seconds": given.seconds, "plans": rows}, indent=1)
        )


def _line(row: dict[str, Any]) -> str:
    cost, holder = row["cost"], row["holder_cost"]
    text = f"{row['graph']} {row['recipe']}: {_costs(cost)}; {'verified' if row['ok'] else 'NOT VERIFIED'}; "
    return text + (f"held by {row['held_by']}: {_costs(holder)}" if holder else "NOT HELD by the frontier")


def _costs(cost: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in cost.items())


if __name__ == "__main__":
    main()
