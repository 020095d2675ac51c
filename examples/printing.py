"""Output of the examples: the blocks of a program, and its best plans for a mesh."""

import sys

import tapestry
from tapestry.teg.graph import Graph

MESH = "dgx-h100"


def show(graph: Graph, seconds: float | None = None) -> None:
    """Print the blocks of a graph, then the frontier that a short search finds on eight H100."""
    for block in graph.blocks:
        dims = block.signature.dims if block.signature is not None else ()
        print(f"  {block.site:24} {block.operator:10} {', '.join(f'{d.name}={d.size}' for d in dims)}")
    limit_s = seconds or (float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
    objectives = ("time_s", "peak_memory_bytes", "traffic_bytes")
    result = tapestry.optimize(graph, MESH, objectives, seconds=limit_s, seed=0)
    print(f"\n{len(result.frontier)} plans on {MESH}; the fastest, the leanest and some between:")
    plans = sorted(result.frontier, key=lambda plan: plan.cost["time_s"])
    for plan in plans[:: max(len(plans) // 4, 1)]:
        print(
            f"  {plan.cost['time_s'] * 1e6:10.1f} us  {plan.cost['peak_memory_bytes'] / 2**20:8.2f} MiB  "
            f"{plan.cost['traffic_bytes'] / 2**20:8.2f} MiB moved"
        )
