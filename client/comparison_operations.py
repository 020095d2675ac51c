"""The operations that compare: two to four runs, or plans."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tapestry.client.calls import Call, Steps
from tapestry.client.comparison_records import PlanComparison, RunComparison
from tapestry.client.operation import Reference, Requests, id_of, operation


class ComparisonOperations(Requests):
    """The operations that compare."""

    @operation
    def compare_runs(self, *runs: Reference) -> Steps[RunComparison]:
        """Compare the frontiers of two to four runs over the objectives that all have.

        Raises:
            ProblemError: fewer or more runs, one twice, or one that there is not.
        """
        return RunComparison.from_json(json.loads((yield from self._compared("run", runs))))

    @operation
    def compare_plans(self, *plans: Reference) -> Steps[PlanComparison]:
        """Compare the costs and decisions of two to four plans: block by block, equal layers together.

        Raises:
            ProblemError: fewer or more plans, one twice, or one that there is not.
        """
        return PlanComparison.from_json(json.loads((yield from self._compared("plan", plans))))

    def _compared(self, kind: str, references: Sequence[Reference]) -> Steps[bytes]:
        ids = [id_of(reference) for reference in references]
        call = Call("GET", f"/v1/comparisons/{kind}s", params={kind: ids})
        return (yield from self._answered(call)).content
