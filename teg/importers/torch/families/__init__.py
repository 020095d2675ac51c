"""The torch operators of all families, concatenated."""

from __future__ import annotations

from tapestry.teg.importers.torch.families.activations import ACTIVATIONS
from tapestry.teg.importers.torch.families.attention import ATTENTION
from tapestry.teg.importers.torch.families.batch_normalization import BATCH_NORMALIZATION
from tapestry.teg.importers.torch.families.convolution import CONVOLUTION
from tapestry.teg.importers.torch.families.creation import CREATION
from tapestry.teg.importers.torch.families.distances import DISTANCES
from tapestry.teg.importers.torch.families.dynamic import DYNAMIC
from tapestry.teg.importers.torch.families.elementwise import ELEMENTWISE
from tapestry.teg.importers.torch.families.embedding_bag import BAGS
from tapestry.teg.importers.torch.families.factorizations import FACTORIZATIONS
from tapestry.teg.importers.torch.families.im2col import COLUMNS
from tapestry.teg.importers.torch.families.indexing import INDEXING
from tapestry.teg.importers.torch.families.linear import LINEAR
from tapestry.teg.importers.torch.families.losses import LOSSES
from tapestry.teg.importers.torch.families.matrices import MATRICES
from tapestry.teg.importers.torch.families.movement import MOVEMENT
from tapestry.teg.importers.torch.families.normalization import NORMALIZATION
from tapestry.teg.importers.torch.families.ordering import ORDERING
from tapestry.teg.importers.torch.families.padding import BORDERS
from tapestry.teg.importers.torch.families.pooling import POOLING
from tapestry.teg.importers.torch.families.randomness import RANDOMNESS
from tapestry.teg.importers.torch.families.recurrent import RECURRENT
from tapestry.teg.importers.torch.families.reductions import REDUCTIONS
from tapestry.teg.importers.torch.families.resampling import RESAMPLING
from tapestry.teg.importers.torch.families.sampling import SAMPLING
from tapestry.teg.importers.torch.families.scattering import SCATTERING
from tapestry.teg.importers.torch.families.slice_scatter import PLACING
from tapestry.teg.importers.torch.families.spectral import SPECTRAL
from tapestry.teg.importers.torch.families.strided import STRIDED
from tapestry.teg.importers.torch.operator import TorchOperator

OPERATORS: tuple[TorchOperator, ...] = (
    *ELEMENTWISE,
    *ACTIVATIONS,
    *CREATION,
    *MOVEMENT,
    *DYNAMIC,
    *DISTANCES,
    *COLUMNS,
    *BORDERS,
    *PLACING,
    *STRIDED,
    *LINEAR,
    *REDUCTIONS,
    *NORMALIZATION,
    *BATCH_NORMALIZATION,
    *CONVOLUTION,
    *POOLING,
    *INDEXING,
    *SCATTERING,
    *ORDERING,
    *MATRICES,
    *FACTORIZATIONS,
    *SPECTRAL,
    *BAGS,
    *RESAMPLING,
    *SAMPLING,
    *ATTENTION,
    *LOSSES,
    *RANDOMNESS,
    *RECURRENT,
)
