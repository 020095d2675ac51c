"""Which structural rules a search may use."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from rewrites import Rule, catalogue


def choose_rules(names: Sequence[str] | None) -> tuple[Rule, ...]:
    """The rules called `names`; all of them when None.

    Raises:
        ValueError: an unknown name; near names are listed.
    """
    known = dict(catalogue())
    if names is None:
        return tuple(known.values())
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            raise ValueError(
                f"unknown rule {name!r}; {'did you mean ' + ' or '.join(near) if near else 'see tapestry rules'}"
            )
    return tuple(known[name] for name in names)
