"""The page about training steps lists the rules of differentiation as they are."""

from __future__ import annotations

import re
from pathlib import Path

from tapestry.teg.operators import OPERATORS
from tapestry.teg.training import LOSSES, OPTIMIZERS, RULES


def rows(page: str, heading: str) -> list[str]:
    """Return the names in the first column of the table under a heading."""
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    return re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)


def test_tables_name_all_rules_losses_and_optimizers(root: Path) -> None:
    page = (root / "docs/training.md").read_text()
    assert rows(page, "Rules of differentiation") == sorted(RULES)
    assert rows(page, "The loss") == list(LOSSES)
    assert sorted(rows(page, "What is trained")) == sorted(OPTIMIZERS)


def test_operators_without_a_rule_are_named(root: Path) -> None:
    page = (root / "docs/training.md").read_text()
    boundary = {"source", "sink", "sequence_point"}
    without = {o.name for o in OPERATORS} - set(RULES) - boundary
    assert without == {name for name in without if f"`{name}`" in page}
