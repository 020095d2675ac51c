"""Differences between plans: what each decides about the plan as a whole, and block by block, equal layers together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.service.leads import time_of
from tapestry.service.store import StoredPlan

WHOLE = {"order": "schedule order", "inputs": "inputs", "outputs": "outputs"}


def parameter_rows(plans: Sequence[StoredPlan]) -> list[dict[str, Any]]:
    """List what each plan decides as a whole, as rows of a title and a text per plan."""
    rows: list[tuple[str, list[str]]] = [
        ("devices", [plan.devices for plan in plans]),
        ("micro-batches", [f"{plan.micro_batches:,}" for plan in plans]),
        ("stages", [_stages(plan) for plan in plans]),
        ("blocks computed again", [f"{(plan.recompute or {}).get('blocks', 0):,}" for plan in plans]),
        ("bytes on the host", [f"{(plan.offload or {}).get('bytes', 0):,}" for plan in plans]),
        *(
            (title, [str((plan.placements or {}).get(name, "")) for plan in plans])
            for name, title in WHOLE.items()
        ),
        ("moves", [f"{plan.move_count:,}" for plan in plans]),
    ]
    return [{"title": title, "values": values, "differs": len(set(values)) > 1} for title, values in rows]


def _stages(plan: StoredPlan) -> str:
    return "none" if plan.stages is None else f"{plan.stages['count']} x {plan.stages['schedule']}"


def decision_differences(placements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare the decisions of plans about each block, from the documents of their placements.

    `groups` are blocks about which not all plans decide the same, in the order of the first plan that has them:
    blocks whose names differ in numbers only, and of which every plan decides the same, are one group. `values` are
    the placements by plan; None where a plan has no such block, for its program was rewritten.
    """
    blocks = [document.get("blocks", {}) for document in placements]
    sites = dict.fromkeys(site for own in blocks for site in own)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    equal = 0
    for site in sites:
        values = [own.get(site) for own in blocks]
        if all(value == values[0] for value in values[1:]):
            equal += 1
            continue
        name = name_without_numbers(site)
        key = (name, json.dumps(values, sort_keys=True))
        groups.setdefault(key, {"name": name, "sites": [], "values": values})["sites"].append(site)
    return {"blocks": len(sites), "equal": equal, "groups": list(groups.values())}


def name_without_numbers(site: str) -> str:
    """Return what equal blocks of equal layers have in common in their names: `h.*.mlp` of `h.3.mlp`.

    The digest of a block that rewriting made is no part of it.
    """
    name = re.sub(r"\d+", "*", re.sub(r"(~\w+)\.[0-9a-f]{8}\b", r"\1", site))
    return re.sub(r"_\*$", "", re.sub(r"_\*(?=$|\.)", "", name, count=1))


def time_differences(plans: Sequence[StoredPlan], meshes: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Compare the time of the first plan with that of each, None for itself and where the error is not known."""
    times = [time_of(plan.time, plan.verified) for plan in plans]
    found: list[Any] = [None]
    for time, mesh in zip(times[1:], meshes[1:], strict=True):
        is_known = times[0] is not None and time is not None
        found.append(
            times[0].difference(time, same_mesh=mesh == meshes[0]).to_json()  # type: ignore[union-attr, arg-type]
            if is_known
            else None
        )
    return found
