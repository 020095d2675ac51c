"""`tapestry runs`: the stored runs that are wanted, in the order that is wanted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.frontier import unit_of
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.store import RunOrder, RunSummary, StoreError
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """List runs: newest first unless `--sort` says otherwise."""
    store = open_store(arguments.database_url)
    try:
        found = store.runs.page(
            arguments.limit,
            order=RunOrder.of(arguments.sort),
            search=arguments.search,
            tag=arguments.tag,
            mesh=arguments.mesh,
            status=arguments.status,
            batch=arguments.batch,
        )
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if arguments.json:
        print_json({"runs": [_document(each) for each in found]})
    elif not found:
        print("there is no such run")
    else:
        head = ("run", "when", "status", "program", "mesh", "plans", "least time", "least memory", "tags")
        print_table(head, [_row(each) for each in found], right=(5, 6, 7))
    return OK


def _document(found: RunSummary) -> dict[str, Any]:
    return {
        "run": found.id,
        "created_at": found.created_at.isoformat(),
        "status": found.status,
        "graph": found.graph_name,
        "graph_id": found.graph_id,
        "mesh": found.mesh_name,
        "objectives": list(found.options.objectives),
        "evaluations": found.evaluations,
        "seconds": found.seconds,
        "plans": found.front,
        "hypervolume": found.hypervolume,
        "best": dict(found.best),
        "tags": list(found.tags),
        "notes": found.notes,
    }


def _row(found: RunSummary) -> tuple[str, ...]:
    return (
        found.id,
        f"{found.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        found.status,
        found.graph_name,
        found.mesh_name,
        f"{found.front:,}",
        _least(found.best, "time_s"),
        _least(found.best, "peak_memory_bytes"),
        ", ".join(found.tags),
    )


def _least(best: Mapping[str, float], name: str) -> str:
    return quantity(best[name], unit_of(name)) if name in best else ""
