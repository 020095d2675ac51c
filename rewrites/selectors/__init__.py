"""Selectors: what moves elements and computes nothing. One story per file, added up here."""

from rewrites.rule import Rule
from rewrites.selectors.cuts import CUTS
from rewrites.selectors.views import VIEWS

SELECTORS: tuple[Rule, ...] = (*VIEWS, *CUTS)

__all__ = ["SELECTORS"]
