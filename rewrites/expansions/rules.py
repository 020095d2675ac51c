"""All expansions: the tuples of this package's files, added up."""

from tapestry.rewrites.expansions.cells import CELL_EXPANSIONS
from tapestry.rewrites.expansions.contraction import CONTRACTION
from tapestry.rewrites.expansions.convolution import CONVOLUTION
from tapestry.rewrites.expansions.gathering import GATHERS
from tapestry.rewrites.expansions.normalization import NORMALIZATIONS
from tapestry.rewrites.expansions.pooling import POOLING
from tapestry.rewrites.expansions.reduction import STEPS
from tapestry.rewrites.expansions.scanning import SCANS
from tapestry.rewrites.expansions.softmax import SOFTMAXES
from tapestry.rewrites.expansions.striding import STRIDING
from tapestry.rewrites.rule import Rule

EXPANSIONS: tuple[Rule, ...] = (
    *SOFTMAXES,
    *NORMALIZATIONS,
    *CONTRACTION,
    *STEPS,
    *POOLING,
    *CONVOLUTION,
    *STRIDING,
    *SCANS,
    *GATHERS,
    *CELL_EXPANSIONS,
)
