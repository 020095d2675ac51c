"""Tests of the rule catalog: names, near names."""

import pytest

from tapestry.rewrites import RULES, ExampleSizes, rule_named


def test_a_rule_is_found_by_name_and_near_names_are_listed() -> None:
    assert rule_named("fuse_cells").name == "fuse_cells"
    with pytest.raises(ValueError, match="there is no rule 'fuse_cell'; did you mean fuse_cells"):
        rule_named("fuse_cell")
    with pytest.raises(ValueError, match="known are abs_abs, "):
        rule_named("!")


def test_examples_are_the_same_each_time() -> None:
    for rule in RULES:
        assert rule.example(ExampleSizes()).structural_hash == rule.example(ExampleSizes()).structural_hash
