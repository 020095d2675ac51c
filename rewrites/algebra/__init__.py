"""Algebra: the same values by fewer or cheaper operations. One story per file, added up here."""

from rewrites.algebra.activations import ACTIVATIONS
from rewrites.algebra.association import ASSOCIATION
from rewrites.algebra.cancellation import CANCELLATION
from rewrites.algebra.canonical import CANONICAL
from rewrites.algebra.cleanup import CLEANUP
from rewrites.algebra.constants import CONSTANTS
from rewrites.algebra.convolutions import CONVOLUTIONS
from rewrites.algebra.distribution import DISTRIBUTION
from rewrites.algebra.expressions import EXPRESSIONS
from rewrites.algebra.factoring import FACTORING
from rewrites.algebra.factors import FACTORS
from rewrites.algebra.folding import FOLDING
from rewrites.algebra.merging import MERGING
from rewrites.algebra.monotone import MONOTONE
from rewrites.algebra.other_words import OTHER_WORDS
from rewrites.algebra.recomposition import RECOMPOSITION
from rewrites.algebra.reductions import REDUCTIONS
from rewrites.algebra.renamed import RENAMED
from rewrites.algebra.scales import SCALES
from rewrites.rule import Rule

ALGEBRA: tuple[Rule, ...] = (
    *CLEANUP,
    *CONSTANTS,
    *RENAMED,
    *CANCELLATION,
    *EXPRESSIONS,
    *ACTIVATIONS,
    *OTHER_WORDS,
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

__all__ = ["ALGEBRA"]
