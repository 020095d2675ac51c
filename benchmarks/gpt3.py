"""GPT-3 of 175 billion parameters on 1,024 A100: the frontier of a search against the published configuration.

    python -m benchmarks.gpt3 [--seconds 60] [--json FILE]

The step (96 layers, batch 1,536) is built from its hyper-parameters, and searched without any hint. The published
configuration is tensor 8, pipeline 8, data 16 with full recomputation (Narayanan et al., arXiv:2104.04473, table 1),
costed by the same cost model. At last its plan is simulated in 8 micro-batches, without values.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurements.gpt import Step, layer_sizes
from benchmarks.measurements.named_programs import Axes, NamedBuilder
from benchmarks.measurements.rows import Question
from benchmarks.measurements.systems import Systems
from benchmarks.measurements.training_step import Degrees, HyperParameters, Iteration
from benchmarks.setting import write
from tapestry.hardware.simulator import simulate
from tapestry.optimizer.run.search import search
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand

STATED: Mapping[str, Any] = {
    "gpus": 1024,
    "layers": 96,
    "hidden": 12288,
    "heads": 96,
    "seq_len": 2048,
    "vocab": 51200,
    "global_batch": 1536,
    "dtype": "float16",
    "activation_recompute": "full",
    "topology": "dgx-a100",
}
PUBLISHED = Degrees(tensor=8, pipeline=8, data=16)
SIMULATED_ROUNDS = 8
OBJECTIVES = ("time_s", "peak_memory_bytes")


def iteration(**changes: Any) -> Iteration:
    """Return the iteration of these hyper-parameters, some of them changed."""
    question = Question("training_step", "a100-sxm4-80gb", {**STATED, **changes}, "iteration_time", "s")
    return Iteration(question, Systems.of_catalog())


def program(model: HyperParameters) -> Graph:
    """Build the step as a search gets it: nothing is placed, and everything is stored."""
    sizes = layer_sizes(model.hidden, model.heads, model.length, model.batch) | {"v": model.words}
    b = NamedBuilder("gpt3", sizes, model.dtype, Axes({}))
    Step(b, [0] * model.layers).append()
    return b.builder.build()


def searched(known: Iteration, seconds: float) -> dict[str, Any]:
    """Search the step on one core; return the fastest plan with what the search took."""
    began = time.perf_counter()
    result = search(program(known.model), known.mesh, seconds=seconds, islands=1, objectives=OBJECTIVES)
    fastest = min(result.frontier, key=lambda plan: plan.cost["time_s"])
    return {
        "time_s": fastest.cost["time_s"],
        "device_memory_bytes": fastest.cost["device_memory_bytes"],
        "plan": fastest.placements.devices,
        "stages": fastest.stages,
        "micro_batches": 1 if fastest.placements.rounds is None else fastest.placements.rounds.count,
        "plans": len(result.frontier),
        "evaluations": result.evaluations,
        "seconds": time.perf_counter() - began,
        "most_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def by_hand(known: Iteration, degrees: Degrees = PUBLISHED) -> dict[str, Any]:
    """Cost a configuration."""
    (cost,) = known.costs.costs([known.plan(degrees)])
    return {name: cost[name] for name in ("time_s", "device_memory_bytes")}


def simulated(few: Iteration, degrees: Degrees = PUBLISHED) -> dict[str, Any]:
    """Simulate a configuration without values, and compare what is counted with its costs."""
    graph, placements = few.plan(degrees)
    (cost,) = few.costs.costs([(graph, placements)])
    began = time.perf_counter()
    explicit = expand(graph, placements, few.mesh_shape)
    run = simulate(explicit, few.mesh, dry=True, capacity_check=False)
    return {
        "seconds": time.perf_counter() - began,
        "equal": {
            "peak_memory_bytes": int(run.peak_memory_bytes.max()) == int(cost["peak_memory_bytes"]),
            "traffic_bytes": run.traffic_bytes == cost["traffic_bytes"],
        },
        "time_ratio": run.makespan_ticks / 1e12 / cost["time_s"],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Search, compare, simulate; print a line each, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    found = searched(iteration(), given.seconds)
    published = by_hand(iteration())
    print(
        f"fastest of {found['plans']} plans: {found['time_s']:.2f} s, {found['device_memory_bytes'] / 2**30:.1f} GiB, "
        f"{found['stages']}, {found['micro_batches']} micro-batches, after {found['seconds']:.0f} s and "
        f"{found['most_memory_bytes'] / 1e9:.2f} GB; published: {published['time_s']:.2f} s, "
        f"{published['device_memory_bytes'] / 2**30:.1f} GiB: {found['time_s'] / published['time_s']:.3f} of it",
        flush=True,
    )
    run = simulated(iteration(global_batch=SIMULATED_ROUNDS * PUBLISHED.data))
    print(
        f"simulated in {run['seconds']:.0f} s; equal to the cost model: {run['equal']}, time {run['time_ratio']:.6f}"
    )
    write(given.json, {"benchmark": "gpt3", "searched": found, "published": published, "simulated": run})


if __name__ == "__main__":
    main()
