"""Costs supplied with a program: for any number of named resources a fixed amount and one per index step.

A table prices any part of a block's index space: `fixed + sum over dimensions of step * size` (the whitepaper's
marginal cost table). The resources `flops` and `bytes` replace the operator's own figures, and `seconds` the time that
follows from them; all others are summed up and shown. A block without signature has fixed amounts only, for all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tapestry.teg.brief import listed, shown
from tapestry.teg.intern import InternedValue
from tapestry.teg.printable import is_printable

Amount = int | float
SECONDS = "seconds"


class ResourceCost(NamedTuple):
    """The cost of one resource: the amount per execution, and per step along index dimensions by name."""

    resource: str
    fixed: Amount
    steps: tuple[tuple[str, Amount], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class CostTable(InternedValue):
    """Costs by resource, sorted by name.

    Raises:
        ValueError: a resource without name or twice, or an amount that is negative or not finite.
    """

    resources: tuple[ResourceCost, ...]

    def __post_init__(self) -> None:
        names = [r.resource for r in self.resources]
        if names != sorted(set(names)) or not all(n and is_printable(n) for n in names):
            raise ValueError(f"resources have different printable names, in order; not {names}")
        for r in self.resources:
            dims = [name for name, _ in r.steps]
            if dims != sorted(set(dims)):
                raise ValueError(f"steps of {r.resource!r} name different dimensions, in order; not {dims}")
            for amount in (r.fixed, *(step for _, step in r.steps)):
                if isinstance(amount, bool) or not math.isfinite(amount) or amount < 0:
                    raise ValueError(
                        f"resource {r.resource!r} costs {amount!r}; amounts are finite, from 0 up"
                    )

    def __repr__(self) -> str:
        return shown("CostTable", (listed([r.resource for r in self.resources], 6),))

    @property
    def dims(self) -> frozenset[str]:
        """The index dimensions that the table names."""
        return frozenset(name for r in self.resources for name, _ in r.steps)

    def price(self, sizes: Mapping[str, int]) -> dict[str, Amount]:
        """Compute the cost of a part of an index space, by resource; `sizes` are its extents along each dimension.

        A part without points costs nothing. Raises KeyError for a dimension that `sizes` lacks.
        """
        if any(n == 0 for n in sizes.values()):
            return {r.resource: 0 for r in self.resources}
        return {r.resource: r.fixed + sum(step * sizes[d] for d, step in r.steps) for r in self.resources}

    def named(self, resource: str) -> ResourceCost | None:
        """Return the costs of one resource; None if the table lacks it."""
        return next((r for r in self.resources if r.resource == resource), None)


def amounts(cost: ResourceCost, names: Sequence[str], sizes: np.ndarray) -> np.ndarray:
    """Compute one resource for many parts, rounded up: `sizes` `(..., dims)` along the dimensions `names`, result
    `(...)`.

    Parts without points cost nothing.
    """
    return np.asarray(np.ceil(_exact_amounts(cost, names, sizes)), dtype=np.int64)


def states_seconds(table: CostTable | None) -> bool:
    """Return whether a block's table states its time."""
    return table is not None and table.named(SECONDS) is not None


def supplied_seconds(table: CostTable | None, names: Sequence[str], sizes: np.ndarray) -> np.ndarray | None:
    """Compute the seconds that a table states for parts, as `amounts` but not rounded; None if it states none."""
    cost = None if table is None else table.named(SECONDS)
    return None if cost is None else _exact_amounts(cost, names, sizes)


def _exact_amounts(cost: ResourceCost, names: Sequence[str], sizes: np.ndarray) -> np.ndarray:
    result = np.full(sizes.shape[:-1], cost.fixed)
    for dim, step in cost.steps:
        result = result + sizes[..., names.index(dim)] * step
    return np.asarray(np.where((sizes == 0).any(axis=-1), 0, result))


def cost_table(
    fixed: Mapping[str, Amount] | None = None, steps: Mapping[str, Mapping[str, Amount]] | None = None
) -> CostTable:
    """Build a table from fixed amounts by resource and steps by index dimension and resource."""
    by_resource: dict[str, dict[str, Amount]] = {name: {} for name in fixed or {}}
    for dim, amounts in (steps or {}).items():
        for resource, step in amounts.items():
            by_resource.setdefault(resource, {})[dim] = step
    return CostTable(
        tuple(
            ResourceCost(name, (fixed or {}).get(name, 0), tuple(sorted(dims.items())))
            for name, dims in sorted(by_resource.items())
        )
    )


def total(amounts: Iterable[Mapping[str, Amount]]) -> dict[str, Amount]:
    """Sum amounts by resource."""
    sums: dict[str, Amount] = {}
    for each in amounts:
        for resource, amount in each.items():
            sums[resource] = sums.get(resource, 0) + amount
    return dict(sorted(sums.items()))
