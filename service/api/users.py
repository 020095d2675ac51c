"""The user of a request, known by a key or by a proxy, and noted in the scope before anything else looks at it."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime

from starlette.datastructures import Headers
from starlette.types import Scope

from tapestry.service.settings import ProxyIdentity
from tapestry.service.store import DEFAULT_TENANT, SCOPES, ApiKey, StoreError, checked_tenant

NOTED, SESSION = "tapestry.user", "tapestry.session"
SECRET = "X-Tapestry-Proxy-Secret"
LONGEST_USER = 64
EVER = datetime.fromtimestamp(0, UTC)
OPERATOR = ApiKey("", "settings", "admin", EVER, None, None, DEFAULT_TENANT)


class WrongIdentity(Exception):
    """Error raised for headers of a proxy that name no user, or come from somebody else."""


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


def note_session(scope: Scope, token: str) -> None:
    """Note by which session, rather than by a key of its own, a request is let in."""
    scope[SESSION] = token


def noted_session(scope: Scope) -> str | None:
    """Return the token of the session by which a request was let in; None if it was not by one."""
    token = scope.get(SESSION)
    assert token is None or isinstance(token, str)
    return token


def user_of(scope: Scope) -> ApiKey:
    """Return the key with which a request is sent; where none is needed, one that may do everything."""
    return noted_user(scope) or OPERATOR


def actor_of(key: ApiKey) -> str:
    """Return what stands for a key where its secret must not: its prefix, or the name of another identity."""
    return key.prefix or key.name


def proxied(headers: Headers, proxy: ProxyIdentity | None) -> ApiKey | None:
    """Return what a proxy tells of the user as a key without a prefix; None where no proxy speaks, or none may.

    Raises:
        WrongIdentity: the secret is missing or wrong, a tenant or scope is none, or a header is there twice.
    """
    if proxy is None:
        return None
    for header in (SECRET, proxy.user, proxy.tenant, proxy.scope):
        if len(headers.getlist(header)) > 1:  # one is perhaps not the proxy's
            raise WrongIdentity(
                f"{header} is there more than once; the proxy sets it, and removes what it receives"
            )
    if proxy.user not in headers and SECRET not in headers:
        return None
    given = headers.get(SECRET, "").encode(errors="replace")
    if not hmac.compare_digest(given, proxy.secret.encode()):
        raise WrongIdentity(f"the secret of the proxy is missing or wrong ({SECRET})")
    name, scope = headers.get(proxy.user, ""), headers.get(proxy.scope, "read")
    if not (name.strip() and name.isprintable() and len(name) <= LONGEST_USER):
        raise WrongIdentity(f"{proxy.user} has the name of a user, of 1 to {LONGEST_USER} characters")
    found = next((known for known in SCOPES if known == scope), None)
    if found is None:
        raise WrongIdentity(f"{proxy.scope} is one of {', '.join(SCOPES)}, not {scope[:40]!r}")
    try:
        tenant = checked_tenant(headers.get(proxy.tenant, DEFAULT_TENANT))
    except StoreError as error:
        raise WrongIdentity(f"{proxy.tenant}: {error}") from error
    return ApiKey("", f"proxy:{name}", found, EVER, None, None, tenant)
