"""The element types of XLA: names, bits of a value, bytes of a stored element.

Source: openxla/xla:xla/xla_data.proto (PrimitiveType) and xla/primitive_util.h.
"""

from dataclasses import dataclass

from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True)
class Primitive:
    """An element type: its lower-case name, the bits of a value and the kind: p, s, u, f or c."""

    name: str
    bits: int
    kind: str

    @property
    def size_bytes(self) -> int:
        """The bytes of one element stored without `E(n)`: narrow types take a byte (ByteSizeOfPrimitiveType)."""
        return -(-self.bits // 8)

    @property
    def is_integer(self) -> bool:
        """True if the type is a signed or unsigned integer (IsIntegralType)."""
        return self.kind in "su"


def _family(kind: str, *bits: int) -> tuple[Primitive, ...]:
    return tuple(Primitive(f"{kind}{n}", n, kind) for n in bits)


PRIMITIVES: tuple[Primitive, ...] = (
    Primitive("pred", 1, "p"),
    *_family("s", 1, 2, 4, 8, 16, 32, 64),
    *_family("u", 1, 2, 4, 8, 16, 32, 64),
    *_family("f", 16, 32, 64),
    Primitive("bf16", 16, "f"),
    Primitive("f4e2m1fn", 4, "f"),
    *(
        Primitive(f"f8{name}", 8, "f")
        for name in (
            "e5m2",
            "e4m3",
            "e4m3fn",
            "e4m3b11fnuz",
            "e5m2fnuz",
            "e4m3fnuz",
            "e3m4",
            "e8m0fnu",
        )
    ),
    *_family("c", 64, 128),
)
BY_NAME = {primitive.name: primitive for primitive in PRIMITIVES}
NUMPY_NAMES = {"bool": "pred", "float": "f", "int": "s", "uint": "u", "complex": "c", "bfloat": "bf"}


def primitive_named(name: str) -> Primitive:
    """Find the type of an XLA name (any case) or of a numpy-like one (`float32`, `bfloat16`, `bool`).

    Raises `LayoutError` naming the known types.
    """
    known = BY_NAME.get(name) or BY_NAME.get(_short(name.lower()))
    if known is None:
        raise LayoutError(f"{name[:40]!r} is no element type of XLA; expected one of {', '.join(BY_NAME)}")
    return known


def _short(name: str) -> str:
    if name.startswith("float8_"):
        return "f8" + name.removeprefix("float8_")
    word = name.rstrip("0123456789")
    return NUMPY_NAMES.get(word, word) + name[len(word) :]
