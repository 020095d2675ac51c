"""Tests that the language page names every monoid and role."""

from __future__ import annotations

from tapestry.teg.graph import ROLES
from tapestry.teg.signature import MONOIDS
from tests.docs.generated import ROOT


def test_monoids_and_roles_are_named() -> None:
    text = (ROOT / "docs" / "language.md").read_text()
    assert [name for name in (*MONOIDS, *ROLES) if f"`{name}`" not in text] == []
