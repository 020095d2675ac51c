"""Tests that the language page names every operator and cell function, with facts that are true of them."""

from __future__ import annotations

from tapestry.teg.graph import ROLES
from tapestry.teg.signature import MONOIDS
from tests.docs.catalog import PAGE, with_tables


def test_tables_are_those_of_the_catalog() -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text, "run `python -m tests.docs.catalog`, which writes the tables anew"


def test_monoids_and_roles_are_named() -> None:
    text = PAGE.read_text()
    assert [name for name in (*MONOIDS, *ROLES) if f"`{name}`" not in text] == []
