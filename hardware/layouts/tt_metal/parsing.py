"""Reading `tensor<2x3xf32, #tt.metal_layout<...>>` and the attribute alone."""

from hardware.layouts.tt_metal.affine import AffineMap, read_affine_map
from hardware.layouts.tt_metal.attribute import MEMORY_SPACES, OOB_VALUES, MetalAttribute
from hardware.layouts.tt_metal.element import read_shaped
from hardware.layouts.tt_metal.layout import MetalLayout
from hardware.layouts.tt_metal.scanner import Scanner

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

BUFFER_TYPES = ("dram", "l1", "system_memory", "l1_small", "trace")
"""Memories of the `ttnn` spelling (tt-mlir's BufferType)."""


def parse_metal_layout(text: str) -> MetalLayout:
    """The layout that a tensor type's text describes.

    Raises `LayoutError` with the character and what was expected, or with the rule that the values break.
    """
    scanner = Scanner(text)
    layout = read_tensor(scanner)
    scanner.finish()
    return layout


def parse_metal_attribute(text: str) -> MetalAttribute:
    """The attribute that a text holds, without a tensor."""
    scanner = Scanner(text)
    attribute = read_attribute(scanner)
    scanner.finish()
    return attribute


def read_tensor(scanner: Scanner) -> MetalLayout:
    """The tensor type that comes next."""
    if scanner.peek("#"):
        raise scanner.error(
            "'tensor<SHAPExTYPE, ...>' around the attribute, which does not name the tensor's shape"
        )
    scanner.expect("tensor")
    scanner.expect("<")
    shape, element = read_shaped(scanner)
    if element.tile is not None:
        raise scanner.error("a tensor of scalars, not tiles, for an attribute with a memref")
    scanner.expect(",")
    attribute = read_attribute(scanner)
    scanner.expect(">")
    return MetalLayout(shape, element.dtype, attribute)


def read_attribute(scanner: Scanner) -> MetalAttribute:
    """The attribute that comes next."""
    scanner.peek("#")
    place = scanner.at
    name = scanner.name("'#tt.metal_layout' or '#ttcore.metal_layout'")
    if name not in LAYOUT_NAMES:
        scanner.at = place
        raise scanner.error(f"one of {', '.join(LAYOUT_NAMES)}")
    dialect = LAYOUT_NAMES[name]
    scanner.expect("<")
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
    space = read_memory_space(scanner, dialect)
    scanner.expect(">")
    memory_layout = None
    if scanner.accept(","):
        wrapped = scanner.accept("<")
        memory_layout = choice(scanner, "a memory layout", MEMORY_LAYOUTS)
        if wrapped:
            scanner.expect(">")
    scanner.expect(">")
    return MetalAttribute(linear, oob, grid, memref_shape, element, space, memory_layout, grid_map, dialect)


def read_grid(scanner: Scanner) -> tuple[tuple[int, ...], AffineMap | None]:
    """`<2x4>`, `#tt.grid<2x4>` or `<8x8, (d0, d1) -> (0, d0, d1)>`: extents, and the grid's own map if it has one."""
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


def read_memory_space(scanner: Scanner, dialect: str) -> str:
    """`#tt.memory_space<l1>`, or an alias like `#l1_` that texts define for it."""
    choices = BUFFER_TYPES if dialect == "ttnn" else MEMORY_SPACES
    scanner.peek("#")
    place = scanner.at
    name = scanner.name("a memory space like '#tt.memory_space<l1>'")
    if name in ("#tt.memory_space", "#ttcore.memory_space", "#ttnn.buffer_type"):
        scanner.expect("<")
        space = choice(scanner, "a memory space", choices)
        scanner.expect(">")
        return space
    alias = name[1:].rstrip("_")
    if alias not in choices:
        scanner.at = place
        raise scanner.error(f"'#tt.memory_space<...>' or an alias of {', '.join(choices)}")
    return alias


def choice(scanner: Scanner, what: str, choices: tuple[str, ...]) -> str:
    """The word that comes next, one of the choices."""
    word = scanner.peek_word()
    if word not in choices:
        raise scanner.error(f"{what} of {', '.join(choices)}")
    return scanner.word(what)
