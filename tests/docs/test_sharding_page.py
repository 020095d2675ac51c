"""Tests that code and tests cite the conventions of the sharding page by names that it has."""

from __future__ import annotations

import re

from tests.docs.generated import ROOT
from tests.house.source import PACKAGES, modules

PAGE = (ROOT / "docs" / "sharding.md").read_text()
NAMES = re.findall(r"^### (.+)$", PAGE.partition("## Conventions")[2].partition("\n## ")[0], re.MULTILINE)
SOURCES = [module for module in modules((*PACKAGES, "tests")) if module.path.name != "test_sharding_page.py"]


def test_there_are_ten_conventions() -> None:
    assert len(NAMES) == len(set(NAMES)) == 10


def test_no_convention_is_cited_by_its_number() -> None:
    numbered = re.compile(r"[Cc]onventions? \d")
    assert [module.relative_path for module in SOURCES if numbered.search(module.text)] == []


def test_cited_conventions_have_a_name_of_the_page() -> None:
    cited = {
        name.strip().capitalize()
        for module in SOURCES
        for text in re.findall(r"[Cc]onventions? ((?:\"[a-z ]+\"(?:, | and )?)+)", module.text)
        for name in re.findall(r"\"([a-z ]+)\"", text)
    }
    assert cited and cited <= set(NAMES)
