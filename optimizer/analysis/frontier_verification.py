"""Verification of many plans on one mesh, the most important ones first, for as long as there is time."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tapestry.costmodel.objective import Objective
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.analysis.verification import Verification, verify_plan
from tapestry.optimizer.archive.representatives import P, representative_plans
from tapestry.optimizer.run.clock import Deadline, Now
from tapestry.optimizer.run.plan import ABOVE_ZERO, Plan, Result
from tapestry.teg.arguments import a_value_of, check_arguments, optional
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.result_cache import ResultCache

NO_PROGRAM = Graph("", (), {})
# The plans with which a search begins that are measured, and the time for a plan of a frontier by that for one of them.
FIRST, LATER = 2, 4.0
# The plans of a frontier of which the next one is taken to be like.
RECENT = 3
# A frontier is taken to need so many times what was measured of some of its plans: the others may be dearer, and the
# processes that help begin with nothing.
MARGIN = 1.5
ARGUMENTS = {"found": a_value_of(Result, "the result of optimize()"), "seconds": optional(ABOVE_ZERO)}


class FrontierVerifier:
    """Verifies plans on a mesh; what they have in common is expanded, proven and counted once."""

    def __init__(self, mesh: Mesh, compute_dtype: str | None = None) -> None:
        self.mesh, self.compute_dtype = mesh, compute_dtype
        self._mesh_shape = MeshShape(mesh.axis_sizes)
        self._caches: dict[MeshShape, ResultCache] = {}

    def verify(self, plan: Plan, **options: Any) -> Verification:
        """Verify a plan; `options` are those of `verify_plan`.

        Raises:
            ValueError: the plan uses devices that the mesh does not have.
        """
        used = self._mesh_shape.part(plan.placements.devices)
        cache = self._caches.setdefault(used, ResultCache(used))
        return verify_plan(plan, self.mesh, compute_dtype=self.compute_dtype, cache=cache, **options)


class TimedVerifier(FrontierVerifier):
    """A verifier that notes what plans take here, and estimates from it what the next ones will take.

    The work of a plan is measured in seconds of the processor. By the clock `now` it takes longer where others want the
    processor too, and as much longer as the last plans did. The first plan is proven from nothing; later ones share
    with those before, but plans of a frontier less than those with which a search begins.
    """

    def __init__(
        self,
        mesh: Mesh,
        compute_dtype: str | None = None,
        now: Now = time.perf_counter,
        processor_now: Now = time.process_time,
    ) -> None:
        super().__init__(mesh, compute_dtype)
        self._now, self._processor_now = now, processor_now
        self._took_s, self._work_s = list[float](), list[float]()

    def verify(self, plan: Plan, **options: Any) -> Verification:
        """Verify a plan and note what it takes."""
        began_s, worked_s = self._now(), self._processor_now()
        found = super().verify(plan, **options)
        self._took_s.append(self._now() - began_s)
        self._work_s.append(self._processor_now() - worked_s)
        return found

    @property
    def slowdown(self) -> float:
        """The time that the last plans took, by the time that the processor worked for them; at least 1."""
        work_s = sum(self._work_s[-RECENT:])
        return max(1.0, sum(self._took_s[-RECENT:]) / work_s) if work_s > 0 else 1.0

    @property
    def next_s(self) -> float:
        """The seconds that the next plan takes here, if it is like the last ones; 0 before any."""
        recent = self._work_s[FIRST:][-RECENT:] or self._work_s[-1:]
        return self.slowdown * max(recent, default=0.0)

    def frontier_s(self, count: int, processes: int) -> float:
        """Estimate the seconds of a frontier of `count` plans, each process of which begins with nothing."""
        if not self._work_s or count == 0:
            return 0.0
        later = self._work_s[FIRST:][-RECENT:]
        later_s = max(later) if later else LATER * sum(self._work_s) / len(self._work_s)
        return MARGIN * self.slowdown * (self._work_s[0] + (count - 1) * later_s / processes)


class Helpers:
    """Processes that verify plans: each keeps what its plans have in common, and programs are sent without weights."""

    def __init__(self, executor: Executor, mesh: Mesh, compute_dtype: str | None) -> None:
        self._executor, self._setting = executor, pickle.dumps((mesh, compute_dtype))
        self._programs: dict[int, tuple[Graph, bytes]] = {}

    def verify(self, plan: Plan) -> Future[dict[str, Any]]:
        """Have a plan verified dry; the result is the JSON document of its verification."""
        graph = plan.graph
        if id(graph) not in self._programs:
            self._programs[id(graph)] = (graph, pickle.dumps(replace(graph, data={})))
        bare = replace(plan, graph=NO_PROGRAM, moves=())
        return self._executor.submit(_verify_apart, self._programs[id(graph)][1], bare, self._setting)


def _verify_apart(program: bytes, plan: Plan, setting: bytes) -> dict[str, Any]:
    return _verifier(setting).verify(replace(plan, graph=_program(program))).to_json()


@lru_cache(maxsize=8)
def _program(pickled: bytes) -> Graph:
    graph: Graph = pickle.loads(pickled)
    return graph


@lru_cache(maxsize=1)
def _verifier(pickled: bytes) -> FrontierVerifier:
    return FrontierVerifier(*pickle.loads(pickled))


def by_importance(frontier: Sequence[P], objectives: Sequence[Objective]) -> tuple[P, ...]:
    """Sort plans for verification: the representative ones, then the others from the fastest on."""
    if not frontier:
        return ()
    first = {plan.id: plan for plan in representative_plans(frontier, objectives).values()}
    others = sorted(frontier, key=lambda plan: (plan.cost["time_s"], plan.id))
    return (*first.values(), *(plan for plan in others if plan.id not in first))


def verify_frontier(found: Result, *, seconds: float | None = None) -> dict[str, Verification | None]:
    """Prove the sharding of every plan of a result, and count its memory and traffic; by the ids of the plans.

    What plans have in common is found once. The knee, the fastest plan and the one with the smallest peak come first,
    then the others from the fastest on. After `seconds` those that are left have None: they are not verified.

    >>> import tapestry
    >>> checked = tapestry.verify_frontier(result, seconds=20)  # doctest: +SKIP

    Raises:
        ArgumentError: no result of `optimize`, or no number above 0.
    """
    check_arguments(ARGUMENTS, {"found": found, "seconds": seconds})
    return verified_until(found, None if seconds is None else Deadline.after(seconds))


def verified_until(result: Result, deadline: Deadline | None) -> dict[str, Verification | None]:
    """Verify plans until the deadline, see `verify_frontier`."""
    verifier = FrontierVerifier(result.mesh, result.compute_dtype)
    found: dict[str, Verification | None] = {plan.id: None for plan in result.frontier}
    for plan in by_importance(result.frontier, result.objectives):
        if deadline is not None and deadline.left_s <= 0:
            break
        found[plan.id] = verifier.verify(plan)
    return found
