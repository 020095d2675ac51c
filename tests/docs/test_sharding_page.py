"""Tests that the program and its tests cite every convention of the sharding page, by names that it has."""

from __future__ import annotations

import re

import pytest

from tests.docs.generated import ROOT
from tests.project.source import PACKAGES, modules

PAGE = (ROOT / "docs" / "sharding.md").read_text()
NAMES = re.findall(r"^### (.+)$", PAGE.partition("## Conventions")[2].partition("\n## ")[0], re.MULTILINE)
CITED = re.compile(r"[Cc]onventions?\s+((?:\"[a-z\s]+\"(?:\s+\([^)]*\))?(?:,?\s+(?:and\s+)?)?)+)")
SOURCES = [module for module in modules((*PACKAGES, "tests")) if module.path.name != "test_sharding_page.py"]


def test_there_are_thirteen_conventions() -> None:
    assert len(NAMES) == len(set(NAMES)) == 13


def test_no_convention_is_cited_by_its_number() -> None:
    numbered = re.compile(r"[Cc]onventions? \d")
    assert [module.relative_path for module in SOURCES if numbered.search(module.text)] == []


@pytest.mark.parametrize("cites", ["program", "tests"])
def test_every_convention_is_cited_and_by_a_name_of_the_page(cites: str) -> None:
    cited = {
        name.capitalize()
        for module in SOURCES
        if module.relative_path.startswith("tests/") == (cites == "tests")
        for text in CITED.findall(module.text)
        for name in re.findall(r"\"([a-z\s]+)\"", " ".join(text.split()))
    }
    assert cited == set(NAMES)
