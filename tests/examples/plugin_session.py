"""A script that searches a small program with the plug-in of `examples/plugin`, run by `test_plugin.py`.

Prints as JSON the results of the search: the rules that made the plans, and how far executed values are from the
program's. `test_plugin.py` runs it where the plug-in is installed.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.optimizer.analysis.verification import verify_plan
from tapestry.optimizer.run.search import search
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.service.provenance import versions
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph

# With all others it would depend on luck which of them a search as short as this one tries.
RULES = ("silu", "fuse_cells", "find_swiglu", "expand_swiglu")
GATE = ("mul", ("input", 0), ("sigmoid", ("input", 0)))


def layer() -> Graph:
    """Build the feed-forward half of a Llama layer as exporters write it: gate and up have roots of their own."""
    s = ExampleBuilder("layer")
    x = s.tensor("x", 32, 16)
    gate_weight, up_weight = (s.tensor(name, 64, 16, role="parameter") for name in ("gate", "up"))
    gated = s.cell(GATE, {s.contract("mk,nk->mn", x, gate_weight): "mn"})
    up = s.contract("mk,nk->mn", x, up_weight)
    hidden = s.cell(("mul", ("input", 0), ("input", 1)), {gated: "mn", up: "mn"})
    return s.result(s.contract("mk,nk->mn", hidden, s.tensor("down", 16, 64, role="parameter")))


def main() -> None:
    program, mesh = layer(), load_mesh("mi325x-platform")
    found = search(
        program,
        mesh,
        ("time_s", "peak_memory_bytes"),
        budget=Budget(evaluations=20000),
        islands=1,
        seed=0,
        rules=RULES,
    )
    with_move = [plan for plan in found.frontier if any(move.rule == "find_swiglu" for move in plan.moves)]
    inputs = random_inputs(program, np.random.default_rng(0))
    checked = [
        verify_plan(plan, mesh, inputs=inputs, execute=True, reference=evaluate(program, inputs))
        for plan in with_move[:2]
    ]
    report = {
        "operators": [sorted({b.operator for b in plan.graph.blocks}) for plan in with_move],
        "devices": mesh.device_count,
        "applied": found.rules["find_swiglu"],
        "issues": [list(map(str, check.issues)) for check in checked],
        "errors": [max(check.max_error.values()) for check in checked],
        "versions": {k: v for k, v in versions().items() if k.startswith("plugin:")},
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
