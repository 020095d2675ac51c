"""`tapestry keys`: the keys with names of a service, made, listed and revoked."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.store import ApiKey, Store, StoreError


def run(arguments: Namespace) -> int:
    """Carry out the action, and print what it is about."""
    store = open_store(arguments.database_url)
    try:
        return ACTIONS[arguments.action](store, arguments, datetime.now(UTC))
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()


def _add(store: Store, arguments: Namespace, now: datetime) -> int:
    ends_at = None if arguments.expires is None else now + timedelta(seconds=arguments.expires)
    text, key = store.keys.add(arguments.name, arguments.scope, now, ends_at, arguments.tenant)
    if arguments.json:
        print_json({"key": text, **key.to_json()})
    else:
        print(text)
        print(
            f"this is the only time that the key {key.name!r} is shown; its scope is {key.scope!r}, "
            f"its tenant {key.tenant!r}"
        )
    return OK


def _list(store: Store, arguments: Namespace, now: datetime) -> int:
    keys = store.keys.all()
    if arguments.json:
        print_json({"items": [key.to_json() for key in keys]})
    elif keys:
        rows = [
            (key.prefix, key.name, key.tenant, key.scope, _day(key.created_at), _state(key, now))
            for key in keys
        ]
        print_table(("prefix", "name", "tenant", "scope", "made", "state"), rows)
    else:
        print("there are no keys; `tapestry keys add NAME` makes one")
    return OK


def _revoke(store: Store, arguments: Namespace, now: datetime) -> int:
    key = store.keys.revoke(arguments.key, now)
    if arguments.json:
        print_json(key.to_json())
    else:
        print(f"revoked: {key.prefix} ({key.name}), and its sessions ended; servers refuse it within seconds")
    return OK


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'valid until' if key.is_valid(now) else 'expired'} {_day(key.expires_at)}"


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


ACTIONS = {"add": _add, "list": _list, "revoke": _revoke}
