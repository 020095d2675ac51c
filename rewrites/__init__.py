"""Rewriting of programs: rules, their candidate moves, and the application of moves."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.rewrites: imported as rewrites, its classes would exist twice")


from tapestry.rewrites.algebra.recomposition import RECOMPOSITION
from tapestry.rewrites.application import Applied
from tapestry.rewrites.apply import apply_all, apply_move, replay, replay_all
from tapestry.rewrites.finding import find
from tapestry.rewrites.match_cache import RuleFailure
from tapestry.rewrites.move import Move, StaleMove
from tapestry.rewrites.neighborhood import Changes
from tapestry.rewrites.placement import (
    apply_placement,
    is_structural,
    placement_moves,
    replay_plan,
)
from tapestry.rewrites.placement_rules import PLACEMENT
from tapestry.rewrites.provenance import BlockHistory, Provenance, ProvenanceEvent
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, RuleError
from tapestry.rewrites.rules import RULES, catalog, rule_named
from tapestry.rewrites.saturation import Saturated, saturate
from tapestry.rewrites.worklist import Worklist, find_tied

__all__ = [
    "PLACEMENT",
    "RECOMPOSITION",
    "RULES",
    "Applied",
    "BlockHistory",
    "Changes",
    "ExampleSizes",
    "Match",
    "Move",
    "Provenance",
    "ProvenanceEvent",
    "Rule",
    "RuleError",
    "RuleFailure",
    "Saturated",
    "StaleMove",
    "Worklist",
    "apply_all",
    "apply_move",
    "apply_placement",
    "catalog",
    "find",
    "find_tied",
    "is_structural",
    "placement_moves",
    "replay",
    "replay_all",
    "replay_plan",
    "rule_named",
    "saturate",
]
