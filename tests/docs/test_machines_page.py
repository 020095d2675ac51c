"""Tests that the page about machines shows the current catalog."""

from __future__ import annotations

from tapestry.hardware import device_names, mesh_names
from tapestry.hardware.mesh import TOPOLOGIES
from tests.docs.machines import PAGE, with_tables


def test_tables_are_those_of_the_catalog() -> None:
    text = PAGE.read_text()
    assert with_tables(text) == text, "run `python -m tests.docs.machines`, which writes the tables anew"


def test_every_device_mesh_and_topology_is_named() -> None:
    text = PAGE.read_text()
    assert [n for n in (*device_names(), *mesh_names(), *TOPOLOGIES) if f"`{n}`" not in text] == []
