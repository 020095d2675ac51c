"""The catalog of rules: one tuple per family, combined here; third parties add by entry points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tapestry.rewrites.algebra.rules import ALGEBRA
from tapestry.rewrites.expansions.rules import EXPANSIONS
from tapestry.rewrites.fusion.rules import FUSION
from tapestry.rewrites.in_place.rules import IN_PLACE
from tapestry.rewrites.plugin_checks import RULE_GROUP
from tapestry.rewrites.repetition.rules import REPETITION
from tapestry.rewrites.rule import Rule
from tapestry.rewrites.selectors.rules import SELECTORS
from tapestry.rewrites.sharding.rules import SHARDING
from tapestry.teg.faults import no_such
from tapestry.teg.plugins import Loaded, load, once

FAMILIES: Mapping[str, tuple[Rule, ...]] = {
    "algebra": ALGEBRA,
    "selectors": SELECTORS,
    "fusion": FUSION,
    "expansions": EXPANSIONS,
    "sharding": SHARDING,
    "in_place": IN_PLACE,
    "repetition": REPETITION,
}
RULES: tuple[Rule, ...] = tuple(rule for family in FAMILIES.values() for rule in family)
OTHERS = "plugins"
FAMILY_NAMES = (*FAMILIES, OTHERS)
_FAMILY = {rule.name: family for family, rules in FAMILIES.items() for rule in rules}


@once
def plug_ins() -> Loaded[Rule]:
    """Load the rules of installed plug-ins (entry point group `tapestry.rules`), and what was left out."""
    return load(RULE_GROUP, {rule.name for rule in RULES})


@cache
def catalog() -> dict[str, Rule]:
    """Return all rules by name, with those of installed plug-ins; rules that were left out are not in it."""
    return {rule.name: rule for rule in RULES} | dict(plug_ins().members)


def family_of(rule: str) -> str:
    """Return the family that a rule belongs to, by its name; rules supplied by plug-ins are in `plugins`."""
    return _FAMILY.get(rule, OTHERS)


def rule_named(name: str) -> Rule:
    """Return the rule called `name`.

    Raises:
        ValueError: there is none; near names are listed.
    """
    known = catalog()
    if name not in known:
        raise ValueError(no_such("rule", name, sorted(known), hint=plug_ins().left_out(name)))
    return known[name]
