"""Element types of a memref: scalars like `f32`, or tiles like `!tt.tile<32x32, bfp_bf8>`.

Tile sizes are `TileType::getSizeBytes` of tt-mlir's lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp: a block float tile of
32 x 32 has one exponent byte for every 16 elements on top of its mantissas (1024 + 64 for eight bits; the compiler
before 2025-08 left the exponents out).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.scanner import Scanner

SCALAR_BITS = {
    "f64": 64, "f32": 32, "tf32": 32, "f16": 16, "bf16": 16,
    "i64": 64, "i32": 32, "i16": 16, "i8": 8, "i1": 1,
    "si64": 64, "si32": 32, "si16": 16, "si8": 8,
    "ui64": 64, "ui32": 32, "ui16": 16, "ui8": 8, "index": 64,
    "f8E4M3FN": 8, "f8E5M2": 8, "f8E4M3FNUZ": 8, "f8E5M2FNUZ": 8, "f8E8M0FNU": 8,
}  # fmt: skip
"""Bits of MLIR's scalar types; `i1` takes a byte in storage, see `MetalElement.bits`."""

TILE_BITS = {
    "f32": 32, "f16": 16, "bf16": 16, "u32": 32, "u16": 16, "u8": 8, "si32": 32,
    "bfp_f8": 8, "bfp_bf8": 8, "bfp_f4": 4, "bfp_bf4": 4, "bfp_f2": 2, "bfp_bf2": 2,
}  # fmt: skip
"""Mantissa or scalar bits of tt-mlir's DataType, by the text that it is written with."""

TILE_OF_SCALAR = {
    "f64": "f32", "i64": "si32", "i32": "si32", "si64": "si32", "ui64": "u32", "ui32": "u32", "index": "u32",
    "i16": "u16", "si16": "u16", "ui16": "u16", "i8": "u8", "si8": "u8", "ui8": "u8", "i1": "bf16",
}  # fmt: skip
"""The tile data type that holds a scalar type: 64 bits become 32, booleans bf16 (tt-mlir's TTCoreOpsTypes.h)."""

ALIASES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint64": "ui64", "uint32": "ui32", "uint16": "ui16", "uint8": "ui8", "bool": "i1",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e8m0fnu": "f8E8M0FNU",
    "bfp8": "bfp_f8", "bfp8_b": "bfp_bf8", "bfp4": "bfp_f4", "bfp4_b": "bfp_bf4", "bfp2_b": "bfp_bf2",
}  # fmt: skip
"""Names that other parts of the product and ttnn use."""

ELEMENTS_PER_EXPONENT = 16
BLOCK_TILE = (32, 32)


@dataclass(frozen=True)
class MetalElement:
    """A scalar, or a tile of scalars if `tile` (rows, columns) is given."""

    dtype: str
    tile: tuple[int, int] | None = None

    @property
    def is_block_float(self) -> bool:
        """True if elements share exponents."""
        return self.dtype.startswith("bfp_")

    @property
    def bits(self) -> int:
        """The number of bits of one scalar, without the exponent that a block shares."""
        return TILE_BITS[self.dtype] if self.tile else max(SCALAR_BITS[self.dtype], 8)

    @property
    def scalars(self) -> int:
        """The number of scalars in one element."""
        return self.tile[0] * self.tile[1] if self.tile else 1

    @cached_property
    def size_bytes(self) -> int:
        """The size of one element in bytes, shared exponents included."""
        exponents = self.scalars // ELEMENTS_PER_EXPONENT if self.is_block_float else 0
        return -(-self.scalars * self.bits // 8) + exponents

    def text(self, dialect: str) -> str:
        """Format the element as MLIR text: `f32` or `!tt.tile<32x32, f32>`."""
        if self.tile is None:
            return self.dtype
        return f"!{dialect}.tile<{self.tile[0]}x{self.tile[1]}, {self.dtype}>"


def scalar(dtype: str) -> MetalElement:
    """Return the scalar element that a name stands for."""
    name = ALIASES.get(dtype, dtype)
    if name not in SCALAR_BITS:
        raise LayoutError(f"expected an element type of {', '.join(SCALAR_BITS)}, not {dtype!r}")
    return MetalElement(name)


def tile(dtype: str, shape: tuple[int, ...] = BLOCK_TILE) -> MetalElement:
    """Build the tile element of a data type.

    Raises `LayoutError` for a shape that is not of two positive extents, unknown data types, and block floats in
    other tiles than 32 x 32 (their size is defined for those only).
    """
    name = ALIASES.get(dtype, dtype)
    name = TILE_OF_SCALAR.get(name, name)
    if name not in TILE_BITS:
        raise LayoutError(f"expected a tile data type of {', '.join(TILE_BITS)}, not {dtype!r}")
    if len(shape) != 2:
        raise LayoutError(f"expected 2D shape of a tile, not {list(shape)}")
    rows, columns = (int(n) for n in shape)
    if rows < 1 or columns < 1:
        raise LayoutError(f"expected positive extents of a tile, not {rows}x{columns}")
    found = MetalElement(name, (rows, columns))
    if found.is_block_float and found.tile != BLOCK_TILE:
        raise LayoutError(f"a tile of {name} is 32x32, not {rows}x{columns}: blocks of 16 share an exponent")
    return found


def element(dtype: str, tile_shape: Sequence[int] | None) -> MetalElement:
    """Return the scalar element of `dtype`, or a tile of it if `tile_shape` is given."""
    return _element(dtype, None if tile_shape is None else tuple(tile_shape))


@lru_cache(maxsize=1024)
def _element(dtype: str, tile_shape: tuple[int, ...] | None) -> MetalElement:
    return scalar(dtype) if tile_shape is None else tile(dtype, tile_shape)


def read_element(scanner: Scanner) -> MetalElement:
    """Parse the next element type, in either dialect's spelling."""
    if not scanner.peek("!"):
        return _checked(scanner.at, scanner.word("an element type"), None)
    place = scanner.at
    if scanner.name("an element type") not in ("!tt.tile", "!ttcore.tile"):
        scanner.at = place
        raise scanner.error("'!tt.tile' or '!ttcore.tile'")
    scanner.expect("<")
    shape = scanner.dimensions("the extents of a tile")
    scanner.expect(",")
    found = _checked(scanner.at, scanner.word("the data type of a tile"), shape)
    scanner.expect(">")
    return found


def read_shaped(scanner: Scanner) -> tuple[tuple[int, ...], MetalElement]:
    """Parse extents and an element like `2x3xf32`; no extents for a scalar tensor `f32`."""
    shape: tuple[int, ...] = ()
    if scanner.peek_digit():
        shape = scanner.dimensions("an extent")
        scanner.expect("x")
    return shape, read_element(scanner)


def _checked(place: int, name: str, shape: tuple[int, ...] | None) -> MetalElement:
    try:
        return element(name, shape)
    except LayoutError as refusal:
        raise LayoutError(f"at character {place}: {refusal}") from None
