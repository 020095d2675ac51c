"""Selectors: what moves elements and computes nothing. One story per file, added up here."""

from rewrites.rule import Rule
from rewrites.selectors.views import VIEWS

SELECTORS: tuple[Rule, ...] = (*VIEWS,)

__all__ = ["SELECTORS"]
