"""The families of torch operators, added up."""

from __future__ import annotations

from teg.importers.torch.families.activations import ACTIVATIONS
from teg.importers.torch.families.attention import ATTENTION
from teg.importers.torch.families.bags import BAGS
from teg.importers.torch.families.batch_normalisation import BATCH_NORMALISATION
from teg.importers.torch.families.borders import BORDERS
from teg.importers.torch.families.columns import COLUMNS
from teg.importers.torch.families.convolution import CONVOLUTION
from teg.importers.torch.families.creation import CREATION
from teg.importers.torch.families.distances import DISTANCES
from teg.importers.torch.families.dynamic import DYNAMIC
from teg.importers.torch.families.elementwise import ELEMENTWISE
from teg.importers.torch.families.factorisations import FACTORISATIONS
from teg.importers.torch.families.indexing import INDEXING
from teg.importers.torch.families.linear import LINEAR
from teg.importers.torch.families.losses import LOSSES
from teg.importers.torch.families.matrices import MATRICES
from teg.importers.torch.families.movement import MOVEMENT
from teg.importers.torch.families.normalisation import NORMALISATION
from teg.importers.torch.families.ordering import ORDERING
from teg.importers.torch.families.placing import PLACING
from teg.importers.torch.families.pooling import POOLING
from teg.importers.torch.families.randomness import RANDOMNESS
from teg.importers.torch.families.recurrent import RECURRENT
from teg.importers.torch.families.reductions import REDUCTIONS
from teg.importers.torch.families.resampling import RESAMPLING
from teg.importers.torch.families.sampling import SAMPLING
from teg.importers.torch.families.scattering import SCATTERING
from teg.importers.torch.families.spectral import SPECTRAL
from teg.importers.torch.families.strided import STRIDED
from teg.importers.torch.operator import TorchOperator

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
    *NORMALISATION,
    *BATCH_NORMALISATION,
    *CONVOLUTION,
    *POOLING,
    *INDEXING,
    *SCATTERING,
    *ORDERING,
    *MATRICES,
    *FACTORISATIONS,
    *SPECTRAL,
    *BAGS,
    *RESAMPLING,
    *SAMPLING,
    *ATTENTION,
    *LOSSES,
    *RANDOMNESS,
    *RECURRENT,
)
