"""Tests of `tapestry keys`: a key is printed once, listed without its secret, and revoked."""

from __future__ import annotations

from tests.service.conftest import Run, complaint


def test_a_key_is_printed_once(tapestry: Run) -> None:
    printed = tapestry("keys", "add", "ci", "--scope", "read", "--expires", "90d").out.splitlines()
    prefix = printed[0].split("_")[1]
    assert (
        printed[1]
        == "this is the only time that the key 'ci' is shown; its scope is 'read', its tenant 'default'"
    )
    listed = tapestry("keys", "list")
    assert prefix in listed.out and "valid until" in listed.out and printed[0] not in listed.out
    assert complaint(tapestry("keys", "add", "ci")).startswith("there is a key 'ci'; revoke it first")
    assert "revoked" in tapestry("keys", "revoke", "ci").out
    assert [key["revoked_at"] is not None for key in tapestry("keys", "list", "--json").json["items"]] == [
        True
    ]
    assert complaint(tapestry("keys", "revoke", prefix)).startswith(f"there is no valid key {prefix!r}")


def test_a_key_in_json(tapestry: Run) -> None:
    made = tapestry("keys", "add", "bot", "--json").json
    assert (made["name"], made["scope"], made["expires_at"]) == ("bot", "submit", None)
    assert made["key"].startswith(f"tapestry_{made['prefix']}_")
    assert "key" not in tapestry("keys", "list", "--json").json["items"][0]


def test_without_keys_there_is_a_way_to_make_one(tapestry: Run) -> None:
    assert tapestry("keys", "list").out == "there are no keys; `tapestry keys add NAME` makes one\n"
    assert "expected an age such as 30d" in complaint(tapestry("keys", "add", "ci", "--expires", "soon"))
