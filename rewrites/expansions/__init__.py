"""Expansions: what an operator means, in terms of simpler ones. One story per file, added up here."""

from rewrites.expansions.definitions import DEFINITIONS
from rewrites.expansions.special_cases import SPECIAL_CASES
from rewrites.rule import Rule

EXPANSIONS: tuple[Rule, ...] = (*DEFINITIONS, *SPECIAL_CASES)

__all__ = ["EXPANSIONS"]
