"""Programs and runs for the benchmark of the dashboard: chains of layers, large frontiers, and runs that go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

import tapestry
from tapestry.costmodel.known_objectives import known_objectives, objective_called
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, Progress, Result, RunOptions
from tapestry.optimizer.archive.report import costs_of
from tapestry.rewrites import Move
from tapestry.service.store import FinishedRun, Job, RunRequest, RunUpdate, Store, mesh_to_document
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements

MESH = "dgx-h100"
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
LABELS = (("m", "k"), ("k", "n"))
LAYERS = 20
KEPT = 20
LEASE_S = 24 * 3600.0


def chain(layers: int) -> Graph:
    """Build equal layers of four products, each with its parameter."""
    b = GraphBuilder("chain")
    x = b.source("x", (16, 16), "float32")
    for k in range(layers):
        for n in range(4):
            w = b.source(f"model.layers.{k}.w{n}", (16, 16), "float32", "parameter")
            (x,) = b.apply("contract", (x, w), site=f"p{k}of{n}", labels=LABELS, output=("m", "n"))
    b.sink(x, site="result")
    return b.build()


class PlansOnACurve:
    """Plans of one placement whose costs are along a curve with noise: the more time, the less of everything else."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        known, mesh = known_objectives(graph), load_mesh(MESH)
        tally = reference_cost(graph, Placements({}), mesh, resources=known.resources)
        self._cost = costs_of(tally.vector(), mesh, known)

    def plan(self, number: int) -> Plan:
        """Build the plan of a number; the same number has the same plan."""
        rng = np.random.default_rng(number)
        share = 1.0 + number / 50
        cost = {
            name: type(value)(value * (share if name == "time_s" else 1 / share) * rng.uniform(0.999, 1.001))
            for name, value in self._cost.items()
        }
        moves = (Move("plan", "p0of0", str(number)),)
        return Plan(self._graph, Placements({}), moves, cost, True)


def searched_run(store: Store, layers: int, seed: int) -> str:
    """Search the plans of a chain, and store the run; return its id. Its plans can be made again."""
    options = RunOptions(objectives=OBJECTIVES, evaluations=2000, seed=seed)
    result = tapestry.optimize(chain(layers), MESH, OBJECTIVES, evaluations=2000, islands=1, seed=seed)
    finished = FinishedRun(result, options, datetime.now(UTC), {}, {}, verified={}, executions={})
    return store.runs.save_finished(finished)


def stored_run(store: Store, count: int) -> str:
    """Store an ended run with so many plans; return its id."""
    graph = chain(LAYERS)
    result = Result(
        graph=graph,
        mesh=load_mesh(MESH),
        objectives=tuple(map(objective_called, OBJECTIVES)),
        constraints=(),
        frontier=tuple(map(PlansOnACurve(graph).plan, range(count))),
        evaluations=100_000,
        seconds=30.0,
        seed=count,
        islands=2,
        stopped="budget",
        timings={"compile_s": 1.0},
        rules={"reshard": (50_000, 900)},
        refused={},
        bounds={},
        expected={},
        history=tuple(Progress("searching", k / 4, 1000 * k, min(k, count), k / 150) for k in range(1, 121)),
    )
    options = RunOptions(objectives=OBJECTIVES, seconds=30.0, seed=count)
    finished = FinishedRun(result, options, datetime.now(UTC), {}, {}, verified={}, executions={})
    return store.runs.save_finished(finished)


@dataclass
class LiveRuns:
    """Live runs that go on as if a worker searched them; the frontier of each has the newest `kept` plans."""

    store: Store
    curve: PlansOnACurve
    kept: int
    jobs: list[Job] = field(default_factory=list)
    step: int = 0

    @staticmethod
    def begin(store: Store, count: int, kept: int = KEPT) -> LiveRuns:
        """Queue and claim so many runs."""
        program = chain(LAYERS)
        live = LiveRuns(store, PlansOnACurve(program), kept)
        graph = store.graphs.save(program, datetime.now(UTC)).id
        for seed in range(count):
            options = RunOptions(objectives=OBJECTIVES, seconds=600.0, seed=seed)
            store.runs.submit(
                RunRequest(graph, mesh_to_document(load_mesh(MESH)), options), datetime.now(UTC)
            )
        while (job := store.jobs.claim("benchmark", datetime.now(UTC), LEASE_S)) is not None:
            live.jobs.append(job)
        return live

    @property
    def ids(self) -> list[str]:
        """The runs' ids."""
        return [job.subject for job in self.jobs]

    @property
    def evaluations(self) -> int:
        """The evaluations that the last update reports."""
        return 100 + self.step

    def advance(self) -> None:
        """Write an update of every run: a plan joins its frontier, and the oldest of so many leaves."""
        self.step += 1
        added = [self.curve.plan(self.step)]
        removed = [self.curve.plan(self.step - self.kept).id] if self.step > self.kept else []
        progress = Progress(
            "searching", self.step / 10, self.evaluations, self.kept, 0.25, (1e-3, 1.0, 1.0, 1.0), 0.1
        )
        update = RunUpdate(b"", "searching", progress, added, removed, {"reshard": (self.step, 1)})
        for job in self.jobs:
            self.store.jobs.checkpoint(job, datetime.now(UTC), LEASE_S, update)
