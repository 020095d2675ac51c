"""Time to list all applicable moves of a program: from nothing, and after one move.

    python -m benchmarks.matching [FILE.onnx ...] [--json FILE] [--seconds 5] [--seed 0]

"Cold" is the first listing in this process, with the whole catalog, of a graph that was just imported.
"After one move" applies a random move to the graph and brings the list up to date; the list is then compared
with one made from nothing. "Again" does so once more: by then the contexts are in the cache, as they are in equal
layers and in most of a search. Plain moves (one place each) and tied ones (equal layers together, what a search
chooses from) come from the same worklist of candidate moves. Wall and processor time are measured: on a busy machine
only the second is meaningful.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.setting import find_models, write
from tapestry.rewrites import Move, Rule, Worklist, apply_all, catalog, find, find_tied, saturate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

DEFAULT_MODELS = ("llama2_7b_32layer_b1_s2048",)
LEAST_MOVES, MOST_MOVES, COMPARED = 20, 400, 5

T = TypeVar("T")


class Clock:
    """Wall and processor milliseconds of calls."""

    def __init__(self) -> None:
        self.wall_ms: list[float] = []
        self.cpu_ms: list[float] = []

    def time(self, work: Callable[[], T]) -> T:
        """Run `work` and return its result; its time is recorded."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.wall_ms.append(1e3 * (time.perf_counter() - wall))
        self.cpu_ms.append(1e3 * (time.process_time() - cpu))
        return result

    def figures(self) -> dict[str, float]:
        """Return the median wall and processor times and the slowest processor time, in milliseconds."""
        return {
            "wall_ms": round(float(np.median(self.wall_ms)), 3),
            "cpu_ms": round(float(np.median(self.cpu_ms)), 3),
            "slowest_cpu_ms": round(max(self.cpu_ms), 3),
        }


def measure(graph: Graph, rules: Sequence[Rule], seconds: float, rng: np.random.Generator) -> dict[str, Any]:
    """Measure one program and return its figures; `seconds` bounds the moves that are tried one after the other."""
    cold, listing, tied, applying, updating, again = (Clock() for _ in range(6))
    candidates = cold.time(lambda: Worklist.of(graph, rules))
    moves = listing.time(candidates.moves)
    classes = tied.time(candidates.tied)
    stop, wrong = time.perf_counter() + seconds, 0
    for k in range(MOST_MOVES):
        if time.perf_counter() > stop and k >= LEAST_MOVES:
            break
        move = moves[int(rng.integers(len(moves)))]
        wrong += _after(candidates, move, rng, (applying, updating, again, listing, tied), k < COMPARED)
    return {
        "blocks": len(graph.blocks),
        "moves": len(moves),
        "tied_moves": len(classes),
        "cold": cold.figures(),
        "apply": applying.figures(),
        "update": updating.figures(),
        "update_again": again.figures(),
        "list": listing.figures(),
        "list_tied": tied.figures(),
        "after_one_move_cpu_ms": round(
            float(
                np.median(
                    np.sum([c.cpu_ms[-len(applying.cpu_ms) :] for c in (applying, updating, listing)], 0)
                )
            ),
            3,
        ),
        "moves_tried": len(applying.cpu_ms),
        "wrong": wrong,
    }


def _after(
    candidates: Worklist,
    move: Move,
    rng: np.random.Generator,
    clocks: tuple[Clock, Clock, Clock, Clock, Clock],
    compare: bool,
) -> bool:
    """Apply a move and list again; return whether the lists differ from those made from nothing (if compared)."""
    applying, updating, again, listing, tied = clocks
    applied = applying.time(lambda: apply_all(candidates.graph, [move]))
    current = updating.time(lambda: candidates.after(applied.graph, applied.changes))
    again.time(lambda: candidates.after(applied.graph, applied.changes))
    moves, classes = listing.time(current.moves), tied.time(current.tied)
    return compare and (moves, classes) != (
        find(applied.graph, candidates.rules),
        find_tied(applied.graph, candidates.rules),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each program as imported and as simplified."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", type=Path, metavar="FILE.onnx")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="per program")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    rules = tuple(catalog().values())
    results = {}
    for path in given.graphs or find_models(DEFAULT_MODELS):
        graph = from_onnx(path)
        rng = np.random.default_rng(given.seed)
        imported = measure(graph, rules, given.seconds / 2, rng)
        simple = saturate(graph, [r for r in rules if r.saturating]).graph
        results[path.stem] = {
            "imported": imported,
            "simplified": measure(simple, rules, given.seconds / 2, rng),
        }
        for name, found in results[path.stem].items():
            print(
                f"{path.stem} {name}: {found['moves']} moves of {found['blocks']} blocks, cold "
                f"{found['cold']['cpu_ms']:.0f} ms, after one move {found['after_one_move_cpu_ms']:.2f} ms "
                f"(apply {found['apply']['cpu_ms']:.2f}, update {found['update']['cpu_ms']:.2f}, "
                f"again {found['update_again']['cpu_ms']:.2f}, list "
                f"{found['list']['cpu_ms']:.2f}, tied {found['list_tied']['cpu_ms']:.2f})"
            )
    write(given.json, {"rules": len(rules), "programs": results})


if __name__ == "__main__":
    main()
