"""Rewriting of programs: rules, their candidate moves, and the application of moves."""

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.rewrites: imported as rewrites, its classes would exist twice")


from tapestry.rewrites.algebra.recomposition import RECOMPOSITION
from tapestry.rewrites.application import Applied
from tapestry.rewrites.apply import apply_all, apply_move, replay
from tapestry.rewrites.finding import find
from tapestry.rewrites.match_cache import Failure
from tapestry.rewrites.move import Move, StaleMove
from tapestry.rewrites.neighborhood import Changes
from tapestry.rewrites.placement import (
    apply_placement,
    find_placements,
    is_structural,
    placement_moves,
    replay_plan,
)
from tapestry.rewrites.placement_rules import PLACEMENT
from tapestry.rewrites.provenance import Event, Provenance, Story
from tapestry.rewrites.rule import Match, Rule, RuleError, Sizes
from tapestry.rewrites.rules import RULES, catalogue, rule_named
from tapestry.rewrites.saturation import Saturated, saturate
from tapestry.rewrites.worklist import Offers, find_tied

__all__ = [
    "PLACEMENT",
    "RECOMPOSITION",
    "RULES",
    "Applied",
    "Changes",
    "Event",
    "Failure",
    "Match",
    "Move",
    "Offers",
    "Provenance",
    "Rule",
    "RuleError",
    "Saturated",
    "Sizes",
    "StaleMove",
    "Story",
    "apply_all",
    "apply_move",
    "apply_placement",
    "catalogue",
    "find",
    "find_placements",
    "find_tied",
    "is_structural",
    "placement_moves",
    "replay",
    "replay_plan",
    "rule_named",
    "saturate",
]
