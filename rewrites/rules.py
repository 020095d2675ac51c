"""The catalogue of rules: one tuple per family, added up here; third parties add through entry points."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points

from rewrites.algebra import ALGEBRA
from rewrites.expansions import EXPANSIONS
from rewrites.fusion import FUSION
from rewrites.rule import Rule
from rewrites.selectors import SELECTORS

RULES: tuple[Rule, ...] = (*ALGEBRA, *SELECTORS, *FUSION, *EXPANSIONS)


@cache
def catalogue() -> dict[str, Rule]:
    """All rules by name, those of installed plug-ins (entry point group `tapestry.rules`) included.

    An entry point is a rule or a sequence of rules.

    Raises:
        ValueError: two rules have one name, or a plug-in cannot be loaded; it says which.
    """
    known = {rule.name: rule for rule in RULES}
    for entry in entry_points(group="tapestry.rules"):
        try:
            loaded = entry.load()
        except Exception as error:
            raise ValueError(f"plug-in {entry.name!r} ({entry.value}) cannot be loaded: {error!r}") from error
        for rule in (loaded,) if isinstance(loaded, Rule) else loaded:
            if not isinstance(rule, Rule):
                raise ValueError(f"plug-in {entry.name!r} offers {rule!r}, which is no Rule")
            if rule.name in known:
                raise ValueError(f"plug-in {entry.name!r} defines rule {rule.name!r}, which exists already")
            known[rule.name] = rule
    return known


def rule_named(name: str) -> Rule:
    """The rule called `name`.

    Raises:
        ValueError: there is none; near names are listed.
    """
    known = catalogue()
    if name not in known:
        near = get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted(known))}"
        raise ValueError(f"unknown rule {name!r}; {hint}")
    return known[name]
