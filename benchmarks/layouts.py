"""Speed of packing and indexing layouts, compared with the same copies hand-written in numpy.

    python -m benchmarks.layouts --json FILE [--size 4096] [--seconds 5]

A square float32 array is packed into a layout of each notation and unpacked again; numpy's own reshape and transpose do
the same in turns with it. A ratio is numpy's time over ours: 1 is as fast, the limit is a third. Then the offsets of
a million elements are looked up, and the coordinates at these offsets. Times are the best of their turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.setting import write
from tapestry.hardware.layouts import Layout, parse_layout
from tapestry.hardware.layouts.tt_metal import MetalLayout
from tapestry.hardware.layouts.ttnn import tiled

LOOKUPS = 1_000_000
GRID = 8
STEP = 256  # sizes are multiples of the largest tile times the grid


@dataclass(frozen=True)
class LayoutCase:
    """A layout of a square array of `n` rows, and the split and transposition that pack it by hand."""

    name: str
    layout: Callable[[int], Layout]
    split: Callable[[int], tuple[int, ...]]
    order: tuple[int, ...]

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Pack by hand: reshape, transpose, copy."""
        return np.ascontiguousarray(array.reshape(self.split(len(array))).transpose(self.order))

    def unpack(self, packed: np.ndarray, n: int) -> np.ndarray:
        """Unpack by hand: transpose back, copy."""
        return np.ascontiguousarray(packed.transpose(np.argsort(self.order))).reshape(n, n)


CASES = (
    LayoutCase(
        "xla T(8,128)",
        lambda n: parse_layout(f"f32[{n},{n}]{{1,0:T(8,128)}}"),
        lambda n: (n // 8, 8, n // 128, 128),
        (0, 2, 1, 3),
    ),
    LayoutCase(
        "xla T(8,128)(2,1)",
        lambda n: parse_layout(f"f32[{n},{n}]{{1,0:T(8,128)(2,1)}}"),
        lambda n: (n // 8, 4, 2, n // 128, 128),
        (0, 3, 1, 4, 2),
    ),
    LayoutCase(
        "cute blocks of 8 x 128",
        lambda n: parse_layout(f"ptr[32b] o ((8,{n // 8}),(128,{n // 128})):((128,{8 * n}),(1,1024))"),
        lambda n: (n // 8, 8, n // 128, 128),
        (0, 2, 1, 3),
    ),
    LayoutCase(
        "tt_metal 8 x 8 cores, tiles",
        lambda n: MetalLayout.of((n, n), "f32", grid=(GRID, GRID)),
        lambda n: (GRID, n // GRID // 32, 32, GRID, n // GRID // 32, 32),
        (0, 3, 1, 4, 2, 5),
    ),
    LayoutCase(
        "ttnn tiles of faces",
        lambda n: tiled((n, n), "float32"),
        lambda n: (n // 32, 2, 16, n // 32, 2, 16),
        (0, 3, 1, 4, 2, 5),
    ),
)


def measure(case: LayoutCase, n: int, seconds: float, rng: np.random.Generator) -> dict[str, Any]:
    """Measure one layout and return its figures."""
    layout = case.layout(n)
    array = rng.random((n, n), dtype=np.float32)
    by_hand, packed = case.pack(array), layout.pack(array)
    coords = rng.integers(0, n, (LOOKUPS, 2))
    offsets = layout.offsets(coords)
    found, real = layout.coordinates(offsets)
    equal = (
        np.array_equal(packed.reshape(-1), by_hand.reshape(-1))
        and np.array_equal(layout.unpack(packed), array)
        and np.array_equal(packed.reshape(-1)[offsets], array[tuple(coords.T)])
        and bool(real.all())
        and np.array_equal(found, coords)
    )
    best = turns(
        {
            "pack_s": lambda: layout.pack(array),
            "pack_by_hand_s": lambda: case.pack(array),
            "unpack_s": lambda: layout.unpack(packed),
            "unpack_by_hand_s": lambda: case.unpack(by_hand, n),
            "offsets_s": lambda: layout.offsets(coords),
            "coordinates_s": lambda: layout.coordinates(offsets),
        },
        seconds,
    )
    both = best["pack_by_hand_s"] + best["unpack_by_hand_s"]
    return {
        "layout": case.name,
        "size_bytes": layout.size_bytes,
        **{name: round(taken, 6) for name, taken in best.items()},
        "pack_ratio": round(best["pack_by_hand_s"] / best["pack_s"], 3),
        "unpack_ratio": round(best["unpack_by_hand_s"] / best["unpack_s"], 3),
        "round_trip_ratio": round(both / (best["pack_s"] + best["unpack_s"]), 3),
        "equal": equal,
    }


def turns(actions: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Measure the best time of each action, all taken in turns for `seconds`, at least once."""
    best = dict.fromkeys(actions, float("inf"))
    stop = time.perf_counter() + seconds
    while best[next(reversed(best))] == float("inf") or time.perf_counter() < stop:
        for name, act in actions.items():
            began = time.perf_counter()
            act()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def line_of(row: dict[str, Any]) -> str:
    """Format one row as a sentence."""
    strange = "" if row["equal"] else "; NOT EQUAL TO THE COPY BY HAND"
    return (
        f"{row['layout']}: pack {1e3 * row['pack_s']:.0f} ms ({row['pack_ratio']:.2f} of numpy's speed), "
        f"unpack {1e3 * row['unpack_s']:.0f} ms ({row['unpack_ratio']:.2f}); {LOOKUPS:,} offsets "
        f"{1e3 * row['offsets_s']:.0f} ms, coordinates {1e3 * row['coordinates_s']:.0f} ms{strange}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a line per layout, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--size", type=int, default=4096, help=f"rows and columns, a multiple of {STEP}")
    parser.add_argument("--seconds", type=float, default=5.0, help="for all layouts together")
    given = parser.parse_args(argv)
    if given.size < STEP or given.size % STEP:
        parser.error(f"--size: expected a multiple of {STEP}, not {given.size}")
    rng = np.random.default_rng(0)
    rows = []
    for case in CASES:
        rows.append(measure(case, given.size, given.seconds / len(CASES), rng))
        print(line_of(rows[-1]), flush=True)
    write(given.json, {"benchmark": "layouts", "size": given.size, "lookups": LOOKUPS, "layouts": rows})


if __name__ == "__main__":
    main()
