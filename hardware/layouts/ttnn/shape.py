"""Shapes with padding: `ttnn.Shape([14[32], 28[32]])`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tapestry.hardware.layouts.layout import LayoutError

DOCUMENTED_RANKS = range(1, 9)
LARGEST_DIMENSION = 2**32 - 1
LARGEST_VOLUME = 2**63 - 1
IMPLICIT_RANK = 4
_BEGIN = re.compile(r"\s*(?:ttnn\.)?Shape\(\[\s*")
_ENTRY = re.compile(r"(?P<size>[0-9]{1,20})(?:\[(?P<padded>[0-9]{1,20})\])?\s*(?P<comma>,\s*)?")
_SECOND = re.compile(r"\]\s*,\s*\[\s*((?:[0-9]{1,20}\s*,\s*)*[0-9]{1,20})\s*\]\)\s*$")
_END = re.compile(r"\]\)\s*$")


def checked(dims: Sequence[int], what: str = "shape", *, smallest: int = 0) -> tuple[int, ...]:
    """Check dimensions against ttnn's limits (uint32 each, product below 2^63); `LayoutError` names the wrong one."""
    for at, size in enumerate(dims):
        if not smallest <= size <= LARGEST_DIMENSION:
            raise LayoutError(
                f"dimension {at} of the {what} is {size}; expected {smallest} to {LARGEST_DIMENSION}"
            )
    check_volume(dims, what)
    return tuple(dims)


def check_volume(dims: Sequence[int], what: str) -> None:
    """Raise `LayoutError` if offsets into so many elements would not fit 64 bits."""
    if prod(size for size in dims if size) > LARGEST_VOLUME:
        raise LayoutError(f"the {what} has more than 2^63 - 1 elements; expected fewer")


@dataclass(frozen=True)
class Shape:
    """The dimensions of a tensor and of the storage it is padded to (None: not padded).

    The document allows ranks 1 to 8; newer versions have rank 0 too, so `Shape` does, and `documented` does not.
    """

    dims: tuple[int, ...]
    padded: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if len(self.dims) > max(DOCUMENTED_RANKS):
            raise LayoutError(
                f"a ttnn.Shape has at most {max(DOCUMENTED_RANKS)} dimensions, not {len(self.dims)}"
            )
        checked(self.dims)
        if self.padded is None:
            return
        checked(self.padded, "padded shape")
        if len(self.padded) != len(self.dims) or any(
            p < d for d, p in zip(self.dims, self.padded, strict=True)
        ):
            raise LayoutError(
                f"a padded shape has the shape's rank and no smaller dimension: {list(self.padded)} "
                f"does not hold {list(self.dims)}"
            )
        if self.padded == self.dims:
            object.__setattr__(self, "padded", None)

    @classmethod
    def documented(cls, dims: Sequence[int], padded: Sequence[int] | None = None) -> "Shape":
        """Build a shape by the document's rule: `LayoutError` unless it has 1 to 8 dimensions."""
        if len(dims) not in DOCUMENTED_RANKS:
            raise LayoutError(f"a ttnn.Shape has 1 to {max(DOCUMENTED_RANKS)} dimensions, not {len(dims)}")
        return cls(tuple(dims), None if padded is None else tuple(padded))

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """Parse a printed shape or a call: `ttnn.Shape([14[32], 28[32]])` or `ttnn.Shape([14, 28], [32, 32])`.

        Raises `LayoutError` with the position.
        """
        begun = _BEGIN.match(text)
        if begun is None:
            raise LayoutError(f"at character 0: expected ttnn.Shape([, found {text[:20]!r}")
        at, dims, padded = begun.end(), [], []
        more = _END.match(text, at) is None
        while more:
            entry = _ENTRY.match(text, at)
            if entry is None:
                raise LayoutError(
                    f"at character {at}: expected a dimension like 14 or 14[32], found {text[at : at + 20]!r}"
                )
            dims.append(int(entry["size"]))
            padded.append(int(entry["padded"] or entry["size"]))
            at = entry.end()
            more = entry["comma"] is not None
        second = _SECOND.match(text, at)
        if second is not None and dims == padded:
            return cls(tuple(dims), tuple(map(int, second[1].split(","))))
        if _END.match(text, at) is None:
            raise LayoutError(f"at character {at}: expected ',' or '])', found {text[at : at + 20]!r}")
        return cls(tuple(dims), tuple(padded))

    def __str__(self) -> str:
        pairs = zip(self.dims, self.storage, strict=True)
        return f"ttnn.Shape([{', '.join(f'{d}' if d == p else f'{d}[{p}]' for d, p in pairs)}])"

    def __getitem__(self, index: int) -> int:
        """Return a dimension; negative indices see leading ones, down to -4, where the rank is below 4."""
        rank = len(self.dims)
        full = max(rank, IMPLICIT_RANK)
        if not -full <= index < rank:
            raise LayoutError(f"ShapeBase[] index out of range. {index} not in [{-full}, {rank})")
        return self.dims[index] if index >= -rank else 1

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def storage(self) -> tuple[int, ...]:
        """The dimensions, padding included."""
        return self.dims if self.padded is None else self.padded

    @property
    def volume(self) -> int:
        """The number of elements of the storage, padding included."""
        return prod(self.storage)

    def with_tile_padding(self) -> "Shape":
        """Return the shape of the storage."""
        return Shape(self.storage)


def to_2d(dims: Sequence[int]) -> tuple[int, int]:
    """Convert dimensions to the matrix that is sharded: all but the last are rows, `[1, 2, 3, 4]` is `[6, 4]`."""
    return (prod(dims[:-1]), dims[-1]) if dims else (1, 1)
