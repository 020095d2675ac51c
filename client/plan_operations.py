"""The operations on plans: what they decide, and their forms for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.client.calls import Call, Steps
from tapestry.client.operation import Reference, Requests, id_of, operation
from tapestry.client.programs import ProgramLike, program_upload
from tapestry.client.records import MeasurementRecord, PlanDetail


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
    def report_measurement(
        self,
        plan: Reference,
        seconds: float,
        measured_on: str,
        *,
        repeats: int | None = None,
        repeat_error: float | None = None,
    ) -> Steps[MeasurementRecord]:
        """Report what a step of a plan took, in seconds, where it really ran; it is shown beside the predicted time.

        `measured_on` is where, in words. `repeat_error` is how far repeats lie apart: half the distance of the
        quartiles, over the median.
        """
        body = {
            "seconds": seconds,
            "measured_on": measured_on,
            "repeats": repeats,
            "repeat_error": repeat_error,
        }
        answer = yield from self._answered(Call("POST", f"/v1/plans/{id_of(plan)}/measurements", json=body))
        return MeasurementRecord.from_json(json.loads(answer.content))

    @operation
    def delete_measurement(self, plan: Reference, measurement: Reference) -> Steps[None]:
        """Delete a measured time of a plan.

        Raises:
            ProblemError: the plan has none with this id (`unknown_id`).
        """
        yield from self._answered(
            Call("DELETE", f"/v1/plans/{id_of(plan)}/measurements/{id_of(measurement)}")
        )

    @operation
    def placements(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the decisions of a plan: strategy, specs and prefetches of every block."""
        return dict(json.loads((yield from PlanOperations.export.steps(self, plan, "placements"))))

    @operation
    def explicit_graph(self, plan: Reference) -> Steps[dict[str, Any]]:
        """Return the explicit graph of a plan as a TEG document: every block with its index range and device."""
        return dict(json.loads((yield from PlanOperations.export.steps(self, plan, "teg"))))
