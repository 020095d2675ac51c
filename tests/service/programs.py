"""A small program, and a search result made by hand, for tests of the store and the command line."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from tapestry.costmodel.known_objectives import known_objectives, objective_called
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, Progress, Result, RunOptions, parse_constraint
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.run.plan import BoundScope, LowerBound
from tapestry.rewrites import Move
from tapestry.service.store import FinishedRun, NewExecution
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def two_layers(name: str = "two_layers", width: int = 64, with_weights: bool = False) -> Graph:
    """Build `relu(x @ up) @ down`, `width` wide."""
    b = GraphBuilder(name)
    x = b.source("x", (width, width), "float32")
    value = np.ones((width, 4 * width), np.float32) if with_weights else None
    up = b.source("up", (width, 4 * width), "float32", "parameter", value)
    down = b.source("down", (4 * width, width), "float32", "parameter")
    (hidden,) = b.apply(
        "contract", (x, up), site="hidden", labels=(("m", "k"), ("k", "n")), output=("m", "n")
    )
    (active,) = b.apply(
        "cell",
        (hidden,),
        site="active",
        expr=("relu", ("input", 0)),
        labels=(("m", "n"),),
        dims=(("m", width), ("n", 4 * width)),
        dtype="float32",
    )
    (y,) = b.apply("contract", (active, down), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(y, site="result")
    return b.build()


def plan_by_hand(graph: Graph, time_s: float, memory_bytes: int, split: str = "(gpu.0, -, -)") -> Plan:
    """Build a plan with one sharded block and made-up costs."""
    placements = Placements({"y": Placement(parse_strategy(split), prefetch=(1, 0))})
    moves = (Move("reshard", "y", split), Move("prefetch", ("y", "hidden"), f"0:{memory_bytes}"))
    cost = {"time_s": time_s, "peak_memory_bytes": memory_bytes, "compute_flops": 2**60 + 1}
    return Plan(graph, placements, moves, cost, True)


def verified(plan: Plan) -> dict[str, object]:
    """Return the verification of a plan that keeps its promises."""
    memory = plan.cost["peak_memory_bytes"]
    return {
        "sharding": {"ok": True, "issues": []},
        "memory": {"predicted": memory, "counted": memory, "method": "dry"},
        "traffic": {"predicted": 0, "counted": 0, "method": "dry"},
        "values": {"executed": False, "ok": False, "max_error": {}},
    }


def finished_run(graph: Graph, stopped: str = "budget") -> FinishedRun:
    """Build a run with two plans, one of which was executed."""
    frontier = (plan_by_hand(graph, 1e-3, 2**20), plan_by_hand(graph, 2e-3, 2**19, "(-, gpu.0, -)"))
    result = Result(
        graph=graph,
        mesh=load_mesh("dgx-h100"),
        objectives=tuple(map(objective_called, ("time_s", "peak_memory_bytes"))),
        constraints=(parse_constraint("peak_memory_bytes<=1GiB"),),
        frontier=frontier,
        evaluations=1234,
        seconds=1.5,
        seed=7,
        islands=2,
        stopped=stopped,
        timings={"compile_s": 0.25},
        rules={"reshard": (100, 3)},
        refused={"cube": "its guard\nfails"},
        bounds={
            "time_s": LowerBound(
                8e-4, 1e-3, BoundScope(2, ("gpu.0 x gpu.1 x gpu.2",), ("program",), ("all",), (1,))
            )
        },
        expected={"time_s": 0.0025, "peak_memory_bytes": 0.0},
        history=(Progress("searching", 0.5, 600, 1, 0.25), Progress("searching", 1.5, 1234, 2, 0.5)),
    )
    execution = NewExecution(
        "numpy", 7, {"time_s": 1e-3}, verified(frontier[0]), NOON, {"traceEvents": [{"ts": 0}]}
    )
    return FinishedRun(
        result,
        RunOptions(
            objectives=tuple(objective.name for objective in result.objectives),
            constraints=("peak_memory_bytes<=1GiB",),
            seconds=1.5,
            seed=7,
            rules=("fuse_cells",),
            pins={"y": "[gpu.0, -]"},
            compute_dtype="bf16",
            devices="all",
        ),
        NOON,
        {"python": "3.11"},
        {"cores": 2},
        verified={plan.id: verified(plan) for plan in frontier},
        executions={frontier[0].id: execution},
    )


def costed_run(graph: Graph) -> FinishedRun:
    """Build a run with one plan whose costs are true, so that it can be executed."""
    run = finished_run(graph)
    plan, known, mesh = run.result.frontier[0], known_objectives(graph), run.result.mesh
    tally = reference_cost(graph, plan.placements, mesh, resources=known.resources)
    costed = replace(plan, cost=costs_of(tally.vector(), mesh, known))
    return replace(run, result=replace(run.result, frontier=(costed,)), verified={}, executions={})
