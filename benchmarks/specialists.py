"""Comparison of the frontier with specialists: hand-made plans, verified, against a search's frontier.

    python -m benchmarks.specialists --json FILE [--seconds 20] [--only MODEL] [--no-values]

Each plan is proven and counted on the simulator at full size, and runs there with seeded numbers, its outputs
compared with the unsharded reference; models too large for that run as their tiny twin under the same recipe.
A plan weakly dominates a specialist's when it is no worse in any of the searched objectives. The
specialist's plan is of the graph as imported; the same recipe on the simplified graph is reported with it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.setting import find_models, write
from benchmarks.specialist_plans import (
    Recipe,
    data_parallel,
    lay,
    spatial,
    tensor_and_sequence_parallel,
    tensor_parallel,
)
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Budget, Plan, Result, Verification, verify_plan
from tapestry.optimizer.archive.constraints import fits
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.run.search import search
from tapestry.rewrites import RULES, saturate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.mesh_shape import MeshShape


@dataclass(frozen=True)
class Twin:
    """A small model of the same architecture, the same recipes at its sizes, and the number of devices for it."""

    model: str
    recipes: tuple[Recipe, ...]
    devices: int


@dataclass(frozen=True)
class SpecialistCase:
    """A model and the recipes a specialist would try on it; a `twin` is executed with numbers in its place."""

    model: str
    recipes: tuple[Recipe, ...]
    twin: Twin | None = None


LLAMA = {"heads": 32, "hidden": 11008, "vocabulary": 32000}
TINY_LLAMA = {"heads": 4, "hidden": 56, "vocabulary": 97}
GPT2 = {"heads": 12, "hidden": 3072, "vocabulary": 50257}
CASES = (
    SpecialistCase("resnet50_b16_224", (data_parallel(16), spatial())),
    SpecialistCase(
        "gpt2_small_b1_s1024", (tensor_parallel(**GPT2), tensor_and_sequence_parallel(**GPT2, sequence=1024))
    ),
    SpecialistCase(
        "llama2_7b_1layer_b1_s2048",
        (tensor_parallel(**LLAMA), tensor_and_sequence_parallel(**LLAMA, sequence=2048)),
        Twin(
            "tiny_llama2_7b_1layer_b1_s2048",
            (tensor_parallel(**TINY_LLAMA), tensor_and_sequence_parallel(**TINY_LLAMA, sequence=10)),
            devices=4,
        ),
    ),
)


def hand_made(recipe: Recipe, graph: Graph, mesh: Mesh) -> Plan:
    """Build a recipe's plan, with its costs by the reference cost model."""
    placements = lay(recipe, graph, MeshShape(mesh.axis_sizes))
    cost = costs_of(reference_cost(graph, placements, mesh).vector(), mesh)
    return Plan(graph, placements, (), cost, fits(cost, mesh))


def dominating(plan: Plan, result: Result) -> Plan | None:
    """Find the fastest plan of the frontier that is no worse in any searched objective; None if there is none."""
    names = [o.name for o in result.objectives]
    found = [p for p in result.frontier if all(p.cost[n] <= plan.cost[n] for n in names)]
    return min(found, key=lambda p: p.cost["time_s"]) if found else None


def compare(
    case: SpecialistCase, mesh: Mesh, budget: Budget, seed: int, values: bool, islands: int | None = None
) -> list[dict[str, Any]]:
    """Compare each recipe with the frontier: its costs, whether it verifies, and the plan that weakly dominates it."""
    graph = from_onnx(find_models([case.model])[0])
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    result = search(graph, mesh, budget=budget, seed=seed, islands=islands)
    at_full_size = values and case.twin is None
    inputs = random_inputs(graph, np.random.default_rng(seed)) if at_full_size else None
    reference = evaluate(graph, inputs) if inputs is not None else None
    twins = _twins(case.twin, mesh, seed) if values and case.twin is not None else {}
    rows = []
    for recipe in case.recipes:
        plan = hand_made(recipe, graph, mesh)
        checked = verify_plan(plan, mesh, inputs=inputs, execute=at_full_size, reference=reference)
        twin = twins.get(recipe.name)
        rows.append(
            {
                "graph": case.model,
                "recipe": recipe.name,
                "verified": checked.to_json(),
                "twin_verified": None if twin is None else twin.to_json(),
                "ok": checked.ok and (twin is None or twin.ok),
                "frontier": len(result.frontier),
                "evaluations": result.evaluations,
                **_against(plan, result),
                "simplified": _against(hand_made(recipe, simple, mesh), result),
            }
        )
    return rows


def _against(plan: Plan, result: Result) -> dict[str, Any]:
    """Compare a specialist's plan with the plan of the frontier that weakly dominates it, or else the nearest one."""
    names = [o.name for o in result.objectives]
    holder = dominating(plan, result)
    return {
        "cost": {n: plan.cost[n] for n in names},
        "held_by": None if holder is None else holder.id,
        "holder_cost": None if holder is None else {n: holder.cost[n] for n in names},
        "holder_rules": {} if holder is None else dict(Counter(m.rule for m in holder.moves)),
        "nearest": None if holder is not None else _nearest(plan, result),
    }


def _twins(twin: Twin, mesh: Mesh, seed: int) -> Mapping[str, Verification]:
    """Execute each recipe on the twin, on `twin.devices` devices of the mesh's fastest axis."""
    graph = from_onnx(find_models([twin.model])[0])
    small = mesh.part(
        (*((name, 1) for name, _ in mesh.axis_sizes[:-1]), (mesh.axis_sizes[-1][0], twin.devices))
    )
    inputs = random_inputs(graph, np.random.default_rng(seed))
    reference = evaluate(graph, inputs)
    return {
        recipe.name: verify_plan(
            hand_made(recipe, graph, small), small, inputs=inputs, execute=True, reference=reference
        )
        for recipe in twin.recipes
    }


def _nearest(plan: Plan, result: Result) -> dict[str, Any] | None:
    """Find the plan of the frontier whose worst ratio to this plan is smallest, and its ratios; None without plans."""
    ratios = [
        {o.name: p.cost[o.name] / max(plan.cost[o.name], 1e-12) for o in result.objectives}
        for p in result.frontier
    ]
    if not ratios:
        return None
    best = min(range(len(ratios)), key=lambda k: max(ratios[k].values()))
    return {"id": result.frontier[best].id, "ratio": ratios[best]}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the cases, print them, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=20.0, help="of search per model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-values", action="store_true", help="count only, run nothing with numbers")
    parser.add_argument("--only", metavar="MODEL", help="one model")
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    rows, budget = [], Budget(seconds=given.seconds)
    for case in CASES:
        if given.only in (None, case.model):
            for row in compare(case, mesh, budget, given.seed, not given.no_values):
                rows.append(row)
                print(text_of(row), flush=True)
    document = {"benchmark": "specialists", "mesh": mesh.name, "seconds": given.seconds, "plans": rows}
    write(given.json, document)


def text_of(row: Mapping[str, Any]) -> str:
    """Format a row as a small table: the specialist's costs next to those of the plan that weakly dominates it."""
    verified = row["verified"] if row["twin_verified"] is None else row["twin_verified"]
    ran = "counted only"
    if verified["values"]["executed"]:
        ran = "executed with numbers" + ("" if row["twin_verified"] is None else " as the tiny twin")
    state = ("verified" if row["ok"] else "NOT VERIFIED") + f", {ran}"
    lines = [
        f"{row['graph']}, {row['recipe']}: {state}; {_held(row)}; simplified: {_held(row['simplified'])}"
    ]
    for name, value in row["cost"].items():
        beside = f" {row['holder_cost'][name]:14.6g}" if row["holder_cost"] else ""
        lines.append(f"  {name:20} {value:14.6g}{beside}")
    return "\n".join(lines)


def _held(row: Mapping[str, Any]) -> str:
    return f"held by {row['held_by']}" if row["held_by"] else f"NOT HELD, nearest {row['nearest']}"


if __name__ == "__main__":
    main()
