"""How a program may change: rules, the moves they offer, and moves carried out."""

from rewrites.apply import Applied, StaleMove, apply_all, apply_move, replay
from rewrites.catalogue import RULES, catalogue, rule_named
from rewrites.match import Changes, find, find_near, update
from rewrites.rule import Match, Move, Rule, RuleError, Sizes
from rewrites.strategies import Saturated, saturate

__all__ = [
    "RULES",
    "Applied",
    "Changes",
    "Match",
    "Move",
    "Rule",
    "RuleError",
    "Saturated",
    "Sizes",
    "StaleMove",
    "apply_all",
    "apply_move",
    "catalogue",
    "find",
    "find_near",
    "replay",
    "rule_named",
    "saturate",
    "update",
]
