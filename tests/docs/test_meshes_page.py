"""Tests that the page about devices and meshes names every topology."""

from __future__ import annotations

from tapestry.hardware.mesh import TOPOLOGIES
from tests.docs.generated import ROOT


def test_every_topology_is_named() -> None:
    text = (ROOT / "docs" / "meshes.md").read_text()
    assert [n for n in TOPOLOGIES if f"`{n}`" not in text] == []
