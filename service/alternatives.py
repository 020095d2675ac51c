"""The alternatives of a block as JSON: costs, differences, and in words what speaks against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.costmodel.known_objectives import known_objectives
from tapestry.hardware import Mesh
from tapestry.optimizer import Plan, RunOptions
from tapestry.optimizer.analysis.alternatives import (
    Alternative,
    Alternatives,
    BlockQuestion,
    CopyChange,
    Excess,
    alternatives,
)
from tapestry.optimizer.archive.constraints import all_constraints
from tapestry.service.presentation import title_of
from tapestry.teg.brief import enumerated
from tapestry.teg.graph import Graph

MOST_COPIES = 12  # of the largest changes that are listed per alternative
SAME = 1e-9


def alternatives_document(
    plan: Plan,
    program: Graph,
    mesh: Mesh,
    options: RunOptions,
    best: Mapping[str, float],
    site: str,
    is_tied: bool,
    follow: str | None,
) -> dict[str, Any]:
    """Cost the alternatives of a block of a plan, and convert them to JSON; `best` are the least values of the run.

    Raises:
        UnknownBlock: the plan has no such block, or it has no placement of its own.
    """
    known = known_objectives(program)
    bounds = all_constraints(options.constraints, mesh, known)
    shown = tuple(dict.fromkeys([*options.objectives, *(bound.objective for bound in bounds)]))
    known = known.including([known.named(name) for name in shown])
    question = BlockQuestion(site, is_tied, follow, bounds, best)
    found = alternatives((plan.graph, plan.placements), question, mesh, options.compute_dtype, known)
    ranked = sorted(
        found.others, key=lambda each: [len(each.excesses) > 0, *_values(each, options.objectives)]
    )
    signature = found.block.signature
    return {
        "block": found.block.site,
        "operator": found.block.operator,
        "dims": [] if signature is None else [{"name": d.name, "size": d.size} for d in signature.dims],
        "changed": list(found.sites),
        "neighbors": list(found.neighbors),
        "objectives": list(options.objectives),
        "complete": found.is_complete,
        "current": _alternative(found.current, found, options.objectives, shown),
        "alternatives": [_alternative(each, found, options.objectives, shown) for each in ranked],
    }


def _values(each: Alternative, objectives: Sequence[str]) -> list[float]:
    return [each.cost[name] for name in objectives if name in each.cost]


def _alternative(
    each: Alternative, found: Alternatives, objectives: Sequence[str], shown: Sequence[str]
) -> dict[str, Any]:
    before = found.current.cost
    copies = sorted(each.copies, key=lambda c: -abs(c.after.seconds - c.before.seconds))
    return {
        "strategy": str(each.strategy),
        "cost": {name: each.cost[name] for name in shown if name in each.cost},
        "difference": {name: each.cost[name] - before[name] for name in shown if name in each.cost},
        "block_s": each.block_s,
        "feasible": not each.excesses,
        "excesses": [
            {
                "bound": str(excess.constraint),
                "objective": excess.constraint.objective,
                "value": excess.value,
                "limit": excess.limit,
            }
            for excess in each.excesses
        ],
        "copies": [_copy(change) for change in copies[:MOST_COPIES]],
        "copy_count": len(copies),
        "followed": {site: str(strategy) for site, strategy in each.followed.items()},
        "verdict": _verdict(each, found, objectives),
    }


def _copy(change: CopyChange) -> dict[str, Any]:
    return {
        "tensor": change.tensor,
        "from": change.producer,
        "to": change.reader,
        "before": {"traffic_bytes": change.before.traffic_bytes, "seconds": change.before.seconds},
        "after": {"traffic_bytes": change.after.traffic_bytes, "seconds": change.after.seconds},
    }


def _verdict(each: Alternative, found: Alternatives, objectives: Sequence[str]) -> str:
    """Say in words what speaks against an alternative, the most important first."""
    if each is found.current:
        return "this is the plan"
    if each.excesses:
        return "; ".join(_excess_text(excess) for excess in each.excesses)
    worse, better = _compared(each, found.current, objectives)
    if not worse and not better:
        return "it costs the same"
    if not worse:
        return f"it is better: less {_titles(better)}, and nothing is worse"
    against = f"more {_titles(worse)}" + (
        f", but less {_titles(better)}" if better else ", and nothing is better"
    )
    return f"{against}{_reason(each, found)}"


def _compared(
    each: Alternative, current: Alternative, objectives: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return in which objectives an alternative is worse, and in which it is better."""
    worse: list[str] = []
    better: list[str] = []
    for name in objectives:
        before, after = current.cost[name], each.cost[name]
        if abs(after - before) > SAME * max(abs(before), abs(after)):
            (worse if after > before else better).append(name)
    return worse, better


def _titles(names: Sequence[str]) -> str:
    return enumerated([title_of(name) for name in names])


def _excess_text(excess: Excess) -> str:
    share = (excess.value / excess.limit - 1.0) if excess.limit > 0 else 0.0
    by = f" by {share:.1%}" if share else ""
    return f"it breaks the bound {excess.constraint}{by}"


def _reason(each: Alternative, found: Alternatives) -> str:
    """Name the copy that grows most in time, or the block itself where that grows more."""
    grown = max(each.copies, key=lambda c: c.after.seconds - c.before.seconds, default=None)
    slower_s = each.block_s - found.current.block_s
    copied_s = 0.0 if grown is None else grown.after.seconds - grown.before.seconds
    if slower_s > 0 and slower_s >= copied_s:
        return "; the block itself takes longer"
    if grown is None or copied_s <= 0:
        return ""
    if grown.reader in found.sites:
        return f"; {grown.tensor} has to be redistributed for it"
    return f"; {grown.tensor} has to be redistributed for {grown.reader}"
