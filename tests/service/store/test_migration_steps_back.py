"""Contract of all steps back: each leads to the tables of before, and keeps all that these have a place for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine

from tapestry.optimizer import RunOptions
from tapestry.service.store.database import database_url_of, open_database
from tapestry.service.store.migrations import HEAD, REVISIONS
from tapestry.service.store.migrations.steps_back import (
    OLDEST,
    STEPS_BACK,
    losses,
    names_of_losses,
    step_back,
)
from tapestry.service.store.migrations.upgrade import upgrade
from tapestry.service.store.schema import turn
from tests.service.schemas import description
from tests.service.store.test_migration_steps import content, fill

BACK = REVISIONS[: REVISIONS.index(OLDEST) - 1 : -1]
OPTIONS = {"gap": 0.5, "search_price": 1.0, "worth": {"time_s": "1usd/s"}, "prior": "none", "dtype": "bf16"}
OPTIONS |= {"launch": "eager", "robust": 0.9, "micro_batches": 2, "stages": 2}
OPTIONS |= {"data_parallel": 2, "tensor_parallel": 2}
CHOSEN = {"tenant": "default", "runs.options": {**RunOptions().to_stored(), **OPTIONS}}
TENANTS = {name for name in names_of_losses() if name.endswith(".tenant")}


def named(connection: Connection, target: str) -> set[str]:
    return {loss.name for loss in losses(connection, HEAD, target)}


def kept(before: dict[str, Any], after: dict[str, Any], but: set[str]) -> dict[str, Any]:
    """Return of the rows before what the tables after have a place for."""
    return {
        name: [
            {key: row[key] for key in row if key in after[name][0] and f"{name}.{key}" not in but}
            for row in rows
        ]
        for name, rows in before.items()
        if name in after
    }


def test_every_step_has_one_back() -> None:
    assert set(STEPS_BACK) == set(REVISIONS[REVISIONS.index(OLDEST) + 1 :])


@pytest.mark.slow
def test_every_step_back_leads_to_the_tables_of_before_and_keeps_what_they_have_a_place_for(
    new_database: Callable[[], str],
) -> None:
    before, database = schemas(new_database()), open_database(new_database())
    before[HEAD] = description(database)
    with turn(database) as connection:
        fill(connection, set(), CHOSEN)
        stored = content(connection)
        for target in BACK:
            steps = [STEPS_BACK[undone] for undone in REVISIONS[REVISIONS.index(target) + 1 :]]
            columns = {name for step in steps for name in (*step.tables, *step.columns)}
            columns |= {f"runs.options.{name}" for step in steps for name in step.options}
            assert named(connection, target) == columns - TENANTS
    for found, target in pairwise(BACK):
        with turn(database) as connection:
            step_back(connection, found, target)
        assert description(database) == before[target], target
        with turn(database) as connection:
            there = content(connection)
            changed = {"leases.owner", "runs.options"}
            assert kept(stored, there, changed) == kept(there, there, {*changed, "leases.expires_at"}), target
    check_that_up_and_down_again_changes_nothing(database)
    assert description(database) == before[HEAD]
    database.dispose()


def schemas(url: str) -> dict[str, Any]:
    """Describe the tables of every version to which there is a way back."""
    engine, found = create_engine(database_url_of(url)), {}
    for step in REVISIONS:
        with turn(engine) as connection:
            upgrade(connection, None if step == REVISIONS[0] else REVISIONS[REVISIONS.index(step) - 1], step)
        if step in BACK:
            found[step] = description(engine)
    engine.dispose()
    return found


def check_that_up_and_down_again_changes_nothing(database: Engine) -> None:
    """Check that steps up give rows just what is no loss on the way back."""
    with turn(database) as connection:
        upgrade(connection, OLDEST)
        assert named(connection, OLDEST) == set()
        assert all(OPTIONS.keys().isdisjoint(row["options"]) for row in content(connection)["runs"])
        stored = content(connection)
    assert len(stored["runs"]) == 1
    for target in ("0027", OLDEST):
        with turn(database) as connection:
            step_back(connection, HEAD, target)
            upgrade(connection, target)
            assert content(connection) == stored
