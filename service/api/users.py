"""The user of a request, known by the key and noted in the scope before anything else looks at it."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.types import Scope

from tapestry.service.store import DEFAULT_TENANT, ApiKey

NOTED = "tapestry.user"
OPERATOR = ApiKey("", "settings", "admin", datetime.fromtimestamp(0, UTC), None, None, DEFAULT_TENANT)


def is_operator(key: ApiKey) -> bool:
    """Return whether a key is of those who run the service: one of the default tenant that may administer."""
    return key.tenant == DEFAULT_TENANT and key.allows("admin")


def note_user(scope: Scope, key: ApiKey) -> None:
    """Note with which key a request is sent."""
    scope[NOTED] = key


def noted_user(scope: Scope) -> ApiKey | None:
    """Return the key with which a request is sent; None where none is needed."""
    key = scope.get(NOTED)
    assert key is None or isinstance(key, ApiKey)
    return key


def user_of(scope: Scope) -> ApiKey:
    """Return the key with which a request is sent; where none is needed, one that may do everything."""
    return noted_user(scope) or OPERATOR
