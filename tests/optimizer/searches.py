"""Small searches that tests share, and the parts of a result that must repeat."""

from __future__ import annotations

from typing import Any

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget, Result
from tapestry.optimizer.run.search import search as run_search
from tapestry.teg.graph import Graph
from tests.costmodel.programs import GRAPHS

EIGHT = load_mesh("dgx-h100")


def search(
    graph: Graph | None = None, *, evaluations: int = 3000, islands: int = 1, **options: Any
) -> Result:
    """Search the small attention graph on eight devices, unless specified otherwise."""
    program = GRAPHS["attention"]() if graph is None else graph
    budget = options.pop("budget", Budget(evaluations=evaluations))
    return run_search(program, options.pop("mesh", EIGHT), budget=budget, islands=islands, **options)


def frontier(result: Result) -> list[tuple[str, dict[str, float]]]:
    """Return the plans, which must repeat, by name and by cost, in order."""
    return [(plan.id, dict(plan.cost)) for plan in result.frontier]
