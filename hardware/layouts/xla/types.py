"""XLA's element types: their names as printed, and how many bits one element takes in an array of bytes."""

from __future__ import annotations

from hardware.layouts.layout import LayoutError

TYPE_BITS = {
    "pred": 8,
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
    **{f"{sign}{bits}": max(bits, 8) for sign in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **dict.fromkeys(("f4e2m1fn", "f8e3m4", "f8e4m3", "f8e4m3b11fnuz", "f8e4m3fn", "f8e4m3fnuz"), 8),
    **dict.fromkeys(("f8e5m2", "f8e5m2fnuz", "f8e8m0fnu"), 8),
}


def type_bits(name: str) -> int:
    """Bits of one element where no element size is given: types of less than a byte take one.

    Raises:
        LayoutError: XLA has no such array type.
    """
    if name not in TYPE_BITS:
        raise LayoutError(f"XLA has no array type {name!r}; its types are {', '.join(sorted(TYPE_BITS))}")
    return TYPE_BITS[name]
