"""Tests that the pages about rules agree with the catalog and the figures."""

from __future__ import annotations

from tapestry.rewrites import RULES
from tests.docs.rules import PAGES, README, _figures, families, with_tables


def test_pages_are_those_of_the_catalog() -> None:
    for page in PAGES:
        text = page.read_text()
        assert with_tables(text) == text, "run `python -m tests.docs.rules`, which writes the pages anew"


def test_the_readme_counts_the_rules() -> None:
    (line,) = [x for x in README.read_text().splitlines() if x.startswith("| rules that rewrite programs")]
    assert line.endswith(f"| {len(RULES)} |")


def test_every_rule_is_in_one_family() -> None:
    shown = [rule.name for _, files in families() for _, own in files for rule in own]
    assert sorted(shown) == sorted(rule.name for rule in RULES)


def test_every_rule_of_the_figures_exists() -> None:
    known = {rule.name for rule in RULES}
    for name, figures in _figures().items():
        assert figures["rules"].keys() <= known, f"run `python -m benchmarks.firings` for {name}"
