"""Tiles: the small matrices that TILE layout stores whole, each made of faces.

The hardware stores a 32 x 32 tile as four 16 x 16 faces, each row-major. The document's picture has no faces:
`TtnnTile.without_faces` gives that order, of any size.
"""

from dataclasses import dataclass
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.dtypes import DataType

Pair = tuple[int, int]

FACE_WIDTH = 16
EXPONENT_ALIGNMENT_BYTES = 16
"""L1's alignment, to which the exponents of a tile are padded."""

TILE_SHAPES: tuple[Pair, ...] = tuple((h, w) for w in (32, 16) for h in (32, 16, 8, 4, 2, 1))
"""The tiles the hardware knows (tt-metal: `TILE_FACE_HW_CHOICES`)."""


def round_up(value: int, multiple: int) -> int:
    """Round a value up to a multiple; a multiple of 0 leaves it unchanged."""
    return value if multiple == 0 else -(-value // multiple) * multiple


@dataclass(frozen=True)
class TtnnTile:
    """A tile (height, width) and the faces (height, width) it consists of, both ordered row-major."""

    shape: Pair = (32, 32)
    face: Pair = (16, 16)

    def __post_init__(self) -> None:
        whole = min(*self.shape, *self.face) > 0 and not any(
            t % f for t, f in zip(self.shape, self.face, strict=True)
        )
        if not whole:
            raise LayoutError(
                f"tile shape ({self.shape[0]}x{self.shape[1]}) must tile evenly into "
                f"face shape ({self.face[0]}x{self.face[1]})"
            )

    @classmethod
    def of(cls, shape: Pair) -> "TtnnTile":
        """Return the hardware's tile of a shape; `LayoutError` if it has none."""
        if shape not in TILE_SHAPES:
            known = ", ".join(f"{h}x{w}" for h, w in TILE_SHAPES)
            raise LayoutError(f"Tile size is not valid for our hardware: {list(shape)}; expected {known}")
        return cls(shape, (min(shape[0], FACE_WIDTH), FACE_WIDTH))

    @classmethod
    def without_faces(cls, shape: Pair) -> "TtnnTile":
        """Build a tile stored row by row, as in the document's picture."""
        return cls(shape, shape)

    def __str__(self) -> str:
        (h, w), (fh, fw) = self.shape, self.face
        return f"Tile(tile_shape={{{h}, {w}}},face_shape={{{fh}, {fw}}},num_faces={self.face_count})"

    @property
    def element_count(self) -> int:
        """The number of elements of the tile."""
        return prod(self.shape)

    @property
    def face_count(self) -> int:
        """The number of faces of the tile."""
        return self.element_count // prod(self.face)

    def size_bytes(self, dtype: DataType) -> int:
        """Compute the size of the tile in bytes.

        A block float adds an exponent byte for 16 elements, padded to 16 (`get_tile_size`).
        """
        exponents = -(-self.element_count // FACE_WIDTH) if dtype.block_float else 0
        return -(-self.element_count * dtype.bits // 8) + round_up(exponents, EXPONENT_ALIGNMENT_BYTES)


DEFAULT_TILE = TtnnTile()
