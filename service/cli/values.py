"""Parsers of command-line values: each reports the expected form when it gets something else."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from math import inf

from tapestry.costmodel.expression_parser import split_at_commas

MOST = 2**63 - 1
NO_QUOTA = "none"


def whole(least: int, most: int = MOST) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            limit = f"from {least} to {most}" if most < MOST else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"expected a whole number {limit}, not {text!r}")
        return value

    return convert


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, not {text!r}") from None


def above_zero(text: str) -> float:
    """Parse a number above zero."""
    value = number(text)
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {text!r}")
    return value


def duration(text: str) -> float:
    """Parse seconds, zero or more."""
    seconds = number(text)
    if not 0 <= seconds < inf:
        raise argparse.ArgumentTypeError(f"expected seconds, zero or more, not {text!r}")
    return seconds


LONGEST_AGE_S = 100 * 365 * 86400.0
_AGES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def age(text: str) -> float:
    """Parse an age such as `30d` to seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected an age such as 30d, 12h or 15m, not {text!r}")
    seconds = float(found[1]) * _AGES[found[2]]
    if seconds > LONGEST_AGE_S:
        raise argparse.ArgumentTypeError(f"expected an age of at most 100 years, not {text!r}")
    return seconds


def size(text: str) -> int:
    """Parse a size such as `10GB` or `4GiB` to bytes."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) ?([KMGT]?)(i?)B?", text)
    if found is None or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"expected a size such as 10GB or 500MiB, not {text!r}")
    power = list(_SIZES).index(found[2])
    return int(float(found[1]) * (1024**power if found[3] else _SIZES[found[2]]))


def quota(convert: Callable[[str], int | float]) -> Callable[[str], int | float | str]:
    """Return a parser of a quota: `none` lifts it, anything else is what `convert` accepts."""

    def parse(text: str) -> int | float | str:
        return NO_QUOTA if text == NO_QUOTA else convert(text)

    return parse


def name(text: str) -> str:
    """Parse a name, which is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a name, not an empty text")
    return text


def dimension(text: str) -> tuple[str, int]:
    """Parse `name=size`."""
    name, _, size = text.partition("=")
    if not (name and size.isascii() and size.isdigit() and int(size) > 0):
        raise argparse.ArgumentTypeError(f"expected NAME=SIZE such as batch=8, not {text!r}")
    return name, int(size)


def pairs(metavar: str, example: str) -> Callable[[str], tuple[str, str]]:
    """Build a parser of a name and its text, `name=text`; errors have both of these words."""

    def convert(text: str) -> tuple[str, str]:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise argparse.ArgumentTypeError(f"expected {metavar} such as {example!r}, not {text!r}")
        return name.strip(), value.strip()

    return convert


def assignment(text: str) -> tuple[str, str]:
    """Parse `value=name`; the name is what follows the last `=`."""
    value, _, name = text.rpartition("=")
    if not (value and name):
        raise argparse.ArgumentTypeError(f"expected VALUE=NAME such as x=batch_7, not {text!r}")
    return value, name


def optional_assignment(text: str) -> tuple[str, str]:
    """Parse `name` or `name=value`, the value empty if there is none; the name is what precedes the first `=`."""
    name, sign, value = text.partition("=")
    if not name or (sign and not value):
        raise argparse.ArgumentTypeError(f"expected NAME or NAME=TENSOR such as up=h.0.weight, not {text!r}")
    return name, value


def coordinates(text: str) -> tuple[int, ...]:
    """Parse whole numbers with commas in between; none for the coordinates of a scalar."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() and len(part) < 20 and int(part) <= MOST for part in parts):
        raise argparse.ArgumentTypeError(f"expected whole numbers such as 2,3, not {text!r}")
    return tuple(map(int, parts))


def names(text: str) -> tuple[str, ...]:
    """Parse names with commas in between; those within parentheses or quotes belong to an expression."""
    found = split_at_commas(text)
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected names with commas in between, not {text!r}")
    return found
