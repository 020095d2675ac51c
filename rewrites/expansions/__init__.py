"""Expansions: what an operator means, in terms of simpler ones. One story per file, added up here."""

from rewrites.expansions.cells import CELL_EXPANSIONS
from rewrites.expansions.contraction import CONTRACTION
from rewrites.expansions.convolution import CONVOLUTION
from rewrites.expansions.gathering import GATHERS
from rewrites.expansions.normalisation import NORMALISATIONS
from rewrites.expansions.pooling import POOLING
from rewrites.expansions.reduction import STEPS
from rewrites.expansions.scanning import SCANS
from rewrites.expansions.softmax import SOFTMAXES
from rewrites.expansions.striding import STRIDING
from rewrites.rule import Rule

EXPANSIONS: tuple[Rule, ...] = (
    *SOFTMAXES,
    *NORMALISATIONS,
    *CONTRACTION,
    *STEPS,
    *POOLING,
    *CONVOLUTION,
    *STRIDING,
    *SCANS,
    *GATHERS,
    *CELL_EXPANSIONS,
)

__all__ = ["EXPANSIONS"]
