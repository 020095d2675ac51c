"""Parsing of the fields `logical_shape = ..., dim_alignments = ..., collapsed_intervals = dense<...>` and of words."""

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap, read_affine_map
from tapestry.hardware.layouts.tt_metal.aligned import MEMORY_LAYOUTS, AlignedAttribute, verify_aligned
from tapestry.hardware.layouts.tt_metal.attribute import MEMORY_SPACES, OOB_VALUES, CoreRanges
from tapestry.hardware.layouts.tt_metal.scanner import Scanner

HIGHEST_ARRAY_RANK = 8
MOST_SPLAT = 256
"""Values that one written value may stand for."""


def read_aligned(scanner: Scanner, dialect: str) -> AlignedAttribute:
    """Parse the fields of the newer attribute and its closing `>`."""
    shape = _extents(scanner, "logical_shape")
    alignments = _extents(scanner, "dim_alignments")
    keyword = "collapse_dims" if scanner.peek_word() == "collapse_dims" else "collapsed_intervals"
    _keyword(scanner, keyword)
    place = scanner.at
    array_shape, values = read_dense(scanner)
    try:
        verify_aligned(shape, alignments, array_shape, values)
    except LayoutError as refusal:
        raise LayoutError(f"at character {place}: {refusal}") from None
    words: dict[str, str] = {}
    index_map = None
    while scanner.accept(","):
        if scanner.peek_word() == "index_map":
            _keyword(scanner, "index_map")
            index_map = read_view(scanner)
            break
        word = choice(scanner, "a field", (*OOB_VALUES, *MEMORY_SPACES, *MEMORY_LAYOUTS))
        kind = "oob" if word in OOB_VALUES else "space" if word in MEMORY_SPACES else "layout"
        if kind in words:
            raise scanner.error(f"no second value like {words[kind]!r}")
        words[kind] = word
    scanner.expect(">")
    intervals = tuple(zip(values[::2], values[1::2], strict=True))
    space, layout = words.get("space", "system"), words.get("layout")
    return AlignedAttribute(shape, alignments, intervals, space, layout, words.get("oob"), index_map, dialect)


def read_dense(scanner: Scanner) -> tuple[tuple[int, ...], list[int]]:
    """Parse `dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>` into extents and values; one value may stand for all."""
    scanner.expect("dense")
    scanner.expect("<")
    values: list[int] = []
    shape: tuple[int, ...] | None = None
    if scanner.peek("["):
        shape = _nested(scanner, values, 0)
    elif not scanner.peek(">"):
        values.append(scanner.integer())
    scanner.expect(">")
    scanner.expect(":")
    scanner.expect("tensor")
    scanner.expect("<")
    declared: tuple[int, ...] = ()
    if scanner.peek_digit():
        declared = scanner.dimensions("an extent")
        scanner.expect("x")
    scanner.expect("i64")
    scanner.expect(">")
    if shape is None:
        count = 1
        for extent in declared:
            count *= extent
        if count > MOST_SPLAT or (not values and count):
            raise scanner.error(f"the {count} values that the array's type declares")
        return declared, values * count
    if shape != declared:
        raise scanner.error(
            f"an array type of extents {list(shape)} as its values have, not {list(declared)}"
        )
    return shape, values


def read_view(scanner: Scanner) -> AffineMap:
    """Parse `map(4)`, the identity of four dimensions, or an affine map."""
    if not scanner.accept_keyword("map"):
        return read_affine_map(scanner)
    scanner.expect("(")
    rank = scanner.natural("a number of dimensions")
    if rank > 64:
        raise scanner.error("a map of at most 64 dimensions")
    scanner.expect(")")
    return AffineMap.identity(rank)


def read_core_ranges(scanner: Scanner) -> CoreRanges:
    """Parse `= <[#ttnn.core_range<(0, 0), (7, 3)>, ...]>` into the first and last core of each rectangle."""
    scanner.expect("=")
    scanner.accept("#ttnn.core_range_set")
    scanner.expect("<")
    scanner.expect("[")
    found = [_core_range(scanner)]
    while scanner.accept(","):
        found.append(_core_range(scanner))
    scanner.expect("]")
    scanner.expect(">")
    return tuple(found)


def choice(scanner: Scanner, what: str, choices: tuple[str, ...]) -> str:
    """Parse the next word, which has to be one of the choices."""
    word = scanner.peek_word()
    if word not in choices:
        raise scanner.error(f"{what} of {', '.join(choices)}")
    return scanner.word(what)


def _keyword(scanner: Scanner, word: str) -> None:
    if not scanner.accept_keyword(word):
        raise scanner.error(f"'{word}'")
    scanner.expect("=")


def _core_range(scanner: Scanner) -> tuple[tuple[int, int], tuple[int, int]]:
    scanner.accept("#ttnn.core_range")
    scanner.expect("<")
    first = _core(scanner)
    scanner.expect(",")
    last = _core(scanner)
    scanner.expect(">")
    return first, last


def _core(scanner: Scanner) -> tuple[int, int]:
    scanner.expect("(")
    x = scanner.natural("a core's coordinate")
    scanner.expect(",")
    y = scanner.natural("a core's coordinate")
    scanner.expect(")")
    return x, y


def _extents(scanner: Scanner, word: str) -> tuple[int, ...]:
    _keyword(scanner, word)
    found = scanner.dimensions("an extent") if scanner.peek_digit() else ()
    scanner.expect(",")
    return found


def _nested(scanner: Scanner, values: list[int], depth: int) -> tuple[int, ...]:
    if depth >= HIGHEST_ARRAY_RANK:
        raise scanner.error(f"an array of at most {HIGHEST_ARRAY_RANK} dimensions")
    scanner.expect("[")
    inner: set[tuple[int, ...]] = set()
    count = 0
    while not scanner.peek("]"):
        if count:
            scanner.expect(",")
        count += 1
        if scanner.peek("["):
            inner.add(_nested(scanner, values, depth + 1))
        else:
            values.append(scanner.integer())
            inner.add(())
        if len(inner) > 1:
            raise scanner.error("rows of one length")
    scanner.expect("]")
    return (count, *(inner.pop() if inner else ()))
