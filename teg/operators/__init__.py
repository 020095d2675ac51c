"""The catalog of operators: one tuple per family, combined here; third parties add theirs by entry points."""

from __future__ import annotations

from functools import cache

from tapestry.teg.faults import no_such
from tapestry.teg.graph import Definition
from tapestry.teg.operators.boundary import BOUNDARY
from tapestry.teg.operators.cells import CELLS
from tapestry.teg.operators.collecting import COLLECTING
from tapestry.teg.operators.contraction import CONTRACTION
from tapestry.teg.operators.external import EXTERNALS
from tapestry.teg.operators.factorizations import FACTORIZATIONS
from tapestry.teg.operators.fused_body import FUSED, FusedBody, read_body
from tapestry.teg.operators.fusing import fused_operator
from tapestry.teg.operators.gathering import GATHERING
from tapestry.teg.operators.joining import JOINING
from tapestry.teg.operators.matrices import MATRICES
from tapestry.teg.operators.normalization import NORMALIZATION
from tapestry.teg.operators.onnx_fallback import FOREIGN
from tapestry.teg.operators.operator import Operator
from tapestry.teg.operators.ordering import ORDERING
from tapestry.teg.operators.padding import PADDING
from tapestry.teg.operators.plugin_checks import OPERATOR_GROUP
from tapestry.teg.operators.reduction import REDUCTION
from tapestry.teg.operators.reshaping import RESHAPING
from tapestry.teg.operators.scanning import SCANNING
from tapestry.teg.operators.scattering import SCATTERING
from tapestry.teg.operators.selectors import VIEWS
from tapestry.teg.operators.spectral import SPECTRAL
from tapestry.teg.operators.waypoints import WAYPOINTS
from tapestry.teg.operators.windows import WINDOWS
from tapestry.teg.plugins import Loaded, load, once

SIMPLE: tuple[Operator, ...] = (
    *BOUNDARY,
    *VIEWS,
    *JOINING,
    *COLLECTING,
    *WAYPOINTS,
    *PADDING,
    *RESHAPING,
    *CELLS,
    *REDUCTION,
    *NORMALIZATION,
    *CONTRACTION,
    *WINDOWS,
    *GATHERING,
    *SCATTERING,
    *SCANNING,
    *SPECTRAL,
    *MATRICES,
    *FACTORIZATIONS,
    *ORDERING,
    *EXTERNALS,
    *FOREIGN,
)

OPERATORS: tuple[Operator, ...] = (*SIMPLE, fused_operator({o.name: o for o in SIMPLE}))


@once
def plug_ins() -> Loaded[Operator]:
    """Load the operators of installed plug-ins (entry point group `tapestry.operators`), and note what was left out."""
    return load(OPERATOR_GROUP, {o.name for o in OPERATORS})


@cache
def catalog() -> dict[str, Operator]:
    """Return all operators by name, including those of installed plug-ins; one that is left out is not in it."""
    known = {o.name: o for o in SIMPLE} | dict(plug_ins().members)
    return known | {FUSED: fused_operator(known)}  # the steps of fused blocks may be those of plug-ins


def body_of(definition: Definition) -> FusedBody:
    """Read the body of a fused block.

    Raises:
        ValueError: the definition is of another operator, or its body is malformed.
    """
    if definition.operator != FUSED:
        raise ValueError(f"only a fused block has a body, not {definition.operator!r}")
    return read_body(definition.attributes, catalog())


def operator_named(name: str) -> Operator:
    """Return the operator called `name`.

    Raises:
        ValueError: there is none; near names are listed.
    """
    known = catalog()
    if name not in known:
        raise ValueError(no_such("operator", name, sorted(known), hint=plug_ins().left_out(name)))
    return known[name]
