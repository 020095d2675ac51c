"""Short texts for values: what a class shows of itself at a prompt, in an error or in a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

LONGEST_NAME = 48
LONGEST = 180


def brief(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text, cut in its middle where it is longer."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 plan`, `1,200 plans`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(texts: Collection[object], most: int = 3) -> str:
    """Return the first texts, each cut, with commas in between, and how many more there are."""
    shown = ", ".join(brief(str(text), 24) for text in islice(texts, most))
    more = len(texts) - most
    return f"{shown} and {more} more" if more > 0 else shown


def enumerated(texts: Sequence[str]) -> str:
    """Return texts as a sentence lists them: `a, b and c`."""
    return " and ".join(texts) if len(texts) < 3 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def shown(kind: str, parts: Iterable[str]) -> str:
    """Return `kind(part, part)`, never longer than `LONGEST`."""
    return brief(f"{kind}({', '.join(part for part in parts if part)})", LONGEST)
