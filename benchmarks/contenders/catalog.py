"""The contenders by name and group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.contenders.ours import ABLATIONS, ALONE, IN_TIME, WHOLE, Ours
from benchmarks.contenders.peers import PEERS, OtherOptimizer

Contender = Ours | OtherOptimizer

GROUPS: Mapping[str, tuple[Contender, ...]] = {
    "ours": (WHOLE, IN_TIME),
    "alone": ALONE,
    "peers": PEERS,
    "ablations": ABLATIONS,
}
CONTENDERS: Mapping[str, Contender] = {c.name: c for members in GROUPS.values() for c in members}


def named(names: Sequence[str]) -> list[Contender]:
    """Return the contenders of names and groups, each once.

    Raises:
        KeyError: neither a contender nor a group is called so.
    """
    members = [c for name in names for c in (GROUPS[name] if name in GROUPS else (CONTENDERS[name],))]
    return list({contender.name: contender for contender in members}.values())
