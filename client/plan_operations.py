"""The operations on plans: what they decide, and their forms for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.client.calls import Call, Steps
from tapestry.client.operation import Reference, Requests, id_of, operation
from tapestry.client.programs import ProgramLike, program_upload
from tapestry.client.records import PlanDetail


class PlanOperations(Requests):
    """The operations on plans."""

    @operation
    def plan(self, plan: Reference) -> Steps[PlanDetail]:
        """Return a plan with its placements, moves and executions."""
        return PlanDetail.from_json((yield from self._got(f"/v1/plans/{id_of(plan)}")))

    @operation
    def export(
        self,
        plan: Reference,
        to: str,
        parameters: Mapping[str, str | Sequence[str]] | None = None,
        program: ProgramLike | None = None,
    ) -> Steps[bytes]:
        """Return a plan in a format for other programs.

        `parameters` are further ones of the request, such as `{"device": ["0", "1"]}` of an explicit graph. `program`
        is the program that was searched, for the formats that are written into it (`shardy`).

        Raises:
            ArgumentError: there is no such file, or the program is no file.
            ProblemError: a format that there is none of; the fault lists all. Or the plan cannot be written so.
        """
        path, params = f"/v1/plans/{id_of(plan)}/export", {"to": to, **(parameters or {})}
        call = Call("GET", path, params=params)
        if program is not None:
            call = Call("POST", path, upload=program_upload(program), params=params)
        return (yield from self._answered(call)).content

    @operation
    def placements(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the decisions of a plan: strategy, specs and prefetches of every block."""
        return dict(json.loads((yield from PlanOperations.export.steps(self, plan, "placements"))))

    @operation
    def explicit_graph(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the explicit graph of a plan as a TEG document: every block with its index range and device."""
        return dict(json.loads((yield from PlanOperations.export.steps(self, plan, "teg"))))
