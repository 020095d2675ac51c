"""Parsing of a shard alone: `memref<2x2x!tt.tile<32x32, bfp_bf8>, #tt.memory_space<l1>>`, or one tile or several.

Such a text names no tensor and no grid; it is read as the tensor that just fills it, on one core.
"""

import re
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.attribute import MetalAttribute
from tapestry.hardware.layouts.tt_metal.element import MetalElement, read_shaped
from tapestry.hardware.layouts.tt_metal.layout import MetalLayout, scalar_name
from tapestry.hardware.layouts.tt_metal.parsing import read_definitions, read_memory_space
from tapestry.hardware.layouts.tt_metal.scanner import INT64_MAX, Scanner

_TILES = re.compile(r"\s*(?:\d+\s*x\s*)*!tt(core)?\.tile\s*<", re.ASCII)
_MEMREF = re.compile(r"\s*memref\s*<", re.ASCII)


def is_shard(text: str) -> bool:
    """Return whether a text begins as a memref or as tiles do."""
    return _MEMREF.match(text) is not None or _TILES.match(text[:256]) is not None


def parse_shard(text: str) -> MetalLayout:
    """Parse a memref, or tiles with their number in front, in the memory `l1` unless the text names another.

    Raises `LayoutError` with the character and what was expected.
    """
    scanner = Scanner(text)
    dialect = "ttcore" if "ttcore." in text else "tt"
    definitions = read_definitions(scanner)
    space = "l1"
    if scanner.accept("memref"):
        scanner.expect("<")
        shape, element = read_shaped(scanner)
        if scanner.accept(","):
            space = read_memory_space(scanner, dialect, definitions)
        scanner.expect(">")
    else:
        shape, element = read_shaped(scanner)
    scanner.finish()
    return _filling(shape or ((1, 1) if element.tile else ()), element, space, dialect)


def _filling(shards: tuple[int, ...], element: MetalElement, space: str, dialect: str) -> MetalLayout:
    """Build the layout of the tensor that fills `shards` elements (scalars or tiles) on one core."""
    edges = (1,) * (len(shards) - 2) + (element.tile or (1,) * min(len(shards), 2))
    if len(shards) < len(edges):
        raise LayoutError(f"expected at least 2 extents before a tile of 2 dimensions, not {list(shards)}")
    shape = tuple(count * edge for count, edge in zip(shards, edges, strict=True))
    if prod(shape) > INT64_MAX:
        raise LayoutError(f"expected at most 2^63 - 1 elements, not {list(shape)}")
    linear, grid = AffineMap.identity(len(shape)), (1,) * len(shape)
    attribute = MetalAttribute.derive(shape, linear, grid, element, space, dialect=dialect)
    return MetalLayout(shape, scalar_name(element.dtype), attribute)
