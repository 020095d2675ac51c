"""The pipeline of a plan (convention "stages"): how many stages it has, by which schedule, and the blocks of each part.

Imported by whatever shows plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.placement import Placements, scheduled_blocks


@dataclass(frozen=True)
class PlanStages:
    """The stages of a plan: their `count`, the `schedule`, and how many `blocks` that run are in each part."""

    count: int
    schedule: str
    blocks: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"count": self.count, "schedule": self.schedule, "blocks": list(self.blocks)}


def plan_stages(graph: Graph, placements: Placements) -> PlanStages | None:
    """Count the blocks of each part of a plan's pipeline; None for a plan without stages.

    Sources and views, which take no time, are left out.
    """
    stages = placements.stages
    if stages is None:
        return None
    placed = with_boundary(graph, placements)
    parts = [placed.of(block).part for block in scheduled_blocks(graph, placements.schedule_order)]
    count = max([stages.count, *(part + 1 for part in parts)])
    return PlanStages(stages.count, stages.schedule, tuple(parts.count(part) for part in range(count)))
