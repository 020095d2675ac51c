"""How many whole plans are judged per second on one core, layers untied.

    python -m benchmarks.throughput --json FILE [MODEL.onnx ...] [--seconds 5]

A candidate is a distinct plan: varied, costed on all ten objectives (shared copies, memory, schedule) and
offered to the archive. After the clock has stopped, plans of the archive and random walks from them are
costed again by the plain model, which must agree on every integer cost.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.kernel import COSTS, evaluate
from costmodel.objectives import NAMES, require_objectives
from costmodel.plain import plain_cost
from costmodel.planspace import Genes, PlanSpace
from hardware import Mesh, load_mesh
from optimizer.archive import new_archive
from optimizer.constraints import all_constraints
from optimizer.coordinator import RULE_WEIGHT
from optimizer.island import SEEN_SIZE, Goal, new_statistics, offer_all, run_epoch
from optimizer.report import goal_of
from optimizer.searchspace import SearchSpace, search_space
from optimizer.seeds import genes_rows, seed_plans
from optimizer.stream import new_stream
from optimizer.variation import RULES, vary
from rewrites import RULES as STRUCTURAL
from rewrites import saturate
from teg.graph import Graph
from teg.importers import from_onnx

ROOT = Path(__file__).parent.parent
DEFAULT_MODELS = (
    "gpt2_small_b1_s1024",
    "resnet50_b16_224",
    "llama2_7b_1layer_b1_s2048",
    "llama2_7b_32layer_b1_s2048",
)
EPOCH = 4096
EPSILON = 0.02
LONGEST_WALK = 4


def measure(path: Path, mesh: Mesh, seconds: float, checks: int, simplified: bool) -> dict[str, Any]:
    """The figures of one model: rates, times to come so far, and the check against the plain model."""
    began = time.perf_counter()
    graph = from_onnx(path)
    imported = time.perf_counter()
    if simplified:
        graph = saturate(graph, [r for r in STRUCTURAL if r.saturating]).graph
    ready = time.perf_counter()
    space = PlanSpace(graph, mesh)
    compiled = time.perf_counter()
    search = search_space(space, tied=False)
    goal = _goal(mesh)
    archive = new_archive(256, 16, len(NAMES), space.gene_count, space.edge_count)
    offer_all(space.space, space.state, archive, goal, *genes_rows(seed_plans(space, search), space.space))
    first_front = time.perf_counter()
    rng = np.random.default_rng(0)
    statistics, seen = new_statistics(), np.zeros(SEEN_SIZE, np.uint64)
    rates = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        lap = time.perf_counter()
        done = run_epoch(
            space.space,
            space.state,
            search,
            archive,
            goal,
            new_stream(rng),
            RULE_WEIGHT,
            statistics,
            seen,
            EPOCH,
        )
        rates.append(done / (time.perf_counter() - lap))
    plans = _sample(space, search, archive, rng, checks)
    wrong, plain_s = _check(space, graph, mesh, plans)
    rate = float(np.median(rates))
    return {
        "graph": graph.name,
        "structure": "simplified" if simplified else "imported",
        "blocks": len(space.slots),
        "sources": len(space.sources),
        "edges": space.edge_count,
        "device_classes": len(space.space.classes),
        "candidates_per_s": rate,
        "slowest_epoch_per_s": float(min(rates)),
        "ns_per_block": 1e9 / rate / len(space.slots),
        "candidates": EPOCH * len(rates),
        "import_s": imported - began,
        "compile_s": compiled - ready,
        "first_frontier_s": first_front - compiled,
        "front": int(archive.size[0]),
        "plain_per_s": len(plans) / plain_s,
        "ratio_to_plain": rate * plain_s / len(plans),
        "checked": len(plans),
        "wrong": wrong,
    }


def _goal(mesh: Mesh) -> Goal:
    """All ten objectives and the device's capacity."""
    objectives = require_objectives(NAMES, mesh.device)
    return goal_of(objectives, all_constraints((), mesh), mesh, EPSILON)


def _sample(
    space: PlanSpace, search: SearchSpace, archive: Any, rng: np.random.Generator, count: int
) -> list[tuple[Genes, np.ndarray]]:
    """Walks of a few moves from members of the front, each with its cost by the incremental state."""
    stream = new_stream(rng)
    plans = []
    for _ in range(count):
        i = int(rng.integers(archive.size[0]))
        plan = (archive.genes[i].copy(), archive.prefetch[i].copy(), archive.regather[i].copy())
        for _ in range(int(rng.integers(LONGEST_WALK + 1))):
            rule = int(rng.integers(len(RULES)))
            vary(rule, stream, space.space, search, *plan, np.zeros(1, np.uint64))
        cost = np.zeros(COSTS, np.int64)
        evaluate(space.space, space.state, *plan, cost)
        plans.append((Genes(*(a.astype(np.int64) for a in plan)), cost))
    return plans


def _check(
    space: PlanSpace, graph: Graph, mesh: Mesh, plans: Sequence[tuple[Genes, np.ndarray]]
) -> tuple[int, float]:
    """Plans on which the plain model disagrees on any cost, and the seconds it took for all."""
    began = time.perf_counter()
    wrong = 0
    for genes, cost in plans:
        wrong += not np.array_equal(plain_cost(graph, space.placements(genes), mesh).vector(), cost)
    return wrong, time.perf_counter() - began


def find_models(names: Sequence[str]) -> list[Path]:
    """Files of the named models that come with the project."""
    folders = (ROOT / "examples" / "models", ROOT / "tests" / "data" / "graphs")
    files = {p.stem: p for f in folders for p in sorted(f.rglob("*.onnx")) if "tiny" not in p.parts}
    return [files[name] for name in names if name in files]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a line per graph, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=5.0, help="per graph")
    parser.add_argument("--checks", type=int, default=100, help="plans checked by the plain model")
    parser.add_argument("--simplified", action="store_true", help="measure the simplified graphs too")
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    files = given.models or find_models(DEFAULT_MODELS)
    _warm_up(files[0], mesh)
    rows = []
    for path in files:
        for simplified in (False, True) if given.simplified else (False,):
            row = measure(path, mesh, given.seconds, given.checks, simplified)
            rows.append(row)
            print(_line(row), flush=True)
    if given.json:
        packages = {name: version(name) for name in ("numpy", "numba")}
        document = {
            "mesh": mesh.name,
            "python": platform.python_version(),
            "packages": packages,
            "graphs": rows,
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n")


def _warm_up(path: Path, mesh: Mesh) -> None:
    """Load compiled code, so that no figure contains its compilation."""
    measure(path, mesh, seconds=0.01, checks=1, simplified=False)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['graph']} ({row['structure']}): {row['blocks']} blocks, {row['candidates_per_s']:,.0f} plans/s, "
        f"{row['ns_per_block']:.1f} ns per block, {row['ratio_to_plain']:,.0f} x the plain model; "
        f"import {row['import_s']:.2f} s, compile {row['compile_s']:.2f} s, "
        f"first frontier {row['first_frontier_s']:.2f} s; {row['wrong']} of {row['checked']} wrong"
    )


if __name__ == "__main__":
    main()
