"""Choice of the structural rules that a search may use."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites import Rule, catalog
from tapestry.rewrites.rules import plug_ins
from tapestry.teg.faults import ArgumentError, near_names, no_such

SEE = "see `tapestry rules`, and `tapestry plugins` if it is one of a plug-in"


def choose_rules(names: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules called `names`; all of them when None.

    Raises:
        ArgumentError: unknown names, all of them; near names are listed.
    """
    known = dict(catalog())
    if names is None:
        return tuple(known.values())
    if faults := [fault for name in names if (fault := rule_fault(name))]:
        raise ArgumentError(*faults)
    return tuple(known[name] for name in names)


def rule_fault(name: str) -> str:
    """Return why a search cannot use a rule of this name, with near names; empty if it can."""
    known = catalog()
    if name in known:
        return ""
    return no_such(
        "rule", name, known, hint=plug_ins().left_out(name) or ("" if near_names(name, known) else SEE)
    )
