"""Conversion of specs, strategies and placements to and from text, as pinned by a person or stored in a plan.

A spec reads `[data.0*data.1/64, -] sum(model.0)`: per dimension its sub-axes (`-`: none), its granule after
`/`, its window after `@`, and the sub-axes on which it is partial with their monoid. A strategy reads
`(data.0, -, model.0)`. `str` writes, the functions here read; each is the other's exact inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tapestry.teg.issues import Issue, key_path, listing
from tapestry.teg.sharding.placement import (
    PLAN_OPTIONS,
    Placement,
    Placements,
    plan_options,
    with_plan_option,
)
from tapestry.teg.sharding.spec import ChunkWindow, Spec, Split
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.signature import MONOIDS

FORMAT = "tapestry.placements"
VERSION = 1

_AXIS = re.compile(r"[A-Za-z_][\w.-]*")
_INTEGER = re.compile(r"-?\d+")
_SPACE = re.compile(r"\s*")


class _Scanner:
    """A scanner that reads a text from left to right; every error says at which position it stopped."""

    def __init__(self, text: str, what: str) -> None:
        self.text, self.what, self.at = text, what, 0

    def fail(self, expected: str, at: int | None = None) -> ValueError:
        at = self.at if at is None else at
        came = repr(self.text[at : at + 12]) if at < len(self.text) else "the end"
        return ValueError(f"{self.what} {self.text!r}, position {at}: expected {expected}, not {came}")

    def take(self, token: str) -> bool:
        """Return whether the next token is this one; if so, consume it."""
        self.match(_SPACE)
        found = self.text.startswith(token, self.at)
        self.at += len(token) if found else 0
        return found

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(repr(token))

    def match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def integer(self, least: int | None = None) -> int:
        self.match(_SPACE)
        at = self.at
        digits = self.match(_INTEGER)
        if digits is None or (least is not None and int(digits) < least):
            raise self.fail("an integer" if least is None else f"an integer of at least {least}", at)
        return int(digits)

    def axes(self) -> tuple[str, ...]:
        """Parse `a*b*c`, or `-` for none."""
        if self.take("-"):
            return ()
        names = []
        while True:
            self.match(_SPACE)
            name = self.match(_AXIS)
            if name is None:
                raise self.fail("a sub-axis such as gpu.0, or '-'")
            names.append(name)
            if not self.take("*"):
                return tuple(names)

    def split(self) -> Split:
        axes = () if self.text.startswith("/", self.at) else self.axes()
        return Split(axes, self.integer(least=1) if self.take("/") else 1)

    def end(self) -> None:
        self.match(_SPACE)
        if self.at < len(self.text):
            raise self.fail("nothing more")


def parse_spec(text: str, rank: int | None = None) -> Spec:
    """Parse the spec that `str(spec)` wrote; of `rank` dimensions where that is given.

    Raises:
        ValueError: the text is no spec, or of another rank; says at which position.
    """
    scanner = _Scanner(text, "spec")
    scanner.need("[")
    dims: list[Split] = []
    windows: list[ChunkWindow | None] = []
    while not scanner.take("]"):
        if dims:
            scanner.need(",")
        scanner.match(_SPACE)
        dims.append(scanner.split())
        windows.append(_window(scanner) if scanner.take("@") else None)
    if rank is not None and len(dims) != rank:
        raise scanner.fail(f"{rank} dimensions before this bracket, not {len(dims)}", scanner.at - 1)
    partial, monoid = _partial(scanner)
    scanner.end()
    return Spec(tuple(dims), partial, monoid, tuple(windows) if any(w is not None for w in windows) else ())


def _window(scanner: _Scanner) -> ChunkWindow:
    values = [scanner.integer(least=0)]
    for _ in ChunkWindow._fields[1:]:
        scanner.need(":")
        values.append(scanner.integer())
    return ChunkWindow(*values)


def _partial(scanner: _Scanner) -> tuple[tuple[str, ...], str | None]:
    scanner.match(_SPACE)
    at = scanner.at
    name = scanner.match(_AXIS)
    if name is None:
        return (), None
    if name not in MONOIDS:
        raise scanner.fail(f"a monoid ({', '.join(MONOIDS)})", at)
    scanner.need("(")
    at = scanner.at
    partial = scanner.axes()
    if not partial:
        raise scanner.fail("the sub-axes it is partial on", at)
    scanner.need(")")
    return partial, name


@lru_cache(maxsize=4096)  # the plans of a frontier have few strategies, each thousands of times
def parse_strategy(text: str, rank: int | None = None) -> Strategy:
    """Parse the strategy that `str(strategy)` wrote; of `rank` index dimensions where that is given.

    Raises:
        ValueError: the text is no strategy, or of another rank; says at which position.
    """
    scanner = _Scanner(text, "strategy")
    scanner.need("(")
    splits: list[Split] = []
    while not scanner.take(")"):
        if splits:
            scanner.need(",")
        scanner.match(_SPACE)
        splits.append(scanner.split())
    if rank is not None and len(splits) != rank:
        raise scanner.fail(f"{rank} index dimensions before this bracket, not {len(splits)}", scanner.at - 1)
    scanner.end()
    return Strategy(tuple(splits))


def placements_to_document(placements: Placements) -> dict[str, Any]:
    """Convert placements to a JSON value; genes at their defaults are left out."""
    return {
        "format": FORMAT,
        "version": VERSION,
        **{name: text for name, text in plan_options(placements).items() if text or name not in _NEWER},
        "blocks": {site: _placement_document(p) for site, p in placements.blocks.items()},
    }


# Options that documents have only where plans use them.
_NEWER = ("micro_batches", "stages")


def _placement_document(placement: Placement) -> dict[str, Any]:
    default = Placement(placement.strategy)
    document: dict[str, Any] = {"strategy": str(placement.strategy)}
    for name in _GENES:
        value = getattr(placement, name)
        if value != getattr(default, name):
            document[name] = list(value) if isinstance(value, tuple) else value
    return document


def _is_list_of(kind: type) -> Any:
    return lambda value: isinstance(value, list) and all(type(v) is kind for v in value)


# Per gene: whether a JSON value fits, and what is expected of it.
_GENES: Mapping[str, tuple[Any, str]] = {
    "prefetch": (_is_list_of(int), "a list of integers, one per input"),
    "regather": (_is_list_of(bool), "a list of true and false, one per input"),
    "layouts": (_is_list_of(str), "a list of layouts' texts, one per output"),
    "read_layouts": (_is_list_of(str), "a list of layouts' texts, one per input"),
    "part": (lambda value: type(value) is int, "an integer, the part of the pipeline"),
}


def placements_from_document(document: Any) -> Placements:
    """Read the placements that `placements_to_document` wrote.

    Raises:
        ValueError: the document is something else; all issues are listed with their JSON paths.
    """
    issues: list[Issue] = []
    given = _object(document, "$", ("format", "version", "blocks"), tuple(PLAN_OPTIONS), issues)
    if not issues and (given["format"], given["version"]) != (FORMAT, VERSION):
        came = f"format {given['format']!r} version {given['version']!r}"
        issues.append(Issue("document", "$.format", came, f"this program reads {FORMAT!r} version {VERSION}"))
    placements = Placements()
    for name in PLAN_OPTIONS:
        if name in given:
            before = len(issues)
            _fit(given[name], f"$.{name}", isinstance(given[name], str), "a text", issues)
            if len(issues) == before:
                placements = _with_option(placements, name, given[name], issues)
    blocks: dict[str, Placement] = {}
    found = _mapping(given.get("blocks", {}), "$.blocks", issues)
    for site, entry in found.items():
        placement = _read_placement(entry, key_path("$.blocks", site), issues)
        if placement is not None:
            blocks[site] = placement
    if issues:
        raise ValueError(listing("these are no placements", issues))
    return replace(placements, blocks=blocks)


def _with_option(placements: Placements, name: str, text: str, issues: list[Issue]) -> Placements:
    try:
        return with_plan_option(placements, name, text)
    except ValueError as error:
        issues.append(Issue("document", f"$.{name}", text, str(error)))
        return placements


def _read_placement(entry: Any, path: str, issues: list[Issue]) -> Placement | None:
    before = len(issues)
    given = _object(entry, path, ("strategy",), tuple(_GENES), issues)
    genes: dict[str, Any] = {}
    for name, (fits, expected) in _GENES.items():
        if name in given:
            _fit(given[name], f"{path}.{name}", fits(given[name]), expected, issues)
            genes[name] = tuple(given[name]) if isinstance(given[name], list) else given[name]
    text = given.get("strategy", "()")
    _fit(text, f"{path}.strategy", isinstance(text, str), "a text such as '(gpu.0, -)'", issues)
    if len(issues) > before:
        return None
    try:
        return Placement(parse_strategy(text), **genes)
    except ValueError as error:
        issues.append(Issue("document", f"{path}.strategy", str(error), "write '(gpu.0*gpu.1/2, -)'"))
        return None


def _mapping(value: Any, path: str, issues: list[Issue]) -> Mapping[str, Any]:
    good = isinstance(value, dict) and all(isinstance(k, str) for k in value)
    _fit(value, path, good, "an object", issues)
    return value if good else {}


def _object(
    value: Any, path: str, required: tuple[str, ...], optional: tuple[str, ...], issues: list[Issue]
) -> Mapping[str, Any]:
    found = _mapping(value, path, issues)
    if found or isinstance(value, dict):
        missing = [name for name in required if name not in found]
        unknown = [name for name in found if name not in (*required, *optional)]
        if missing or unknown:
            wrong = [f"lacks {n!r}" for n in missing] + [f"does not know {n!r}" for n in unknown]
            members = ", ".join((*required, *(f"{n} (optional)" for n in optional)))
            message = f"the object {' and '.join(wrong)}"
            issues.append(Issue("document", path, message, f"its members are {members}"))
    return found


def _fit(value: Any, path: str, good: bool, expected: str, issues: list[Issue]) -> None:
    if not good:
        text = repr(value)
        came = text if len(text) <= 60 else text[:57] + "..."
        issues.append(Issue("document", path, came, f"expected {expected}"))
