"""Adapters for each kind of case, which convert the arguments, call the product, and convert the answer.

An adapter gets a case's input and the request: the keys of the expectation, with the coordinates that some
kinds keep there. It computes nothing itself.
"""

from tests.vectors.adapters_cute import CUTE
from tests.vectors.adapters_selectors import SELECTORS
from tests.vectors.adapters_teg import TEG
from tests.vectors.adapters_tt_metal import TT_METAL
from tests.vectors.adapters_ttnn import TTNN
from tests.vectors.adapters_ttnn_nd import TTNN_ND
from tests.vectors.adapters_xla import XLA
from tests.vectors.adapters_zspace import ZSPACE
from tests.vectors.runner import Adapter

ADAPTERS: dict[str, Adapter] = {**ZSPACE, **TEG, **SELECTORS, **TTNN, **TTNN_ND, **TT_METAL, **CUTE, **XLA}
