"""Plans in the store: found by name, rebuilt by their moves, with the artifacts rendered from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select

from tapestry.costmodel.known_objectives import objective_called
from tapestry.optimizer import Plan
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.rewrites import Move
from tapestry.service.store.codec import graph_of, plans_of, stored_options, stored_plan
from tapestry.service.store.database import StoreError
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.records import StoredPlan
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import ArtifactRow, GraphRow, PlanRow, RunRow
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.text import placements_from_document

# The names by which commands find plans of a frontier, and their roles.
ROLES = {"knee": "knee", "fastest": "fastest", "smallest": "smallest peak"}

_ALL = tuple(getattr(PlanRow, column.key) for column in PlanRow.__table__.columns)


class Plans:
    """Plans that runs have found, whether they are still on the frontier or not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, public_id: str) -> StoredPlan:
        """Return the plan `RUN-PLAN`, or `PLAN` of the newest run that has it; whole ids."""
        run_id, _, plan_id = public_id.rpartition("-")
        query = _plans().where(PlanRow.plan_id == plan_id)
        if run_id:
            query = query.where(PlanRow.run_id == run_id)
        with self._database.reading() as connection:
            row = connection.execute(query.limit(1)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no plan {public_id!r}")
        return stored_plan(row)

    def find(self, reference: str) -> StoredPlan:
        """Find the plan named `PLAN` (of the newest run that has it) or `RUN/PLAN`; unique prefixes are accepted.

        `knee`, `fastest` and `smallest` name plans, too: of the frontier of that run, else of the newest that has one.
        """
        run_part, _, plan_part = reference.replace("-", "/").rpartition("/")
        query = _plans()
        if run_part:
            query = query.where(PlanRow.run_id.startswith(run_part, autoescape=True))
        if plan_part in ROLES:
            return self._representative(query.where(PlanRow.on_frontier.is_(True)), plan_part, run_part)
        query = query.where(PlanRow.plan_id.startswith(plan_part, autoescape=True))
        with self._database.reading() as connection:
            found = [stored_plan(row) for row in connection.execute(query)] if plan_part else []
            if not found and run_part:
                run = select(RunRow.id).where(RunRow.id.startswith(run_part, autoescape=True))
                if connection.execute(run.limit(1)).first() is None:
                    raise UnknownId(f"there is no run {run_part!r}; `tapestry show` lists the runs")
        if not found:
            raise UnknownId(f"there is no plan {reference!r}; `tapestry show RUN` lists a run's plans")
        names = sorted({plan.id for plan in found} if not run_part else {plan.public_id for plan in found})
        if len(names) > 1:
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise StoreError(f"plan {reference!r} is not one plan; it may be {some}")
        return found[0]

    def _representative(self, query: Select[Any], role: str, run_part: str) -> StoredPlan:
        """Find the plan with this role on the frontier of the newest run of a query."""
        with self._database.reading() as connection:
            newest = connection.execute(query.limit(1)).first()
            if newest is None:
                of_run = f"run {run_part!r} has no plans" if run_part else "no run has plans"
                raise UnknownId(f"there is no plan {role!r}: {of_run}; `tapestry show` lists the runs")
            run_id = newest.run_id
            if run_part not in ("", run_id):
                runs = query.where(PlanRow.run_id != run_id).limit(1)
                if connection.execute(runs).first() is not None:
                    raise StoreError(f"run {run_part!r} is not one run; write more of its id")
            frontier = [stored_plan(row) for row in connection.execute(query.where(PlanRow.run_id == run_id))]
            options = connection.execute(select(RunRow.options).where(RunRow.id == run_id)).scalar_one()
        objectives = [objective_called(name) for name in stored_options(options).objectives]
        return representative_plans(frontier, objectives)[ROLES[role]]

    def load(self, key: int) -> Plan:
        """Load the plan with this key as the search made it: rewritten graph, placements, moves, cost."""
        return self.load_all([key])[0]

    def load_all(self, keys: Sequence[int]) -> list[Plan]:
        """Load the plans with these keys, in order; what plans have in common is read and replayed once."""
        costs = (PlanRow.cost, PlanRow.feasible, PlanRow.cost_model, PlanRow.time, PlanRow.origin)
        query = select(PlanRow.key, PlanRow.moves, PlanRow.placements, *costs, RunRow.graph_id).join(
            RunRow, RunRow.id == PlanRow.run_id
        )
        with self._database.reading() as connection:
            rows = connection.execute(query.where(PlanRow.key.in_(keys))).all()
            wanted = {row.graph_id for row in rows}
            documents = connection.execute(
                select(GraphRow.id, GraphRow.document).where(GraphRow.id.in_(wanted))
            ).all()
        found: dict[int, Plan] = {}
        for graph_id, document in documents:
            of_graph = [row for row in rows if row.graph_id == graph_id]
            plans = plans_of(graph_of(document), of_graph)
            found |= {row.key: plan for row, plan in zip(of_graph, plans, strict=True)}
        missing = [key for key in keys if key not in found]
        if missing:
            raise UnknownId(f"there is no plan with key {missing[0]}")
        return [found[key] for key in keys]

    def choices(self, keys: Sequence[int]) -> list[tuple[tuple[Move, ...], Placements]]:
        """Return the moves and placements of the plans with these keys, in their order, without making them again."""
        query = select(PlanRow.moves, PlanRow.placements).where(PlanRow.key.in_(keys)).order_by(PlanRow.key)
        with self._database.reading() as connection:
            return [
                (tuple(map(Move.from_json, row.moves)), placements_from_document(row.placements))
                for row in connection.execute(query)
            ]

    def artifact(self, key: int, kind: str) -> bytes | None:
        """Return an artifact rendered from the plan before, gzipped; None if it was not stored."""
        query = select(ArtifactRow.content).where(ArtifactRow.plan_key == key, ArtifactRow.kind == kind)
        with self._database.reading() as connection:
            return connection.scalar(query)

    def save_artifact(self, key: int, kind: str, content: bytes, now: datetime) -> None:
        """Store an artifact rendered from the plan for later requests."""
        row = {"plan_key": key, "kind": kind, "content": content, "created_at": now}
        with self._database.writing() as connection:
            insert_if_new(connection, ArtifactRow, row)


def _plans() -> Select[Any]:
    """Build the query of plans with all columns, those of the newest run first."""
    query = select(*_ALL).join(RunRow, RunRow.id == PlanRow.run_id)
    return query.order_by(RunRow.created_at.desc(), RunRow.id.desc(), PlanRow.key)
