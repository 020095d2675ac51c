"""Parsing of `tensor<2x3xf32, #tt.metal_layout<...>>`, in the older and the newer form, and of the attributes alone.

As in MLIR's files, definitions like `#l1 = #tt.memory_space<l1>` and `#layout = #tt.metal_layout<...>` may come first
and be named afterwards.
"""

from collections.abc import Mapping

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap, read_affine_map
from tapestry.hardware.layouts.tt_metal.aligned import AlignedAttribute
from tapestry.hardware.layouts.tt_metal.aligned_layout import AlignedMetalLayout
from tapestry.hardware.layouts.tt_metal.attribute import MEMORY_SPACES, OOB_VALUES, CoreRanges, MetalAttribute
from tapestry.hardware.layouts.tt_metal.element import read_shaped
from tapestry.hardware.layouts.tt_metal.fields import choice, read_aligned, read_core_ranges
from tapestry.hardware.layouts.tt_metal.layout import MetalLayout
from tapestry.hardware.layouts.tt_metal.scanner import Scanner

Attribute = MetalAttribute | AlignedAttribute
Definitions = Mapping[str, Attribute | str]
"""Attributes and memory spaces by the name that a text gives them."""

LAYOUT_NAMES = {
    "#tt.metal_layout": "tt",
    "#ttcore.metal_layout": "ttcore",
    "#tt.layout": "tt",
    "#ttnn.ttnn_layout": "ttnn",
}
"""Spellings of the attribute and the dialect that each belongs to; `#tt.layout` is the one before `metal_layout`."""

MEMORY_LAYOUTS = (
    "interleaved", "single_bank", "height_sharded", "width_sharded", "block_sharded", "none_layout", "none",
)  # fmt: skip
"""Values of the fifth field."""

SPACE_NAMES = ("#tt.memory_space", "#ttcore.memory_space", "#ttnn.buffer_type")

BUFFER_TYPES = ("dram", "l1", "system_memory", "l1_small", "trace")
"""Memories of the `ttnn` spelling (tt-mlir's BufferType)."""


def parse_metal_layout(text: str) -> MetalLayout | AlignedMetalLayout:
    """Parse a tensor type's text into the layout that it describes.

    Raises `LayoutError` with the character and what was expected, or with the rule that the values break.
    """
    scanner = Scanner(text)
    layout = read_tensor(scanner, read_definitions(scanner))
    scanner.finish()
    return layout


def parse_metal_attribute(text: str) -> Attribute:
    """Parse the text of an attribute, without a tensor."""
    scanner = Scanner(text)
    attribute = read_attribute(scanner, read_definitions(scanner))
    scanner.finish()
    return attribute


def read_definitions(scanner: Scanner) -> Definitions:
    """Parse the definitions `#name = ...` that come next."""
    found: dict[str, Attribute | str] = {}
    while scanner.peek("#"):
        start = scanner.at
        name = scanner.name("a name")
        if not scanner.accept("="):
            scanner.at = start
            break
        scanner.peek("#")
        start = scanner.at
        kind = scanner.name("an attribute")
        scanner.at = start
        found[name] = (
            read_memory_space(scanner, kind.split(".")[0][1:], found)
            if kind in SPACE_NAMES
            else read_attribute(scanner, found)
        )
    return found


def read_tensor(scanner: Scanner, definitions: Definitions) -> MetalLayout | AlignedMetalLayout:
    """Parse the tensor type that comes next."""
    if scanner.peek("#"):
        raise scanner.error(
            "'tensor<SHAPExTYPE, ...>' around the attribute, which does not name the tensor's shape"
        )
    scanner.expect("tensor")
    scanner.expect("<")
    shape, element = read_shaped(scanner)
    scanner.expect(",")
    place = scanner.at
    attribute = read_attribute(scanner, definitions)
    scanner.expect(">")
    if isinstance(attribute, AlignedAttribute):
        return AlignedMetalLayout(attribute.logical_shape, shape, element, attribute)
    if element.tile is not None:
        raise LayoutError(
            f"at character {place}: expected an attribute with logical_shape for a tensor of tiles"
        )
    return MetalLayout(shape, element.dtype, attribute)


def read_attribute(scanner: Scanner, definitions: Definitions) -> Attribute:
    """Parse the attribute that comes next."""
    scanner.peek("#")
    place = scanner.at
    name = scanner.name("'#tt.metal_layout' or '#ttcore.metal_layout'")
    known = definitions.get(name)
    if known is not None and not isinstance(known, str):
        return known
    if name not in LAYOUT_NAMES:
        scanner.at = place
        raise scanner.error(f"one of {', '.join((*LAYOUT_NAMES, *definitions))}")
    dialect = LAYOUT_NAMES[name]
    scanner.expect("<")
    if scanner.peek_word() == "logical_shape":
        return read_aligned(scanner, dialect)
    return _read_fields(scanner, dialect, definitions)


def _read_fields(scanner: Scanner, dialect: str, definitions: Definitions) -> MetalAttribute:
    linear = read_affine_map(scanner)
    scanner.expect(",")
    oob = "undef"
    if dialect != "ttnn":
        oob = choice(scanner, "an out-of-bounds value", OOB_VALUES)
        scanner.expect(",")
    grid, grid_map = read_grid(scanner)
    scanner.expect(",")
    scanner.expect("memref")
    scanner.expect("<")
    memref_shape, element = read_shaped(scanner)
    scanner.expect(",")
    space = read_memory_space(scanner, dialect, definitions)
    scanner.expect(">")
    memory_layout = None
    core_ranges: CoreRanges = ()
    while scanner.accept(","):
        if dialect == "ttnn" and scanner.accept_keyword("core_ranges"):
            core_ranges = read_core_ranges(scanner)
            break
        wrapped = scanner.accept("<")
        memory_layout = choice(scanner, "a memory layout", MEMORY_LAYOUTS)
        if wrapped:
            scanner.expect(">")
        if dialect != "ttnn":
            break
    scanner.expect(">")
    return MetalAttribute(
        linear, oob, grid, memref_shape, element, space, memory_layout, grid_map, core_ranges, dialect
    )


def read_grid(scanner: Scanner) -> tuple[tuple[int, ...], AffineMap | None]:
    """Parse `<2x4>`, `#tt.grid<2x4>` or `<8x8, (d0, d1) -> (0, d0, d1)>`: extents, and the grid's own map if any."""
    if scanner.peek("#"):
        place = scanner.at
        if scanner.name("a grid") not in ("#tt.grid", "#ttcore.grid"):
            scanner.at = place
            raise scanner.error("'#tt.grid' or '#ttcore.grid'")
    scanner.expect("<")
    grid = scanner.dimensions("the extents of a grid")
    grid_map = read_affine_map(scanner) if scanner.accept(",") else None
    scanner.expect(">")
    return grid, grid_map


def read_memory_space(scanner: Scanner, dialect: str, definitions: Definitions) -> str:
    """Parse `#tt.memory_space<l1>`, or an alias like `#l1_` that texts define for it."""
    choices = BUFFER_TYPES if dialect == "ttnn" else MEMORY_SPACES
    scanner.peek("#")
    place = scanner.at
    name = scanner.name("a memory space like '#tt.memory_space<l1>'")
    known = definitions.get(name)
    if isinstance(known, str) and known in choices:
        return known
    if name in SPACE_NAMES:
        scanner.expect("<")
        space = choice(scanner, "a memory space", choices)
        scanner.expect(">")
        return space
    alias = name[1:].rstrip("_")
    if alias not in choices:
        scanner.at = place
        raise scanner.error(f"'#tt.memory_space<...>' or an alias of {', '.join(choices)}")
    return alias
