"""Tables of measured collectives: seconds by size, for one kind of exchange among so many devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import hypot, log

from tapestry.hardware.kernels import INHERITED_ERROR, UNKNOWN_ERROR

# How the library carries out a collective; `any`: as it chooses itself.
ALGORITHMS = ("any", "ring", "tree", "in_switch")
# Kinds that are measured -> those from which their times follow where they are not, the nearest first.
MEASURED_KINDS = {
    "all_reduce": ("all_reduce", "reduce_scatter", "all_gather", "send_recv"),
    "all_gather": ("all_gather", "reduce_scatter", "all_reduce", "send_recv"),
    "reduce_scatter": ("reduce_scatter", "all_gather", "all_reduce", "send_recv"),
    "broadcast": ("broadcast", "all_gather", "reduce_scatter", "all_reduce", "send_recv"),
    "all_to_all": ("all_to_all", "send_recv"),
    "send_recv": ("send_recv", "all_to_all"),
}


@dataclass(frozen=True)
class CollectiveTable:
    """Measured times of one kind of collective among `members` devices of an axis, by size.

    `inside` is the number of devices of faster axes that take part with each member (1: the axis alone). `bytes` are
    those of the whole tensor, which in `broadcast` one device holds; in `all_to_all` of what one device holds, in
    `send_recv` of the message. Both lists ascend. `error` is the standard deviation of the logarithm of measured over
    tabulated times.
    """

    kind: str
    members: int
    bytes: tuple[float, ...] = field(hash=False)
    seconds: tuple[float, ...] = field(hash=False)
    error: float
    source: str = field(hash=False)
    inside: int = 1
    algorithm: str = "any"


def nearest_table(
    tables: Iterable[CollectiveTable], kind: str, members: int, inside: int = 1
) -> CollectiveTable | None:
    """Return the table from which the times of a collective follow: of the nearest kind, then of the nearest group.

    Groups over a faster axis too, of `inside` devices, count where the axis alone is not measured. Of equally near ones
    the larger group counts.
    """
    known = [table for table in tables if table.inside == 1 or inside > 1]
    for near in MEASURED_KINDS[kind]:
        found = [table for table in known if table.kind == near]
        if found:
            return min(
                found,
                key=lambda t: (t.inside > 1, _distance(t, members, inside), -t.members, t.algorithm),
            )
    return None


def error_of(table: CollectiveTable | None, kind: str, members: int, inside: int = 1) -> float:
    """Return the error of times that follow from a table: its own, or wider for another kind or group.

    Without a table it is the widest.
    """
    if table is None:
        return UNKNOWN_ERROR
    is_same = (table.kind, table.members) == (kind, members) and table.inside in (1, inside)
    return table.error if is_same else hypot(table.error, INHERITED_ERROR)


def _distance(table: CollectiveTable, members: int, inside: int) -> float:
    beside = 0.0 if table.inside == 1 else abs(log(table.inside / inside))
    return round(abs(log(table.members / members)) + beside, 6)


def distinct(tables: Iterable[CollectiveTable]) -> tuple[CollectiveTable, ...]:
    """Return the tables without those of a collective that an earlier one is of."""
    found: dict[tuple[str, int, int, str], CollectiveTable] = {}
    for table in tables:
        found.setdefault((table.kind, table.members, table.inside, table.algorithm), table)
    return tuple(found.values())
