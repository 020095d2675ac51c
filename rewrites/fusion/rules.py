"""All fusion rules: the tuples of this package's files, added up."""

from tapestry.rewrites.fusion.attention import ATTENTION_FUSION
from tapestry.rewrites.fusion.bodies import BODIES
from tapestry.rewrites.fusion.cells import CELL_FUSION
from tapestry.rewrites.fusion.epilogues import EPILOGUES
from tapestry.rewrites.fusion.normalization import NORMALIZATION_FUSION
from tapestry.rewrites.fusion.updates import UPDATE_FUSION
from tapestry.rewrites.rule import Rule

FUSION: tuple[Rule, ...] = (
    *CELL_FUSION,
    *ATTENTION_FUSION,
    *EPILOGUES,
    *NORMALIZATION_FUSION,
    *UPDATE_FUSION,
    *BODIES,
)
