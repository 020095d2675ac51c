"""Resources that a program prices itself: whatever its tables of marginal costs name, such as `gpu` or `ram`.

Every part of a block that a device works on is priced from the block's table. Summed over all parts that gives the
resource of a plan, `gpu`; the largest sum of one device is its peak, `peak_gpu`. Both are objectives of the program.

Amounts may be fractions. They are counted as integers, in units of `1 / scale`: the power of ten, up to a millionth,
in which all amounts of the program's tables for that resource are whole; finer ones are rounded up to a millionth
in the table. Views do no work and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from tapestry.teg.costs import SECONDS, Amount, ResourceCost, total
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.strategy import index_boxes

# Resources that replace an operator's own figures: counted as such, not summed beside them.
FIGURES = ("flops", "bytes", SECONDS)
PEAK = "peak_"
FINEST_SCALE = 10**6
LARGEST = 2**62  # as in hardware.timing


class Resource(NamedTuple):
    """A resource of a program, counted in units of `1 / scale`."""

    name: str
    scale: int = 1

    @property
    def columns(self) -> tuple[str, str]:
        """The names of its two columns among a plan's costs: the sum over devices, the largest of one."""
        return f"sum of {self.name}", f"peak of {self.name}"


class ResourceError(ValueError):
    """Error raised for a resource that cannot be counted under its name; the message says which block prices it."""


def resources_of(graph: Graph) -> tuple[Resource, ...]:
    """Return the resources that a program prices, sorted by name, with the scales in which they are counted."""
    amounts: dict[str, list[Amount]] = {}
    for definition in {b.definition for b in graph.blocks if b.definition.costs is not None}:
        for cost in _resources(definition):
            amounts.setdefault(cost.resource, []).extend((cost.fixed, *(step for _, step in cost.steps)))
    return tuple(Resource(name, _scale(found)) for name, found in sorted(amounts.items()))


def check_names(graph: Graph, reserved: Mapping[str, str]) -> None:
    """Check that no resource has, nor its peak, a name that means something else: `reserved` holds names and meanings.

    Raises:
        ResourceError: the first such name, with the block whose table has it.
    """
    places = _priced_at(graph)
    for name, site in sorted(places.items()):
        for taken in (name, PEAK + name):
            if taken in reserved or (taken != name and taken in places):
                meaning = reserved.get(taken, f"a resource itself, of block {places.get(taken)!r}")
                peak = "" if taken == name else f", whose peak over devices would be {taken!r}"
                raise ResourceError(
                    f"block {site!r}: its cost table names a resource {name!r}{peak}: {taken!r} is {meaning}; "
                    f"call the resource something else, such as 'own_{name}'"
                )


def _resources(definition: Definition) -> tuple[ResourceCost, ...]:
    table = definition.costs.resources if definition.costs is not None else ()
    return tuple(cost for cost in table if cost.resource not in FIGURES)


def _priced_at(graph: Graph) -> dict[str, str]:
    """Return by resource the site of the first block that prices it."""
    found: dict[str, str] = {}
    for block in graph.blocks:
        for cost in _resources(block.definition):
            found.setdefault(cost.resource, block.site)
    return found


def _scale(amounts: Sequence[Amount]) -> int:
    """Return the smallest power of ten, up to a million, that makes all amounts whole as they are written."""
    scale = 1
    while scale < FINEST_SCALE and any((_exact(a) * scale).denominator != 1 for a in amounts):
        scale *= 10
    return scale


def _exact(amount: Amount) -> Fraction:
    """Return an amount as its decimal notation says: 0.1 is a tenth."""
    return Fraction(repr(amount))


def whole_amount(amount: Amount, scale: int) -> int:
    """Convert an amount to units of `1 / scale`, rounded up."""
    return ceil(_exact(amount) * scale)


def counted(definition: Definition, resource: Resource, sizes: np.ndarray) -> np.ndarray:
    """Compute one resource for parts of `sizes` `(..., dims)` of a block's index space, in units of `1 / scale`.

    Parts without points cost nothing.

    Raises:
        ResourceError: the amount of a part is too large to be counted.
    """
    cost = definition.costs.named(resource.name) if definition.costs is not None else None
    result = np.zeros(sizes.shape[:-1], dtype=np.int64)
    if cost is None:
        return result
    dims = definition.signature.dims if definition.signature is not None else ()
    names, steps = [d.name for d in dims], {n: whole_amount(s, resource.scale) for n, s in cost.steps}
    fixed = whole_amount(cost.fixed, resource.scale)
    if fixed + sum(step * dims[names.index(n)].size for n, step in steps.items()) > LARGEST:
        raise too_much(resource)
    result += fixed
    for name, step in steps.items():
        result += sizes[..., names.index(name)] * step
    return np.where((sizes == 0).any(axis=-1), 0, result)


def too_much(resource: Resource) -> ResourceError:
    """Build the error for amounts that are too large to be counted."""
    return ResourceError(
        f"the cost tables' amounts of {resource.name!r} add up to more than {LARGEST / resource.scale:.3g}; "
        "state them in a larger unit"
    )


def declared_resources(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> dict[str, Amount]:
    """Compute the amounts by resource over all devices, replicas included; empty where the program prices nothing."""
    return total(_priced(graph, placements, mesh_shape.part(placements.devices)))


def _priced(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> Iterator[Mapping[str, Amount]]:
    placements = with_boundary(graph, placements)
    for block in graph.blocks:
        table = block.definition.costs
        if table is None or block.operator == "view":
            continue
        dims = [d.name for d in block.signature.dims] if block.signature is not None else []
        index = index_boxes(block.signature, placements.of(block).strategy, mesh_shape)
        for sizes in (index[..., 1] - index[..., 0]).tolist():
            yield table.price(dict(zip(dims, sizes, strict=True)))
