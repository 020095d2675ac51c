"""Fusion: one block does the work of several, and tensors less go through memory. One story per file."""

from rewrites.fusion.attention import ATTENTION_FUSION
from rewrites.fusion.bodies import BODIES
from rewrites.fusion.cells import CELL_FUSION
from rewrites.fusion.epilogues import EPILOGUES
from rewrites.fusion.normalisation import NORMALISATION_FUSION
from rewrites.fusion.updates import UPDATE_FUSION
from rewrites.rule import Rule

FUSION: tuple[Rule, ...] = (
    *CELL_FUSION,
    *ATTENTION_FUSION,
    *EPILOGUES,
    *NORMALISATION_FUSION,
    *UPDATE_FUSION,
    *BODIES,
)

__all__ = ["FUSION"]
