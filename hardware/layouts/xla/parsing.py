"""Reading XLA's texts: `f32[3,5]{1,0:T(2,2)}`, the layout alone in braces, or a tile alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from hardware.layouts.layout import LayoutError
from hardware.layouts.xla.fields import LEVELS, DimLevel, SplitConfig, XlaFields, descending
from hardware.layouts.xla.tiling import COMBINE, Tile
from hardware.layouts.xla.types import type_bits

LARGEST_TEXT = 10_000
LARGEST_NUMBER = 2**63 - 1


@dataclass
class _Scanner:
    text: str
    at: int = 0

    def fail(self, expected: str) -> LayoutError:
        found = self.text[self.at : self.at + 12]
        came = f"got {found!r}" if found else "the text ends"
        return LayoutError(f"at character {self.at} of {self.text[:120]!r}: expected {expected}, {came}")

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.fail(repr(token))

    def match(self, pattern: str, expected: str) -> str:
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise self.fail(expected)
        self.at = found.end()
        return found[0]

    def number(self, expected: str = "a number") -> int:
        text = self.match(r"\d{1,19}", expected)
        if int(text) > LARGEST_NUMBER or self.text[self.at : self.at + 1].isdecimal():
            self.at -= len(text)
            raise self.fail(f"{expected} below 2^63")
        return int(text)

    def numbers(self, closing: str) -> tuple[int, ...]:
        """Numbers between commas up to a closing bracket."""
        found: list[int] = []
        while not self.take(closing):
            if found:
                self.need(",")
            found.append(self.number())
        return tuple(found)

    def end(self) -> None:
        if self.at != len(self.text):
            raise self.fail("the end")


def parse_fields(text: str) -> XlaFields:
    """A layout in braces, such as `{1,0:T(8,128)(2,1)S(1)}`.

    Raises:
        LayoutError: with the position and what was expected.
    """
    scanner = _scanner(text)
    fields = _fields(scanner)
    scanner.end()
    return fields


def parse_shape(text: str) -> tuple[str, tuple[int, ...], XlaFields]:
    """Type (lower case), dimensions and layout of an array shape; without a layout the default one.

    Raises:
        LayoutError: with the position and what was expected; tuples, tokens and dynamic dimensions are refused.
    """
    scanner = _scanner(text)
    if scanner.text.startswith("("):
        raise scanner.fail("the shape of one array (a tuple has no layout of its own)")
    dtype = scanner.match(r"[A-Za-z][A-Za-z0-9]*", "an element type such as f32").lower()
    try:
        type_bits(dtype)
    except LayoutError as error:
        scanner.at = 0
        raise scanner.fail(f"an element type ({error})") from error
    scanner.need("[")
    if re.compile(r"[^\]]*[<?]").match(scanner.text, scanner.at):
        raise scanner.fail("sizes: a dynamic dimension (<= or ?) has no layout in bytes")
    shape = scanner.numbers("]")
    if prod(shape) > LARGEST_NUMBER:
        raise LayoutError(f"the shape {list(shape)} has more than 2^63 - 1 elements")
    fields = _fields(scanner) if scanner.at < len(scanner.text) else descending(len(shape))
    scanner.end()
    return dtype, shape, fields


def parse_tile(text: str) -> Tile:
    """A tile such as `(8,*,128)`."""
    scanner = _scanner(text)
    tile = _tile(scanner)
    scanner.end()
    return tile


def _scanner(text: str) -> _Scanner:
    if len(text) > LARGEST_TEXT:
        raise LayoutError(f"a layout's text has at most {LARGEST_TEXT} characters, not {len(text)}")
    return _Scanner(re.sub(r"\s+", "", text))


def _fields(scanner: _Scanner) -> XlaFields:
    scanner.need("{")
    order: list[int] = []
    while not scanner.text.startswith((":", "}"), scanner.at):
        if order:
            scanner.need(",")
        order.append(scanner.number("a dimension's number"))
    fields = XlaFields(tuple(order))
    if scanner.take(":"):
        while not scanner.take("}"):
            fields = _suffix(scanner, fields)
        return fields
    scanner.need("}")
    return fields


_NUMBERS = {
    "L": "tail_padding_alignment_in_elements",
    "E": "element_size_in_bits",
    "S": "memory_space",
    "M": "dynamic_shape_metadata_prefix_bytes",
}
_TYPES = {"#": "index_primitive_type", "*": "pointer_primitive_type"}


def _suffix(scanner: _Scanner, fields: XlaFields) -> XlaFields:
    """One field after the colon."""
    start = scanner.at
    if scanner.take("SC"):
        return replace(fields, split_configs=_splits(scanner))
    for letter, name in _NUMBERS.items():
        if scanner.take(letter + "("):
            number = scanner.number()
            scanner.need(")")
            return _checked(scanner, start, fields, name, number)
    for letter, name in _TYPES.items():
        if scanner.take(letter + "("):
            kind = scanner.match(r"[A-Za-z0-9]+", "an element type").lower()
            type_bits(kind)
            scanner.need(")")
            return _checked(scanner, start, fields, name, kind)
    if scanner.take("D("):
        return replace(fields, dim_levels=_levels(scanner))
    if scanner.take("T"):
        tiles = [_tile(scanner)]
        while scanner.text.startswith("(", scanner.at):
            tiles.append(_tile(scanner))
        return _checked(scanner, start, fields, "tiles", tuple(tiles))
    if scanner.take("P("):
        depth, begin = 1, scanner.at
        while depth:
            depth += {"(": 1, ")": -1}.get(scanner.match(r"(?s).", "')'"), 0)
        inner = scanner.text[begin : scanner.at - 1]
        parse_shape(inner)
        return replace(fields, physical_shape=inner)
    raise scanner.fail("one of D T L # * E S SC P M, or '}'")


def _checked(scanner: _Scanner, start: int, fields: XlaFields, name: str, value: object) -> XlaFields:
    """The fields with one set; what they refuse is reported where it stands."""
    try:
        changed: dict[str, object] = {name: value}
        return replace(fields, **changed)  # type: ignore[arg-type]  # values fit their fields by construction
    except LayoutError as error:
        scanner.at = start
        raise scanner.fail(str(error)) from error


def _tile(scanner: _Scanner) -> Tile:
    scanner.need("(")
    sizes: list[int] = []
    while not scanner.take(")"):
        if sizes:
            scanner.need(",")
        sizes.append(COMBINE if scanner.take("*") else scanner.number("a tile's size or *"))
    return tuple(sizes)


def _levels(scanner: _Scanner) -> tuple[DimLevel, ...]:
    names = {letter: name for name, letter in LEVELS.items()}
    levels: list[DimLevel] = []
    while not scanner.take(")"):
        if levels:
            scanner.need(",")
        letter = scanner.match("[DCSH]", "a level D, C, S or H")
        levels.append(DimLevel(names[letter], not scanner.take("+"), not scanner.take("~")))
    return tuple(levels)


def _splits(scanner: _Scanner) -> tuple[SplitConfig, ...]:
    splits = []
    while scanner.take("("):
        dimension = scanner.number("a dimension's number")
        scanner.need(":")
        splits.append(SplitConfig(dimension, scanner.numbers(")")))
    if not splits:
        raise scanner.fail("'(dimension:index,...)'")
    return tuple(splits)
