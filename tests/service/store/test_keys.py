"""Tests of API keys and sessions: only hashes are stored, and what has ended is no key."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from sqlalchemy import select

from tapestry.service.store import SCOPES, KeyScope, Store, StoreError, UnknownId
from tapestry.service.store.keys import MOST_SESSIONS
from tapestry.service.store.tables import ApiKeyRow, SessionRow
from tests.service.programs import NOON
from tests.service.store.submissions import later


def test_a_key_is_known_by_its_text_alone(store: Store) -> None:
    text, key = store.keys.add("ci", "submit", NOON)
    assert text.startswith(f"tapestry_{key.prefix}_") and len(text) == len("tapestry_") + 8 + 1 + 43
    assert store.keys.identify(text, later(1)) == key
    wrong = (
        text[:-1],
        text + "x",
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        key.prefix,
        "",
        "\udcff",
        "é",
    )
    assert [store.keys.identify(each, later(1)) for each in wrong] == [None] * len(wrong)
    with store._database.reading() as connection:
        rows = connection.execute(select(ApiKeyRow.__table__))
        stored = json.dumps([dict(row._mapping) for row in rows], default=str)
    assert text not in stored and text.rpartition("_")[2] not in stored


def test_keys_end(store: Store) -> None:
    text, key = store.keys.add("ci", "read", NOON, later(60))
    other, _ = store.keys.add("bot", "admin", NOON)
    assert store.keys.identify(text, later(59)) == key
    assert store.keys.identify(text, later(60)) is None
    assert store.keys.any_valid(later(60))
    assert store.keys.revoke("bot", later(61)).revoked_at == later(61)
    assert store.keys.identify(other, later(61)) is None and not store.keys.any_valid(later(61))
    with pytest.raises(UnknownId, match="there is no valid key 'bot'"):
        store.keys.revoke("bot", later(62))
    assert {each.name for each in store.keys.all()} == {"bot", "ci"}


def test_a_name_is_free_again_once_its_key_has_ended(store: Store) -> None:
    _, first = store.keys.add("ci", "read", NOON)
    with pytest.raises(StoreError, match="there is a key 'ci'; revoke it first"):
        store.keys.add("ci", "read", later(1))
    for name in ("", " ", "a\nb", "x" * 65):
        with pytest.raises(StoreError, match="a key's name has 1 to 64 printable characters"):
            store.keys.add(name, "read", later(1))
    store.keys.revoke(first.prefix, later(2))
    _, second = store.keys.add("ci", "read", later(3))
    assert first.prefix != second.prefix


@pytest.mark.parametrize(("own", "allowed"), [("read", 1), ("submit", 2), ("admin", 3)])
def test_each_scope_allows_what_those_before_it_do(store: Store, own: KeyScope, allowed: int) -> None:
    _, key = store.keys.add("ci", own, NOON)
    assert [key.allows(scope) for scope in SCOPES] == [k < allowed for k in range(3)]


def test_sessions_end_by_themselves_by_logout_and_with_their_key(store: Store) -> None:
    _, key = store.keys.add("ci", "read", NOON)
    ends_at = later(3600)
    tokens = [store.keys.begin_session(key.prefix, NOON, ends_at) for _ in range(2)]
    assert store.keys.holder(tokens[0], later(3599)) == key.prefix
    assert store.keys.holder(tokens[0], ends_at) is None
    store.keys.end_session(tokens[0])
    assert store.keys.holder(tokens[0], later(1)) is None
    assert store.keys.holder(tokens[1], later(1)) == key.prefix
    store.keys.revoke("ci", later(2))
    assert store.keys.holder(tokens[1], later(3)) is None
    store.keys.begin_session("another", NOON, NOON + timedelta(days=1))
    with store._database.reading() as connection:
        digests = connection.scalars(select(SessionRow.digest)).all()
    assert len(digests) == 1 and not set(digests) & set(tokens)


def test_a_key_has_so_many_sessions_and_the_oldest_end_first(store: Store) -> None:
    other = store.keys.begin_session("another", NOON, later(3600))
    tokens = [store.keys.begin_session("mine", later(k), later(3600 + k)) for k in range(MOST_SESSIONS + 3)]
    found = [store.keys.holder(token, later(60)) for token in tokens]
    assert found == [None] * 3 + ["mine"] * MOST_SESSIONS
    assert store.keys.holder(other, later(60)) == "another"
