"""Algebra: the same values by fewer or cheaper operations. One story per file, added up here."""

from rewrites.algebra.activations import ACTIVATIONS
from rewrites.algebra.cancellation import CANCELLATION
from rewrites.algebra.canonical import CANONICAL
from rewrites.algebra.cleanup import CLEANUP
from rewrites.algebra.contractions import CONTRACTIONS
from rewrites.algebra.expressions import EXPRESSIONS
from rewrites.algebra.factors import FACTORS
from rewrites.algebra.folding import FOLDING
from rewrites.algebra.recomposition import RECOMPOSITION
from rewrites.algebra.reductions import REDUCTIONS
from rewrites.algebra.renamed import RENAMED
from rewrites.rule import Rule

ALGEBRA: tuple[Rule, ...] = (
    *CLEANUP,
    *RENAMED,
    *CANCELLATION,
    *EXPRESSIONS,
    *ACTIVATIONS,
    *CANONICAL,
    *REDUCTIONS,
    *CONTRACTIONS,
    *FOLDING,
    *FACTORS,
    *RECOMPOSITION,
)

__all__ = ["ALGEBRA"]
