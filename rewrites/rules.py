"""The catalogue of rules: one tuple per family, added up here; third parties add through entry points."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from rewrites.algebra import ALGEBRA
from rewrites.expansions import EXPANSIONS
from rewrites.fusion import FUSION
from rewrites.in_place import IN_PLACE
from rewrites.plugged import RULE_GROUP
from rewrites.rule import Rule
from rewrites.selectors import SELECTORS
from rewrites.sharding import SHARDING
from teg.plugins import Loaded, load, once

RULES: tuple[Rule, ...] = (*ALGEBRA, *SELECTORS, *FUSION, *EXPANSIONS, *SHARDING, *IN_PLACE)


@once
def plug_ins() -> Loaded[Rule]:
    """The rules of installed plug-ins (entry point group `tapestry.rules`), and what was left out."""
    return load(RULE_GROUP, {rule.name for rule in RULES})


@cache
def catalogue() -> dict[str, Rule]:
    """All rules by name, those of installed plug-ins included; one that is left out is not in it."""
    return {rule.name: rule for rule in RULES} | dict(plug_ins().members)


def rule_named(name: str) -> Rule:
    """The rule called `name`.

    Raises:
        ValueError: there is none; near names are listed.
    """
    known = catalogue()
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(known))}"
        raise ValueError(f"unknown rule {name!r}; {plug_ins().left_out(name) or hint}")
    return known[name]
