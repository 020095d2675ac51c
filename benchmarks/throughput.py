"""Throughput of plan evaluation: whole plans per second on one core, layers untied.

    python -m benchmarks.throughput --json FILE [--graphs A.onnx B.json.gz ...] [--mesh dgx-h100] [--seconds 5]
        [--micro-batches 4]

A candidate is a distinct plan: varied, costed (shared copies, memory, schedule, all ten objectives) and
submitted to the archive. Every graph is measured as imported, which is the main figure, and as simplified by
the saturating rules. After the clock has stopped the same epochs run again with a witness: it counts the distinct
plans, and a random sample of the plans is costed by the reference cost model, which must agree on every
integer cost.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.replay import Witness, new_witness, record_epoch
from benchmarks.setting import find_models, write
from tapestry.costmodel.kernel_arrays import new_state
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objectives import NAMES
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import Counted, reference_cost
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer.archive.archive import Archive, new_archive
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.optimizer.archive.fronts import set_parent_weights
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.archive.report import goal_of
from tapestry.optimizer.placement.credits import Odds, first_odds, new_statistics, odds_of, place_shares
from tapestry.optimizer.placement.island import SEEN_SIZE, insert_all, run_epoch
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.search_space import SearchSpace, search_space
from tapestry.optimizer.placement.seeds import genes_rows, seed_plans
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.variants import FRONT_CAPACITY, MOVES, POOL_CAPACITY
from tapestry.rewrites import RULES, saturate
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.possible_rounds import rounds_of
from tapestry.teg.sharding.rounds import Rounds

DEFAULT_MODELS = (
    "gpt2_small_b1_s1024",
    "resnet50_b16_224",
    "llama2_7b_1layer_b1_s2048",
    "llama2_7b_32layer_b1_s2048",
)
STRUCTURES = ("imported", "simplified")
EPOCH = 4096
ALONE = 3  # plans that the plain model costs without knowing earlier copies: its time for one plan


@dataclass(frozen=True)
class Island:
    """A compiled graph, all its layers untied, with the seeds in its archive; `goal` evaluates all ten objectives."""

    space: PlanSpace
    search: SearchSpace
    archive: Archive
    goal: Goal


@dataclass(frozen=True)
class Run:
    """The timings of a run: random number generators, plans evaluated, wall and processor seconds of each epoch."""

    streams: list[np.ndarray]
    evaluated: list[int]
    wall_s: list[float]
    cpu_s: list[float]

    @property
    def per_s(self) -> list[float]:
        return [n / s for n, s in zip(self.evaluated, self.wall_s, strict=True)]


def measure(
    graph: Graph, mesh: Mesh, seconds: float, checks: int, seed: int = 0, rounds: Rounds | None = None
) -> dict[str, Any]:
    """Measure one graph, whose plans all run in these rounds if any, and return its figures."""
    began = time.perf_counter()
    space = PlanSpace(graph, mesh, rounds=rounds)
    search = search_space(space, tied=False)
    compiled = time.perf_counter()
    island = plant(space, search, mesh)
    planted = time.perf_counter()
    before = Archive(*(a.copy() for a in island.archive))
    rng = np.random.default_rng(seed)
    run = drive(island, seconds, rng)
    witness, faithful = replay(island, before, run, checks, rng)
    wrong, alone_s = check(island, graph, mesh, witness)
    distinct = len(np.unique(witness.digests))
    share = distinct / sum(run.evaluated)
    rate = float(np.median(run.per_s)) * share
    return {
        "blocks": len(space.slots),
        "sources": len(space.sources),
        "edges": space.edge_count,
        "device_classes": len(space.space.classes),
        "candidates_per_s": round(rate),
        "candidates_per_cpu_s": round(distinct / sum(run.cpu_s)),
        "slowest_epoch_per_s": round(min(run.per_s) * share),
        "ns_per_block": round(1e9 / rate / len(space.slots), 2),
        "candidates": sum(run.evaluated),
        "distinct": distinct,
        "replay_is_the_run": faithful,
        "compile_s": round(compiled - began, 4),
        "first_frontier_s": round(planted - compiled, 4),
        "front": int(island.archive.size[0]),
        "plain_s_per_plan": round(alone_s, 4),
        "ratio_to_plain": round(rate * alone_s),
        "checked": len(witness.costs),
        "wrong": wrong,
    }


def plant(space: PlanSpace, search: SearchSpace, mesh: Mesh) -> Island:
    """Build an island whose archive holds the seeds."""
    goal = goal_of(
        KnownObjectives().require(NAMES, mesh.device), all_constraints((), mesh), mesh, RunOptions().epsilon
    )
    sizes = (len(NAMES), space.gene_count, space.edge_count)
    archive = new_archive(FRONT_CAPACITY, POOL_CAPACITY, *sizes, moves=MOVES)
    insert_all(space.space, space.state, archive, goal, *genes_rows(seed_plans(space, search), space.space))
    return Island(space, search, archive, goal)


def drive(island: Island, seconds: float, rng: np.random.Generator) -> Run:
    """Run epochs for `seconds`, as a search would run them in one process."""
    run = Run([], [], [], [])
    seen, statistics = np.zeros(SEEN_SIZE, np.uint64), new_statistics()
    space, stop = island.space, time.perf_counter() + seconds
    while not run.evaluated or time.perf_counter() < stop:
        random_state = new_rng(rng)
        run.streams.append(random_state.copy())
        wall, cpu = time.perf_counter(), time.process_time()
        set_parent_weights(island.archive)
        evaluated = run_epoch(
            space.space,
            space.state,
            island.search,
            island.archive,
            island.goal,
            random_state,
            _first_odds(island),
            statistics,
            seen,
            EPOCH,
        )
        run.wall_s.append(time.perf_counter() - wall)
        run.cpu_s.append(time.process_time() - cpu)
        run.evaluated.append(int(evaluated))
    return run


def _first_odds(island: Island) -> Odds:
    shares = place_shares(island.search, bool(island.space.space.has_dimension_orders))
    return odds_of(new_statistics(), first_odds(), shares)


def replay(
    island: Island, before: Archive, run: Run, kept: int, rng: np.random.Generator
) -> tuple[Witness, bool]:
    """Run the epochs again from the archive `before`; return a witness, and whether they leave the run's archive."""
    space = island.space
    witness = new_witness(space, sum(run.evaluated), kept, rng)
    seen, state = np.zeros(SEEN_SIZE, np.uint64), new_state(space.space)
    for random_state in run.streams:
        set_parent_weights(before)
        record_epoch(
            space.space,
            state,
            island.search,
            before,
            island.goal,
            random_state,
            _first_odds(island),
            new_statistics(),
            seen,
            EPOCH,
            witness,
        )
    same = all(np.array_equal(a, b) for a, b in zip(before, island.archive, strict=True))
    return witness, bool(same)


def check(island: Island, graph: Graph, mesh: Mesh, witness: Witness) -> tuple[int, float]:
    """Count the plans whose costs differ from the reference cost model's; also return its median seconds per plan."""
    counted: Counted = {}
    wrong, alone = 0, []
    for i, cost in enumerate(witness.costs):
        placements = island.space.placements(witness.plan(i))
        if i < ALONE:
            began = time.perf_counter()
            reference_cost(graph, placements, mesh)
            alone.append(time.perf_counter() - began)
        found = reference_cost(graph, placements, mesh, counted=counted).vector()
        wrong += not np.array_equal(found, cost)
    return wrong, float(np.median(alone)) if alone else 0.0


def rows_of(
    path: Path, mesh: Mesh, seconds: float, checks: int, micro_batches: int = 1
) -> list[dict[str, Any]]:
    """Measure both structures of one model file, as imported and as simplified; this one in micro-batches, too."""
    began = time.perf_counter()
    graph = read_program(path)
    imported_s = time.perf_counter() - began
    began = time.perf_counter()
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    simplified_s = time.perf_counter() - began
    rows = []
    for structure, form in zip(STRUCTURES, (graph, simple), strict=True):
        row = {"graph": path.stem, "structure": structure, "import_s": round(imported_s, 4)}
        if structure == "simplified":
            row["simplify_s"] = round(simplified_s, 4)
        rows.append(row | measure(form, mesh, seconds, checks))
        print(line_of(rows[-1]), flush=True)
    for rounds in rounds_of(simple, micro_batches)[:1] if micro_batches > 1 else ():
        row = {"graph": path.stem, "structure": f"simplified, {rounds}", "import_s": round(imported_s, 4)}
        rows.append(row | measure(simple, mesh, seconds, checks, rounds=rounds))
        print(line_of(rows[-1]), flush=True)
    return rows


def line_of(row: dict[str, Any]) -> str:
    """Format one row as a sentence."""
    strange = "" if row["replay_is_the_run"] else "; THE REPLAY IS NOT THE RUN"
    return (
        f"{row['graph']} ({row['structure']}): {row['blocks']} blocks, {row['candidates_per_s']:,} plans/s "
        f"({row['candidates_per_cpu_s']:,} per processor second), {row['ns_per_block']:.1f} ns per block, "
        f"{row['ratio_to_plain']:,} x the plain model; {row['distinct']:,} of {row['candidates']:,} distinct; "
        f"import {row['import_s']:.2f} s, compile {row['compile_s']:.2f} s, first frontier "
        f"{row['first_frontier_s']:.2f} s; {row['wrong']} of {row['checked']} wrong{strange}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a line per graph and structure, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--graphs", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--mesh", default="dgx-h100")
    parser.add_argument("--seconds", type=float, default=5.0, help="per graph and structure")
    parser.add_argument("--micro-batches", type=int, default=1, help="measure plans in so many of them, too")
    parser.add_argument("--checks", type=int, default=100, help="plans that the plain model costs again")
    given = parser.parse_args(argv)
    mesh = load_mesh(given.mesh)
    files = given.graphs or find_models(DEFAULT_MODELS)
    # Compiled code is loaded before any clock starts.
    measure(read_program(files[0]), mesh, seconds=0.01, checks=1)
    rows = [
        row for path in files for row in rows_of(path, mesh, given.seconds, given.checks, given.micro_batches)
    ]
    write(
        given.json, {"benchmark": "throughput", "mesh": mesh.name, "seconds": given.seconds, "graphs": rows}
    )


if __name__ == "__main__":
    main()
