"""All operations of both clients: those on programs, runs, plans and comparisons, and a whole search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from tapestry.client.calls import Steps
from tapestry.client.comparison_operations import ComparisonOperations
from tapestry.client.operation import operation
from tapestry.client.plan_operations import PlanOperations
from tapestry.client.program_operations import OnImport, ProgramOperations
from tapestry.client.programs import DataLike, MeshLike, ProgramLike
from tapestry.client.records import FinishedSearch
from tapestry.client.run_operations import OnEvent, RunKeywords, RunOperations


class Operations(ProgramOperations, RunOperations, PlanOperations, ComparisonOperations):
    """All operations of a client."""

    @operation
    def optimize(
        self,
        program: ProgramLike,
        mesh: MeshLike,
        *,
        name: str | None = None,
        dims: Mapping[str, int] | None = None,
        data: DataLike = (),
        fresh: bool = False,
        priority: int = 0,
        on_event: OnEvent | None = None,
        on_import: OnImport | None = None,
        timeout_seconds: float | None = None,
        **options: Unpack[RunKeywords],
    ) -> Steps[FinishedSearch]:
        """Send a program, request a run, wait for its end and return its frontier.

        These are `upload`, `submit`, `wait` and `frontier`, with their arguments and errors.
        """
        graph = yield from Operations.upload.steps(
            self, program, name=name, dims=dims, data=data, on_import=on_import
        )
        submitted = yield from Operations.submit.steps(
            self, graph, mesh, fresh=fresh, priority=priority, **options
        )
        if submitted.reused:
            run = yield from Operations.run.steps(self, submitted)
        else:
            run = yield from Operations.wait.steps(self, submitted, on_event, timeout_seconds=timeout_seconds)
        frontier = yield from Operations.frontier.steps(self, run)
        return FinishedSearch(run, frontier, submitted.reused)
