"""Parsing of XLA's text of shapes and layouts, following HLO's parser, with the position of errors.

Element types are read in any case and printed in lower case; blanks and comments between tokens are skipped. The
fields of a layout are in XLA's order: D T L # * E S SC P M. Source: openxla/xla:xla/hlo/parser/hlo_parser.cc
(ParseShape, ParseLayout, ParseTiles, ParseSplitConfigs, ParseLayoutIntAttribute).
"""

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.fields import LEVELS, LayoutFields, SplitConfig, descending
from tapestry.hardware.layouts.xla.primitives import BY_NAME, PRIMITIVES
from tapestry.hardware.layouts.xla.shape import (
    NO_ARRAYS,
    UNBOUNDED,
    ArrayShape,
    TupleShape,
    XlaShape,
    with_default_layout,
)
from tapestry.hardware.layouts.xla.tile import COMBINE, Tile

T = TypeVar("T")
LONGEST_TEXT = 100_000
DEEPEST = 24
SKIPPED = re.compile(r"(?:\s+|/\*.{0,64}?\*/)*")
NUMBER = re.compile(r"-?[0-9]+")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
START = re.compile(rf"\s*(?:{'|'.join(p.name for p in PRIMITIVES)})\s*\[", re.IGNORECASE)
LEVEL_OF = {letter: level for level, letter in LEVELS.items()}


def recognizes(text: str) -> bool:
    """Return whether a text begins as XLA's shapes of arrays do: an element type and a bracket."""
    return START.match(text[:64]) is not None


def parse_shape(text: str) -> XlaShape:
    """Parse a whole text to a shape; an array without braces has no layout, a scalar the empty one.

    Raises `LayoutError` with the character and what was expected.
    """
    return _whole(text, lambda reader: reader.shape(0))


def parse_layout_fields(text: str) -> LayoutFields:
    """Parse a whole text in braces to a layout; raise `LayoutError` as `parse_shape` does."""
    return _whole(text, lambda reader: reader.layout(0))


def _whole(text: str, read: Callable[["_Reader"], T]) -> T:
    if len(text) > LONGEST_TEXT:
        raise LayoutError(f"a text of {len(text)} characters is too long; expected at most {LONGEST_TEXT}")
    reader = _Reader(text)
    found = read(reader)
    reader.skip()
    if reader.at < len(text):
        reader.refuse("expected the end of the text")
    return found


class _Reader:
    """A position in a text that advances as tokens are read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def refuse(self, expected: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        found = f"found {self.text[place : place + 20]!r}" if place < len(self.text) else "found the end"
        raise LayoutError(f"at character {place}: {expected}, {found}")

    def skip(self) -> None:
        match = SKIPPED.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def eat(self, token: str) -> bool:
        self.skip()
        here = self.text.startswith(token, self.at)
        self.at += len(token) * here
        return here

    def expect(self, token: str, expected: str) -> None:
        if not self.eat(token):
            self.refuse(expected)

    def keyword(self, word: str) -> bool:
        self.skip()
        match = WORD.match(self.text, self.at)
        here = match is not None and match.group() == word
        self.at += len(word) * here
        return here

    def is_number(self) -> bool:
        self.skip()
        return NUMBER.match(self.text, self.at) is not None

    def number(self) -> int:
        self.skip()
        match = NUMBER.match(self.text, self.at)
        if match is None:
            self.refuse("expects integer")
        digits = match.group()
        value = int(digits) if len(digits) <= 20 else 2**64
        if not -(2**63) <= value < 2**63:
            self.refuse("expected an integer of 64 bits")
        self.at = match.end()
        return value

    def listed(self, start: str, end: str, item: Callable[[], T]) -> tuple[T, ...]:
        self.expect(start, f"expects a list starting with '{start}'")
        return self.items(end, item)

    def items(self, end: str, item: Callable[[], T]) -> tuple[T, ...]:
        found = list[T]()
        if not self.eat(end):
            found.append(item())
            while self.eat(","):
                found.append(item())
            self.expect(end, f"expects a list to end with '{end}'")
        return tuple(found)

    def primitive(self) -> str:
        self.skip()
        match = WORD.match(self.text, self.at)
        if match is None or match.group().lower() not in BY_NAME:
            self.refuse("expected primitive type")
        self.at = match.end()
        return match.group().lower()

    def dimension(self) -> tuple[int, bool]:
        if self.eat("?"):
            return UNBOUNDED, True
        dynamic, at = self.eat("<="), self.at
        size = self.number()
        if size < 0:
            self.refuse("expected a dimension size of at least 0", at)
        return size, dynamic

    def shape(self, depth: int) -> XlaShape:
        if depth > DEEPEST:
            self.refuse(f"expected shapes at most {DEEPEST} deep")
        if self.eat("("):
            return TupleShape(self.items(")", lambda: self.shape(depth + 1)))
        for word in NO_ARRAYS:
            if self.keyword(word):
                self.expect("[", "expects a list starting with '['")
                self.expect("]", f"{word} has no dimensions; expects ']'")
                return ArrayShape(word, ())
        dtype = self.primitive()
        sizes = self.listed("[", "]", self.dimension)
        dims = tuple(size for size, _ in sizes)
        dynamic = tuple(flag for _, flag in sizes) if any(flag for _, flag in sizes) else ()
        self.skip()
        start = self.at
        layout = self.layout(depth) if self.text.startswith("{", start) else None
        if layout is None and not dims:
            layout = descending(0)
        if layout is not None:
            _check(layout, len(dims), start)
        return ArrayShape(dtype, dims, layout, dynamic)

    def layout(self, depth: int) -> LayoutFields:
        self.expect("{", "expects layout to start with '{'")
        order = list[int]()
        if self.is_number():
            order.append(self.number())
            while self.eat(","):
                order.append(self.number())
        fields = self.suffix(tuple(order), depth) if self.eat(":") else LayoutFields(tuple(order))
        self.expect(
            "}", "expects layout to end with '}' (after ':' the fields stand as D T L # * E S SC P M)"
        )
        return fields

    def suffix(self, order: tuple[int, ...], depth: int) -> LayoutFields:
        levels = self.listed("(", ")", self.level) if self.keyword("D") else ()
        return LayoutFields(
            order,
            dim_level_types=tuple(name for name, _, _ in levels),
            dim_unique=_unless_all(tuple(unique for _, unique, _ in levels)),
            dim_ordered=_unless_all(tuple(ordered for _, _, ordered in levels)),
            tiles=self.tiles() if self.keyword("T") else (),
            tail_padding_alignment_in_elements=self.value("L", 1),
            index_primitive_type=self.index_type("#"),
            pointer_primitive_type=self.index_type("*"),
            element_size_in_bits=self.value("E", 0),
            memory_space=self.value("S", 0),
            split_configs=self.splits() if self.keyword("SC") else (),
            physical_shape=self.physical(depth) if self.keyword("P") else None,
            dynamic_shape_metadata_prefix_bytes=self.value("M", 0),
        )

    def level(self) -> tuple[str, bool, bool]:
        self.skip()
        at, letter = self.at, self.text[self.at : self.at + 1]
        if letter not in LEVEL_OF:
            self.refuse("expected a DimLevelType abbreviation (D, C, or S)")
        self.at += 1
        unique, ordered = not self.eat("+"), not self.eat("~")
        if letter == "D" and not (unique and ordered):
            self.refuse("invalid DimLevelType/unique/ordered combination in shape", at)
        return LEVEL_OF[letter], unique, ordered

    def tiles(self) -> tuple[Tile, ...]:
        found = [self.listed("(", ")", self.tile_size)]
        while self.eat("("):
            found.append(self.items(")", self.tile_size))
        return tuple(found)

    def tile_size(self) -> int:
        return COMBINE if self.eat("*") else self.number()

    def value(self, letter: str, absent: int) -> int:
        if not self.keyword(letter):
            return absent
        what = VALUES[letter]
        self.expect("(", f"expects {what} to start with '('")
        at = self.at
        found = self.number()
        if found < 0 or (letter == "L" and found == 0):
            self.refuse(f"expected a positive {what}", at)
        self.expect(")", f"expects {what} to end with ')'")
        return found

    def index_type(self, letter: str) -> str | None:
        if not self.eat(letter):
            return None
        self.expect("(", f"expects '{letter}' to be followed by '('")
        at, name = self.at, self.primitive()
        if BY_NAME[name].kind != "u":
            self.refuse("expecting an unsigned integer type", at)
        self.expect(")", "expects primitive type to be followed by ')'")
        return name

    def splits(self) -> tuple[SplitConfig, ...]:
        found = list[SplitConfig]()
        self.expect("(", "expects split configs to start with '('")
        more = True
        while more:
            dimension = self.number()
            found.append(SplitConfig(dimension, self.listed(":", ")", self.number)))
            more = self.eat("(")
        return tuple(found)

    def physical(self, depth: int) -> XlaShape:
        self.expect("(", "expects physical shape to start with '('")
        found = with_default_layout(self.shape(depth + 1))
        self.expect(")", "expects physical shape to end with ')'")
        return found


VALUES = {
    "L": "multiple padded to in elements",
    "E": "element size in bits",
    "S": "memory space",
    "M": "dynamic shape metadata prefix bytes",
}


def _unless_all(flags: tuple[bool, ...]) -> tuple[bool, ...]:
    return () if all(flags) else flags


def _check(layout: LayoutFields, rank: int, at: int) -> None:
    """Raise the errors of HLO's parser about a layout that follows dimensions, in its words."""
    levels, order = len(layout.dim_level_types), len(layout.minor_to_major)
    if levels not in (0, rank):
        message = f"Dimensions size is {rank}, but dim level types size is {levels}."
    elif order != rank:
        message = f"Dimensions size is {rank}, but minor to major size is {order}."
    elif layout.is_sparse and layout.tiles:
        message = f"Layout has tiles, but is for a sparse array: {layout}"
    elif not layout.is_sparse and layout.physical_shape is not None:
        message = f"Layout has physical shape, but is not for a sparse array: {layout}"
    else:
        return
    raise LayoutError(f"at character {at}: {message[:1000]}")
