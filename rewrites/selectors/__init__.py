"""Selectors: what moves elements and computes nothing. One story per file, added up here."""

from rewrites.rule import Rule
from rewrites.selectors.broadcasts import BROADCASTS
from rewrites.selectors.cuts import CUTS
from rewrites.selectors.distribution import DISTRIBUTION
from rewrites.selectors.exchanged_lookups import EXCHANGED_LOOKUPS
from rewrites.selectors.joins import JOINS
from rewrites.selectors.lookups import LOOKUPS
from rewrites.selectors.pads import PADS
from rewrites.selectors.refactoring import REFACTORING
from rewrites.selectors.reshapes import RESHAPES
from rewrites.selectors.views import VIEWS
from rewrites.selectors.window_cuts import WINDOW_CUTS
from rewrites.selectors.window_pads import WINDOW_PADS

SELECTORS: tuple[Rule, ...] = (
    *VIEWS,
    *CUTS,
    *DISTRIBUTION,
    *JOINS,
    *RESHAPES,
    *PADS,
    *LOOKUPS,
    *EXCHANGED_LOOKUPS,
    *WINDOW_CUTS,
    *WINDOW_PADS,
    *BROADCASTS,
    *REFACTORING,
)

__all__ = ["SELECTORS"]
