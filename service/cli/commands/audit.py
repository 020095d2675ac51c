"""`tapestry audit`: the audit log of a service, the newest lines first."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.store import AuditLine, StoreError


def run(arguments: Namespace) -> int:
    """Print the lines."""
    since = None if arguments.since is None else datetime.now(UTC) - timedelta(seconds=arguments.since)
    store = open_store(arguments.database_url)
    try:
        lines = store.audit.page(arguments.limit, since=since, tenant=arguments.tenant)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    if arguments.json:
        print_json({"items": [line.to_json() for line in lines]})
    elif lines:
        head = ("at", "tenant", "actor", "address", "action", "subject", "outcome")
        print_table(head, [_cells(line) for line in lines])
    else:
        print("nothing was done yet that belongs in the audit log")
    return OK


def _cells(line: AuditLine) -> tuple[str, ...]:
    outcome = line.outcome if line.status is None else f"{line.outcome} ({line.status})"
    at = f"{line.at:%Y-%m-%d %H:%M:%S}"
    return (
        at,
        line.tenant or "-",
        line.actor,
        line.address or "-",
        line.action,
        line.subject or "-",
        outcome,
    )
