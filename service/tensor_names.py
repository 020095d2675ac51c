"""Names of stored tensors."""

from __future__ import annotations

import re

LONGEST = 200
PATTERN = rf"[A-Za-z0-9_][A-Za-z0-9_.:+-]{{0,{LONGEST - 1}}}"


def name_fault(name: str) -> str | None:
    """Return why a text cannot name a stored tensor, and what can; None if it can."""
    if re.fullmatch(PATTERN, name):
        return None
    return (
        f"{name[:80]!r} is no name of a stored tensor: 1 to {LONGEST} letters, digits and _ . : + -, the first one a "
        "letter, a digit or _"
    )
