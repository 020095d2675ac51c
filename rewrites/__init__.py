"""How a program may change: rules, the moves they offer, and moves carried out."""

from rewrites.algebra.recomposition import RECOMPOSITION
from rewrites.apply import apply_all, apply_move, replay
from rewrites.attempts import Failure
from rewrites.carrying import Applied
from rewrites.finding import find
from rewrites.move import Move, StaleMove
from rewrites.neighbourhood import Changes
from rewrites.offers import Offers, find_tied
from rewrites.placement import (
    apply_placement,
    find_placements,
    is_structural,
    placement_moves,
    replay_plan,
)
from rewrites.placement_rules import PLACEMENT
from rewrites.provenance import Event, Provenance, Story
from rewrites.rule import Match, Rule, RuleError, Sizes
from rewrites.rules import RULES, catalogue, rule_named
from rewrites.strategies import Saturated, saturate

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
