"""Differences between plans: what each decides about the plan as a whole, and block by block, equal layers together."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.optimizer.archive.origin import PlanOrigin
from tapestry.service.presentation import devices_text, stages_text
from tapestry.service.store import StoredPlan

WHOLE = {"order": "schedule order", "inputs": "inputs", "outputs": "outputs"}


def parameter_rows(plans: Sequence[StoredPlan]) -> list[dict[str, Any]]:
    """List what each plan decides as a whole, as rows of a title and a text per plan."""
    rows: list[tuple[str, list[str]]] = [
        ("devices", [devices_text(plan.devices, plan.stages) for plan in plans]),
        ("micro-batches", [f"{plan.micro_batches:,}" for plan in plans]),
        ("stages", [stages_text(plan.stages) or "none" for plan in plans]),
        ("blocks computed again", [f"{(plan.recompute or {}).get('blocks', 0):,}" for plan in plans]),
        ("bytes on the host", [f"{(plan.offload or {}).get('bytes', 0):,}" for plan in plans]),
        *(
            (title, [str((plan.placements or {}).get(name, "")) for plan in plans])
            for name, title in WHOLE.items()
        ),
        ("origin", [_origin_text(plan) for plan in plans]),
        ("moves", [f"{plan.move_count:,}" for plan in plans]),
    ]
    return [{"title": title, "values": values, "differs": len(set(values)) > 1} for title, values in rows]


def _origin_text(plan: StoredPlan) -> str:
    return "unknown" if plan.origin is None else str(PlanOrigin.from_json(plan.origin))


def decision_differences(placements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare the decisions of plans about each block, from the documents of their placements.

    `groups` are blocks about which not all plans decide the same, in the order of the first plan that has them:
    blocks whose names differ in numbers only, and of which every plan decides the same, are one group. `values` are
    the placements by plan; None where a plan has no such block, for its program was rewritten. The name of a group is
    without numbers, or that of its first block where the rest says too little.
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
    for group in groups.values():
        if not re.search("[A-Za-z].*[A-Za-z]", group["name"]):
            group["name"] = group["sites"][0]
    return {"blocks": len(sites), "equal": equal, "groups": list(groups.values())}


def name_without_numbers(site: str) -> str:
    """Return what equal blocks of equal layers have in common in their names: `h.*.mlp` of `h.3.mlp`.

    The digest of a block that rewriting made is no part of it.
    """
    name = re.sub(r"\d+", "*", re.sub(r"(~\w+)\.[0-9a-f]{8}\b", r"\1", site))
    return re.sub(r"_\*$", "", re.sub(r"_\*(?=$|\.)", "", name, count=1))
