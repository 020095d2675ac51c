"""The derivation of a plan as JSON: the same form for the command line and the service. Moves count from 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.costmodel.version import COST_MODEL_VERSION, cost_model_note
from tapestry.optimizer.analysis.explanation import Explanation, ExplanationStep, first_line
from tapestry.rewrites import Move
from tapestry.rewrites.provenance import BlockHistory, Provenance, ProvenanceEvent


def explanation_document(
    reported: Explanation,
    objectives: Sequence[str],
    stored: Mapping[str, float] | None = None,
    stored_cost_model: int = COST_MODEL_VERSION,
) -> dict[str, Any]:
    """Convert an explanation to JSON: the steps with costs; `stored` is the cost that the plan's search reported.

    `as_stored` is true if both agree to the last digit; null where nothing is stored. `cost_model_note` is set if
    another version of the cost model computed the stored cost.
    """
    return {
        "objectives": list(objectives),
        "devices": reported.devices or "all",
        "stages": None if reported.pipeline is None else reported.pipeline.to_json(),
        "stage_devices": list(reported.stage_devices),
        "offload": None if reported.offload is None else reported.offload._asdict(),
        "start": dict(reported.start),
        "steps": [_step(step) for step in reported.steps],
        "cost": dict(reported.cost),
        "as_stored": None if stored is None else not unlike(reported.cost, stored),
        "cost_model": COST_MODEL_VERSION,
        "cost_model_note": cost_model_note(stored_cost_model),
        "rules": {move.rule: first_line(move.rule) for step in reported.steps for move in step.moves},
    }


def _step(step: ExplanationStep) -> dict[str, Any]:
    return {
        "first": step.first + 1,
        "moves": [move.to_json() for move in step.moves],
        "blocks": step.blocks,
        "cost": dict(step.cost),
        "effect": dict(step.effect),
        "without": None if step.ablation is None else dict(step.ablation),
        "gone_with": [number + 1 for number in step.gone_with],
    }


def block_history_document(block_history: BlockHistory) -> dict[str, Any]:
    """Convert the origin of one block to JSON; with `became` if the block is gone."""
    document = {
        "site": block_history.site,
        "is_there": block_history.is_there,
        "origins": list(block_history.origins),
        "events": [_event(event) for event in block_history.events],
    }
    return document if block_history.is_there else {**document, "became": list(block_history.became)}


def _event(event: ProvenanceEvent) -> dict[str, Any]:
    return {
        "move": event.number + 1,
        **event.move.to_json(),
        "effect": event.effect,
        "site": event.site,
    }


def block_histories_document(reported: Provenance) -> dict[str, Any]:
    """Convert the origins of a history's blocks to JSON: events by their numbers in `events`, and original blocks."""
    numbers = {id(event): k for k, event in enumerate(reported.events)}
    blocks = {}
    for block_history in reported.block_histories():
        known: dict[str, Any] = {
            "events": [numbers[id(e)] for e in block_history.events],
            "origins": list(block_history.origins),
        }
        blocks[block_history.site] = (
            known if block_history.is_there else {**known, "became": list(block_history.became)}
        )
    return {"events": [_event(event) for event in reported.events], "blocks": blocks}


def unlike(cost: Mapping[str, float], stored: Mapping[str, float]) -> list[str]:
    """Return the objectives in which two costs of one plan differ."""
    return [name for name in cost if name in stored and cost[name] != stored[name]]


def moves_of(documents: Sequence[Any]) -> tuple[Move, ...]:
    """Parse the moves of a history.

    Raises:
        ValueError: one is no move; the message states which.
    """
    moves = []
    for k, document in enumerate(documents):
        try:
            moves.append(Move.from_json(document))
        except ValueError as error:
            raise ValueError(f"/moves/{k}: {error}") from error
    return tuple(moves)
