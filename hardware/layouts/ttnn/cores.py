"""Cores, ranges of cores and sets of ranges, in the order in which shards are assigned to them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tapestry.hardware.layouts.layout import LayoutError

MOST_CORES = 2**16
"""More cores than any grid has; longer lists are refused before they are made."""
MOST_RANGES = 1024


@dataclass(frozen=True, order=True)
class Core:
    """The coordinates of a core: `x` is its column, `y` its row."""

    x: int
    y: int

    def __post_init__(self) -> None:
        if not (0 <= self.x < MOST_CORES and 0 <= self.y < MOST_CORES):
            raise LayoutError(
                f"core (x={self.x},y={self.y}) is outside any grid; expected 0 to {MOST_CORES - 1}"
            )

    def __str__(self) -> str:
        return f"(x={self.x},y={self.y})"


@dataclass(frozen=True)
class CoreGrid:
    """A grid of cores from (0, 0): `x` columns and `y` rows."""

    x: int
    y: int

    def __post_init__(self) -> None:
        if not (0 < self.x <= MOST_CORES and 0 < self.y <= MOST_CORES):
            raise LayoutError(
                f"a core grid has 1 to {MOST_CORES} columns and rows, not x={self.x}, y={self.y}"
            )

    @property
    def cores(self) -> "CoreRangeSet":
        """The cores of the grid."""
        return CoreRangeSet((CoreRange(Core(0, 0), Core(self.x - 1, self.y - 1)),))


@dataclass(frozen=True, order=True)
class CoreRange:
    """A rectangle of cores, both corners included."""

    start: Core
    end: Core

    def __post_init__(self) -> None:
        if self.end.x < self.start.x or self.end.y < self.start.y:
            raise LayoutError(f"Invalid core range for start_coord: {self.start}, end_coord: {self.end}")

    def __str__(self) -> str:
        return f"[{self.start} - {self.end}]"

    @property
    def columns(self) -> int:
        """The number of cores in x."""
        return self.end.x - self.start.x + 1

    @property
    def rows(self) -> int:
        """The number of cores in y."""
        return self.end.y - self.start.y + 1

    @property
    def core_count(self) -> int:
        """The number of cores of the rectangle."""
        return self.columns * self.rows

    def intersects(self, other: "CoreRange") -> bool:
        """Return whether both ranges contain a common core."""
        return not (
            self.end.x < other.start.x
            or self.start.x > other.end.x
            or self.end.y < other.start.y
            or self.start.y > other.end.y
        )

    def cores(self, *, row_wise: bool = True) -> tuple[Core, ...]:
        """List the cores row by row, or column by column."""
        if self.core_count > MOST_CORES:
            raise LayoutError(
                f"core range {self} holds {self.core_count} cores; expected at most {MOST_CORES}"
            )
        xs = range(self.start.x, self.end.x + 1)
        ys = range(self.start.y, self.end.y + 1)
        return (
            tuple(Core(x, y) for y in ys for x in xs)
            if row_wise
            else tuple(Core(x, y) for x in xs for y in ys)
        )


@dataclass(frozen=True)
class CoreRangeSet:
    """A set of rectangles of cores that do not overlap, in the order given."""

    ranges: tuple[CoreRange, ...]

    def __post_init__(self) -> None:
        if len(self.ranges) > MOST_RANGES:
            raise LayoutError(f"the grid has {len(self.ranges)} core ranges; expected at most {MOST_RANGES}")
        for one, other in combinations(self.ranges, 2):
            if one.intersects(other):
                raise LayoutError(
                    f"Cannot create CoreRangeSet with specified core ranges because core ranges {one} and {other} "
                    "overlap!"
                )

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.ranges))}}}"

    @property
    def core_count(self) -> int:
        """The number of cores of all ranges."""
        return sum(r.core_count for r in self.ranges)

    def cores(self, *, row_wise: bool = True) -> tuple[Core, ...]:
        """List the cores range by range, each row by row or column by column (tt-metal: `corerange_to_cores`)."""
        if self.core_count > MOST_CORES:
            raise LayoutError(f"the grid holds {self.core_count} cores; expected at most {MOST_CORES}")
        return tuple(core for r in self.ranges for core in r.cores(row_wise=row_wise))

    def bounding_box(self) -> CoreRange:
        """Compute the smallest rectangle around all ranges."""
        if not self.ranges:
            raise LayoutError("Cannot get bounding_box of an empty CoreRangeSet!")
        starts, ends = [r.start for r in self.ranges], [r.end for r in self.ranges]
        return CoreRange(
            Core(min(c.x for c in starts), min(c.y for c in starts)),
            Core(max(c.x for c in ends), max(c.y for c in ends)),
        )


def first_cores(count: int, grid: CoreGrid, *, row_wise: bool = False) -> CoreRangeSet:
    """Return the first `count` cores of a grid as full lines and a rest (tt-metal: `num_cores_to_corerangeset`)."""
    if count > grid.x * grid.y:
        raise LayoutError(
            f"Target number of cores {count} is greater than total number of available cores {grid.x * grid.y}"
        )
    line = grid.x if row_wise else grid.y
    full, rest = divmod(count, line)
    corners = [(0, 0, line - 1, full - 1)] if full else []
    corners += [(0, full, rest - 1, full)] if rest else []
    if row_wise:
        return CoreRangeSet(tuple(CoreRange(Core(a, b), Core(c, d)) for a, b, c, d in corners))
    return CoreRangeSet(tuple(CoreRange(Core(b, a), Core(d, c)) for a, b, c, d in corners))


def merged(cores: Iterable[Core]) -> CoreRangeSet:
    """Merge cores into few rectangles: runs of a row, joined with the rectangle above if both ends agree.

    The ranges are sorted by their first core, x before y, as tt-metal's `CoreRangeSet::merge` leaves them.
    """
    open_ranges: set[CoreRange] = set()
    by_row: dict[int, list[int]] = {}
    for core in sorted(set(cores), key=lambda c: (c.y, c.x)):
        by_row.setdefault(core.y, []).append(core.x)
    for y, columns in by_row.items():
        for first, last in _runs(columns):
            above = [r for r in open_ranges if (r.start.x, r.end.x) == (first, last) and r.end.y == y - 1]
            start_y = above[0].start.y if above else y
            open_ranges.difference_update(above)
            open_ranges.add(CoreRange(Core(first, start_y), Core(last, y)))
    return CoreRangeSet(tuple(sorted(open_ranges)))


def _runs(columns: Sequence[int]) -> list[tuple[int, int]]:
    """Find the maximal runs (first, last) of consecutive numbers in a sorted sequence."""
    runs: list[tuple[int, int]] = []
    for x in columns:
        if runs and runs[-1][1] == x - 1:
            runs[-1] = (runs[-1][0], x)
        else:
            runs.append((x, x))
    return runs
