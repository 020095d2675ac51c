"""Decision whether plans may be executed with numbers: in seconds rather than minutes, in this computer's memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tapestry.optimizer.run.plan import Plan
from tapestry.teg.flops import graph_flops
from tapestry.teg.graph import Graph

LARGEST_EXECUTION_FLOPS = 2e12
SHARE_OF_MEMORY = 0.5


def fits_in_memory(plans: Sequence[Plan]) -> bool:
    """Return whether the simulated devices' memories fit into half of this computer's."""
    needed = max((plan.cost["total_memory_bytes"] for plan in plans), default=0)
    return needed <= SHARE_OF_MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def is_affordable(graph: Graph, plans: Sequence[Plan]) -> bool:
    """Return whether executing these plans and the reference takes seconds, not minutes, and fits in memory."""
    flops = graph_flops(graph) + sum(plan.cost["compute_flops"] for plan in plans)
    return flops <= LARGEST_EXECUTION_FLOPS and fits_in_memory(plans)
