"""API keys with names, and the sessions of browsers that logged in with one: only hashes of both are stored."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update

from tapestry.service.store.audit import COMMAND_LINE, AuditLine, append_line
from tapestry.service.store.database import StoreError
from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import ApiKeyRow, SessionRow, TenantRow
from tapestry.service.store.tenancy import DEFAULT, checked_tenant

Scope = Literal["read", "submit", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)  # each allows what those before it do
FORM = re.compile(r"tapestry_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")  # a public prefix, and 256 random bits
NOTHING = "0" * 64
LONGEST_NAME = 64
MOST_SESSIONS = 20  # of one key
AT_ONCE = 1000  # values of one condition


@dataclass(frozen=True)
class ApiKey:
    """A key without its secret: what is public of it, its scope, and when it ends."""

    prefix: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    tenant: str = DEFAULT

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def allows(self, scope: Scope) -> bool:
        """Return whether the key may do what a scope allows."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        moments = {
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }
        return {
            "prefix": self.prefix,
            "name": self.name,
            "tenant": self.tenant,
            "scope": self.scope,
            **{name: None if at is None else at.isoformat() for name, at in moments.items()},
        }


_COLUMNS: tuple[Any, ...] = (
    ApiKeyRow.prefix,
    ApiKeyRow.name,
    ApiKeyRow.scope,
    ApiKeyRow.created_at,
    ApiKeyRow.expires_at,
    ApiKeyRow.revoked_at,
    ApiKeyRow.tenant,
)


class Keys:
    """The keys of a service, and the sessions that they began."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        name: str,
        scope: Scope,
        now: datetime,
        expires_at: datetime | None = None,
        tenant: str = DEFAULT,
        actor: str = COMMAND_LINE,
    ) -> tuple[str, ApiKey]:
        """Make a key of a tenant; return its text, which nobody can read again, and what is stored of it.

        The audit log names the `actor`.

        Raises:
            StoreError: a valid key has this name, or it is none, or the tenant's is none.
        """
        if not (name.strip() and len(name) <= LONGEST_NAME and name.isprintable()):
            raise StoreError(f"a key's name has 1 to {LONGEST_NAME} printable characters, not {name[:80]!r}")
        prefix, tenant = secrets.token_hex(4), checked_tenant(tenant)
        text = f"tapestry_{prefix}_{secrets.token_urlsafe(32)}"
        key = ApiKey(prefix, name, scope, now, expires_at, None, tenant)
        with self._database.writing() as connection:
            rows = connection.execute(select(*_COLUMNS).where(ApiKeyRow.name == name))
            if any(_key(row).is_valid(now) for row in rows):
                raise StoreError(f"there is a key {name!r}; revoke it first, or take another name")
            values = {
                "prefix": prefix,
                "name": name,
                "tenant": tenant,
                "scope": scope,
                "digest": _digest(text),
                "created_at": now,
            }
            connection.execute(insert(ApiKeyRow).values(**values, expires_at=expires_at, revoked_at=None))
            append_line(connection, AuditLine(now, tenant, actor, "add key", subject=f"{prefix} {name}"))
            insert_if_new(connection, TenantRow, {"name": tenant, "quotas": {}, "created_at": now})
        return text, key

    def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, the oldest first, those that are revoked or expired among them."""
        with self._database.reading() as connection:
            rows = connection.execute(select(*_COLUMNS).order_by(ApiKeyRow.created_at, ApiKeyRow.prefix))
            return tuple(map(_key, rows))

    def revoke(self, reference: str, now: datetime, actor: str = COMMAND_LINE) -> ApiKey:
        """Revoke the valid key with this prefix or name, and end its sessions.

        Raises:
            UnknownId: there is none.
        """
        named = or_(ApiKeyRow.prefix == reference, ApiKeyRow.name == reference)
        with self._database.writing() as connection:
            rows = connection.execute(select(*_COLUMNS).where(named, ApiKeyRow.revoked_at.is_(None)))
            key = next((key for key in map(_key, rows) if key.is_valid(now)), None)
            if key is None:
                raise UnknownId(f"there is no valid key {reference!r}; `tapestry keys list` shows them")
            mine = ApiKeyRow.prefix == key.prefix
            connection.execute(update(ApiKeyRow).where(mine).values(revoked_at=now))
            connection.execute(delete(SessionRow).where(SessionRow.holder == key.prefix))
            line = AuditLine(now, key.tenant, actor, "revoke key", subject=f"{key.prefix} {key.name}")
            append_line(connection, line)
        return replace(key, revoked_at=now)

    def any_valid(self, now: datetime) -> bool:
        """Return whether there is a valid key."""
        with self._database.reading() as connection:
            return (
                connection.execute(select(ApiKeyRow.prefix).where(_valid(now)).limit(1)).first() is not None
            )

    def identify(self, text: str, now: datetime) -> ApiKey | None:
        """Return the valid key that a text is, in a time that tells nothing about others; None if it is none."""
        form = FORM.fullmatch(text)
        query = select(*_COLUMNS, ApiKeyRow.digest).where(ApiKeyRow.prefix == (form[1] if form else ""))
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        is_same = hmac.compare_digest(_digest(text), NOTHING if row is None else row.digest)
        if row is None or not is_same:
            return None
        key = _key(row)
        return key if key.is_valid(now) else None

    def begin_session(self, holder: str, now: datetime, ends_at: datetime) -> str:
        """Begin a session of a holder (the prefix of a key, or what stands for another), and return its token.

        The holder has at most `MOST_SESSIONS`: those that would end first are ended for it.
        """
        others = select(SessionRow.digest).where(SessionRow.holder == holder)
        kept = others.order_by(SessionRow.ends_at.desc()).limit(MOST_SESSIONS - 1)
        token = secrets.token_urlsafe(32)
        with self._database.writing() as connection:
            connection.execute(delete(SessionRow).where(SessionRow.ends_at <= now))
            mine = SessionRow.holder == holder
            connection.execute(delete(SessionRow).where(mine, SessionRow.digest.not_in(kept)))
            values = {"digest": _digest(token), "holder": holder, "ends_at": ends_at}
            connection.execute(insert(SessionRow).values(values))
        return token

    def holder(self, token: str, now: datetime) -> str | None:
        """Return the holder of a session that has not ended; None if there is none by this token."""
        query = select(SessionRow.holder).where(SessionRow.digest == _digest(token), SessionRow.ends_at > now)
        with self._database.reading() as connection:
            return connection.scalar(query)

    def still_valid(
        self, prefixes: Collection[str], tokens: Collection[str], now: datetime
    ) -> tuple[set[str], set[str]]:
        """Return which of these prefixes are of valid keys, and which of these tokens are of sessions."""
        by_digest = {_digest(token): token for token in tokens}
        keys = select(ApiKeyRow.prefix).where(_valid(now))
        sessions = select(SessionRow.digest).where(SessionRow.ends_at > now)
        with self._database.reading() as connection:
            valid = {
                prefix
                for some in _portions(prefixes)
                for prefix in connection.scalars(keys.where(ApiKeyRow.prefix.in_(some)))
            }
            open_ones = {
                by_digest[digest]
                for some in _portions(by_digest)
                for digest in connection.scalars(sessions.where(SessionRow.digest.in_(some)))
            }
        return valid, open_ones

    def end_session(self, token: str) -> None:
        """End a session: its token is no longer one."""
        with self._database.writing() as connection:
            connection.execute(delete(SessionRow).where(SessionRow.digest == _digest(token)))

    def by_prefix(self, prefix: str, now: datetime) -> ApiKey | None:
        """Return the valid key with this prefix; None if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(select(*_COLUMNS).where(ApiKeyRow.prefix == prefix, _valid(now))).first()
        return None if row is None else _key(row)


def _portions(values: Collection[str]) -> Iterator[Sequence[str]]:
    """Yield values in portions that a database takes in one condition."""
    ordered = sorted(values)
    for first in range(0, len(ordered), AT_ONCE):
        yield ordered[first : first + AT_ONCE]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _key(row: Any) -> ApiKey:
    return ApiKey(**{column.key: getattr(row, column.key) for column in _COLUMNS})


def _valid(now: datetime) -> ColumnElement[bool]:
    return and_(
        ApiKeyRow.revoked_at.is_(None), or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > now)
    )
