"""Choice of the structural rules that a search may use."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tapestry.rewrites import Rule, catalog
from tapestry.rewrites.rules import plug_ins

SEE = "see `tapestry rules`, and `tapestry plugins` if it is one of a plug-in"


def choose_rules(names: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return the rules called `names`; all of them when None.

    Raises:
        ValueError: an unknown name; near names are listed.
    """
    known = dict(catalog())
    if names is None:
        return tuple(known.values())
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            reported = plug_ins().left_out(name) or (f"did you mean {' or '.join(near)}" if near else SEE)
            raise ValueError(f"unknown rule {name!r}; {reported}")
    return tuple(known[name] for name in names)
