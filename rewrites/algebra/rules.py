"""All algebraic rules: the tuples of this package's files, added up."""

from tapestry.rewrites.algebra.activations import ACTIVATIONS
from tapestry.rewrites.algebra.alpha_equivalence import RENAMED
from tapestry.rewrites.algebra.association import ASSOCIATION
from tapestry.rewrites.algebra.cancellation import CANCELLATION
from tapestry.rewrites.algebra.canonical import CANONICAL
from tapestry.rewrites.algebra.cleanup import CLEANUP
from tapestry.rewrites.algebra.constants import CONSTANTS
from tapestry.rewrites.algebra.convolutions import CONVOLUTIONS
from tapestry.rewrites.algebra.distribution import DISTRIBUTION
from tapestry.rewrites.algebra.equivalent_functions import EQUIVALENT_FUNCTIONS
from tapestry.rewrites.algebra.expressions import EXPRESSIONS
from tapestry.rewrites.algebra.factoring import FACTORING
from tapestry.rewrites.algebra.factors import FACTORS
from tapestry.rewrites.algebra.folding import FOLDING
from tapestry.rewrites.algebra.merging import MERGING
from tapestry.rewrites.algebra.monotone import MONOTONE
from tapestry.rewrites.algebra.recomposition import RECOMPOSITION
from tapestry.rewrites.algebra.reductions import REDUCTIONS
from tapestry.rewrites.algebra.scales import SCALES
from tapestry.rewrites.rule import Rule

ALGEBRA: tuple[Rule, ...] = (
    *CLEANUP,
    *CONSTANTS,
    *RENAMED,
    *CANCELLATION,
    *EXPRESSIONS,
    *ACTIVATIONS,
    *EQUIVALENT_FUNCTIONS,
    *CANONICAL,
    *REDUCTIONS,
    *MONOTONE,
    *MERGING,
    *FACTORING,
    *DISTRIBUTION,
    *ASSOCIATION,
    *CONVOLUTIONS,
    *SCALES,
    *FOLDING,
    *FACTORS,
    *RECOMPOSITION,
)
