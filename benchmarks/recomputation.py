"""Comparison of minimum cuts with a greedy choice of what is computed again: least memory for so much more time.

    python -m benchmarks.recomputation GRAPH... [--device a100-sxm4-80gb] [--json FILE]

Both choose from the same blocks of the simplified program on one device, and are compared by the same estimates, which
tests hold equal to the costs of the programs. Greedy adds, one kind of block after the other, the one that saves most
of the peak per time; of kinds that save nothing yet, the cheapest per byte.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.setting import write
from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.hardware.catalog import load_device
from tapestry.optimizer.structure.recomputation import StorageProblem, recomputations
from tapestry.rewrites import RULES, saturate
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.importers.files import read_program

# Shares of the time by which a step may become longer.
LONGER = (0.01, 0.05, 0.1, 0.3)

Estimated = list[tuple[float, int]]


def by_cuts(graph: Graph, costs: UnshardedCosts) -> Estimated:
    """Return added time and peak of the ways that minimum cuts find."""
    return [(way.ticks, way.peak_bytes) for way in recomputations(graph, costs)]


def greedily(graph: Graph, costs: UnshardedCosts) -> Estimated:
    """Return added time and peak after each step of a greedy choice, until nothing is left to add."""
    problem = StorageProblem(graph, costs)
    kinds: dict[Definition, list[str]] = {}
    for site, node in problem.nodes.items():
        kinds.setdefault(node.block.definition, []).append(site)
    chosen = frozenset[str]()
    found = [problem.estimate(chosen)]
    while kinds:
        best = max(kinds, key=partial(_gain, problem, kinds, chosen, *found[-1]))
        chosen = _needed(problem, chosen.union(kinds.pop(best)))
        found.append(problem.estimate(chosen))
    return found


def _gain(
    problem: StorageProblem,
    kinds: Mapping[Definition, Sequence[str]],
    chosen: frozenset[str],
    ticks: float,
    peak: int,
    kind: Definition,
) -> tuple[float, float]:
    """Return the bytes of the peak that a kind saves per time, and those that it computes again per time."""
    added = _needed(problem, chosen.union(kinds[kind]))
    after, lower = problem.estimate(added)
    size, spent = sum(problem.nodes[s].size_bytes for s in added - chosen), max(after - ticks, 1.0)
    return (peak - lower) / spent, size / spent


def _needed(problem: StorageProblem, sites: frozenset[str]) -> frozenset[str]:
    """Return those of the sites that a late reader needs, or one that is computed again itself."""
    found: set[str] = set()
    for site in reversed([site for site in problem.nodes if site in sites]):
        if any(r in found or r not in problem.readers for r in problem.readers[site]):
            found.add(site)
    return frozenset(found)


CHOICES: Mapping[str, Callable[[Graph, UnshardedCosts], Estimated]] = {"cuts": by_cuts, "greedy": greedily}


def compare(name: str, graph: Graph, costs: UnshardedCosts) -> dict[str, Any]:
    """Compare the choices on one program: the least share of the peak for so much more time, and CPU seconds."""
    simple = saturate(graph, [rule for rule in RULES if rule.saturating]).graph
    base_ticks, peak = costs.time_ticks(simple), StorageProblem(simple, costs).estimate(frozenset())[1]
    found: dict[str, Any] = {"graph": name, "blocks": len(simple.blocks), "peak_bytes": peak}
    for choice, ways_of in CHOICES.items():
        began = time.process_time()
        ways = [(0.0, peak), *ways_of(simple, costs)]
        least = [min(p for t, p in ways if t <= share * base_ticks) / peak for share in LONGER]
        found[choice] = {"least": least, "cpu_s": time.process_time() - began}
    return found


def text_of(found: Mapping[str, Any]) -> str:
    """Format one comparison as lines."""
    lines = [f"{found['graph']}: {found['blocks']} blocks, {found['peak_bytes'] / 2**30:.2f} GiB"]
    for choice in CHOICES:
        shares = "  ".join(f"+{s:.0%}: {x:.3f}" for s, x in zip(LONGER, found[choice]["least"], strict=True))
        lines.append(f"  {choice:8}{shares}  in {found[choice]['cpu_s']:.1f} s")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Compare the graphs, print the figures, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--device", default="a100-sxm4-80gb")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    costs, rows = UnshardedCosts(load_device(given.device)), []
    for path in given.graphs:
        rows.append(compare(path.name.split(".")[0], read_program(path), costs))
        print(text_of(rows[-1]), flush=True)
    write(
        given.json, {"benchmark": "recomputation", "device": given.device, "longer": LONGER, "graphs": rows}
    )


if __name__ == "__main__":
    main()
