"""The element types of ttnn tensors, their sizes and the document's width multiples."""

from dataclasses import dataclass

from tapestry.hardware.layouts.layout import LayoutError

ROW_BYTES = 4
TILE_WIDTH = 32


@dataclass(frozen=True)
class DataType:
    """An element type of ttnn tensors.

    `bits` is the size of an element in a tile. A block float shares an exponent byte among 16 elements and exists in
    tiles only; in row-major order its values are held as float32 (tt-metal: `rm_element_size_bytes`).
    """

    name: str
    bits: int
    block_float: bool = False

    def __str__(self) -> str:
        return f"DataType::{self.name}"

    @property
    def row_major_bytes(self) -> int:
        """The size of an element in bytes in row-major order."""
        return 4 if self.block_float else self.bits // 8

    @property
    def width_multiple(self) -> int:
        """The number that divides the width of a row-major tensor on a device (document: 4 / sizeof(dtype)).

        Block floats need whole tiles. Newer versions of ttnn require no multiple at all.
        """
        return TILE_WIDTH if self.block_float else max(1, ROW_BYTES // self.row_major_bytes)


DTYPES: tuple[DataType, ...] = (
    DataType("BFLOAT16", 16),
    DataType("FLOAT32", 32),
    DataType("UINT32", 32),
    DataType("BFLOAT8_B", 8, block_float=True),
    DataType("BFLOAT4_B", 4, block_float=True),
    DataType("UINT8", 8),
    DataType("UINT16", 16),
    DataType("INT32", 32),
    DataType("INT8", 8),
    DataType("FP8_E4M3", 8),
)
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_DEVICE_NAMES = {"BFP8_B": "BFLOAT8_B", "BFP4_B": "BFLOAT4_B"}  # as tt-metal's DataFormat calls them


def dtype_named(text: str) -> DataType:
    """Find the type called `bfloat16`, `ttnn.bfloat16` or `DataType::BFLOAT16`; `LayoutError` lists the names."""
    name = text.replace("::", ".").rpartition(".")[2].upper()
    name = _DEVICE_NAMES.get(name, name)
    if name not in _BY_NAME:
        known = ", ".join(dtype.name.lower() for dtype in DTYPES)
        raise LayoutError(f"{text!r} is no data type of ttnn; expected one of {known}")
    return _BY_NAME[name]
