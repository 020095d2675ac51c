"""Processor time of the device simulator's backends: numpy and torch, one thread each, in turn on the same plan.

    python -m benchmarks.backends [--model NAME] [--evaluations N] [--pairs N] [--json FILE]

A plan of GPT-2 small over eight devices (the fastest of a short search) is computed with random values by both
libraries in alternation; figures are seconds of processor time (`time.process_time`) and the median of their ratios.
The plan is expanded, and the values are drawn, before. Outputs are compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tapestry
from benchmarks.setting import ROOT, find_models, write
from tapestry.hardware.simulator import simulate
from tapestry.optimizer.analysis.verification import relative_errors
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.teg.arrays import arrays_named
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape

MODEL = "gpt2_small_b1_s1024"
MESH = "dgx-h100"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
LEAST_RATIO = 1.5


def measure(model: str, evaluations: int, pairs: int) -> dict[str, Any]:
    """Compute one plan by both backends in turn; the first pair warms up and is not counted."""
    torch.set_num_threads(1)
    (path,) = find_models([model])
    result = tapestry.optimize(str(path), MESH, evaluations=evaluations, islands=1, seed=0)
    plan = representative_plans(result.frontier, result.objectives)["fastest"]
    program = expand(plan.graph, plan.placements, MeshShape(result.mesh.axis_sizes))
    sites = {source.site for source in plan.graph.sources}
    drawn = random_inputs(result.graph, np.random.default_rng(0))
    values = {site: value for site, value in drawn.items() if site in sites}
    libraries = {"numpy": arrays_named("numpy"), "torch": arrays_named("torch", "cpu")}
    seconds: dict[str, list[float]] = {name: [] for name in libraries}
    outputs: dict[str, Any] = {}
    for pair in range(pairs + 1):
        for name, xp in libraries.items():
            mesh = result.mesh.part(program.mesh_shape.axes)
            began_s = time.process_time()
            run = simulate(program, mesh, values, capacity_check=False, xp=xp)
            if pair:
                seconds[name].append(time.process_time() - began_s)
            outputs[name] = run.outputs
    ratios = [a / b for a, b in zip(seconds["numpy"], seconds["torch"], strict=True)]
    return {
        "model": model,
        "mesh": MESH,
        "evaluations": evaluations,
        "plan": plan.id,
        "blocks": dict(Counter(block.operator for block in plan.graph.blocks)),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cpu_s": {name: [round(s, 2) for s in own] for name, own in seconds.items()},
        "ratio": round(float(np.median(ratios)), 2),
        "max_error": max(relative_errors(outputs["torch"], outputs["numpy"]).values()),
    }


def main() -> int:
    """Measure in a process with one thread, print, and say whether torch is as much faster as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--evaluations", type=int, default=40000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    single = dict.fromkeys(THREADS, "1")
    if any(os.environ.get(name) != "1" for name in THREADS):  # libraries read these when they are loaded
        command = [sys.executable, "-m", "benchmarks.backends", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, **single}, cwd=ROOT, check=False).returncode
    found = measure(arguments.model, arguments.evaluations, arguments.pairs)
    for name, seconds in found["cpu_s"].items():
        print(f"{name:6} {', '.join(f'{s:.2f}' for s in seconds)} s of processor time")
    print(f"torch is {found['ratio']:.2f} times as fast; outputs differ by {found['max_error']:.1e}")
    write(arguments.json, found)
    return 0 if found["ratio"] >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
