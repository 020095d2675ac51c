"""Translators of operations by family: each file ends in one tuple of translators, concatenated here."""

from __future__ import annotations

from tapestry.teg.importers.stablehlo.families.collectives import MANUAL
from tapestry.teg.importers.stablehlo.families.composed import COMPOSED
from tapestry.teg.importers.stablehlo.families.control import CONTROL
from tapestry.teg.importers.stablehlo.families.elementwise import ELEMENTWISE
from tapestry.teg.importers.stablehlo.families.indexing import INDEXING
from tapestry.teg.importers.stablehlo.families.linear import LINEAR
from tapestry.teg.importers.stablehlo.families.matrices import MATRICES
from tapestry.teg.importers.stablehlo.families.movement import MOVEMENT
from tapestry.teg.importers.stablehlo.families.ordering import ORDERING
from tapestry.teg.importers.stablehlo.families.reductions import REDUCTIONS
from tapestry.teg.importers.stablehlo.families.signals import SIGNALS
from tapestry.teg.importers.stablehlo.families.windows import WINDOWS
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator, RegionTranslator

TRANSLATORS: tuple[HloTranslator | RegionTranslator, ...] = (
    *ELEMENTWISE,
    *MOVEMENT,
    *LINEAR,
    *MATRICES,
    *REDUCTIONS,
    *WINDOWS,
    *INDEXING,
    *ORDERING,
    *SIGNALS,
    *COMPOSED,
    *CONTROL,
    *MANUAL,
)
BY_OPERATION = {name: translator for translator in TRANSLATORS for name in translator.operations}
