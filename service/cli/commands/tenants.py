"""`tapestry tenants`: who shares a service, how much each may have, and how much of it is used."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.cli.values import NO_QUOTA
from tapestry.service.store import QUOTAS, Store, StoreError
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Carry out the action, and print the tenants that it is about."""
    store = open_store(arguments.database_url)
    try:
        names: Sequence[str] = store.tenants.names()
        if arguments.action != "list":
            names = [arguments.tenant]
        if arguments.action == "set":
            _set(store, arguments)
        elif arguments.action == "show" and arguments.tenant not in store.tenants.names():
            raise CommandError(f"there is no tenant {arguments.tenant!r}; `tapestry tenants list` shows them")
        documents = [_document(store, name) for name in names]
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if arguments.json:
        print_json({"items": documents} if arguments.action == "list" else documents[0])
    else:
        print_table(
            ("tenant", "weight", "jobs", "stored", "search in 24 h"), [_cells(one) for one in documents]
        )
    return OK


def _set(store: Store, arguments: Namespace) -> None:
    given = {name: getattr(arguments, name) for name in QUOTAS if getattr(arguments, name) is not None}
    if not given and arguments.weight is None:
        raise CommandError("say what to set: --jobs, --stored-bytes, --search-seconds or --weight")
    changes = {name: None if value == NO_QUOTA else value for name, value in given.items()}
    limits = replace(store.tenants.limits(arguments.tenant), **changes)
    store.tenants.set_limits(arguments.tenant, limits, datetime.now(UTC), weight=arguments.weight)


def _document(store: Store, name: str) -> dict[str, Any]:
    view = store.of(name)
    limits, used = view.quotas.limits().to_json(), view.quotas.use(datetime.now(UTC)).to_json()
    quotas = {quota: {"limit": limits.get(quota), "used": used[quota]} for quota in QUOTAS}
    return {"tenant": name, "weight": store.tenants.weight(name), "quotas": quotas}


def _cells(document: dict[str, Any]) -> tuple[str, ...]:
    quotas = document["quotas"]
    units = {"jobs": "", "stored_bytes": "B", "search_seconds": "s"}
    cells = []
    for name, unit in units.items():
        used, limit = quotas[name]["used"], quotas[name]["limit"]
        shown = [f"{value:,.15g}" if not unit else quantity(value, unit) for value in (used, limit or 0)]
        cells.append(shown[0] if limit is None else f"{shown[0]} of {shown[1]}")
    return (document["tenant"], f"{document['weight']:g}", *cells)
