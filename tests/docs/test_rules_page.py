"""Tests that what pages say about rules agrees with the catalog and the figures."""

from __future__ import annotations

from tapestry.rewrites import RULES
from tests.docs.generated import ROOT
from tests.docs.rules import _figures, families


def test_the_readme_counts_the_rules() -> None:
    (line,) = [x for x in (ROOT / "README.md").read_text().splitlines() if x.startswith("| Rewrite rules")]
    assert f"| {len(RULES)} " in line


def test_every_rule_is_in_one_family() -> None:
    shown = [rule.name for _, files in families() for _, own in files for rule in own]
    assert sorted(shown) == sorted(rule.name for rule in RULES)


def test_every_rule_of_the_figures_exists() -> None:
    known = {rule.name for rule in RULES}
    for name, figures in _figures().items():
        assert figures["rules"].keys() <= known, f"run `python -m benchmarks.firings` for {name}"
