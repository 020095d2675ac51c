"""Matching of messages: which of them belong together, and whether every rank gets past its waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapestry.teg.importers.failure import ImportFailure

Event = Mapping[str, Any]
# How many faults an error shows.
SHOWN = 3


@dataclass
class Rendezvous:
    """A message from one rank to another, or a collective; `ends` are those who have come, with their events."""

    kind: str
    expected: tuple[Any, ...]
    number: int
    ends: dict[Any, tuple[int, Event]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """True if nobody is missing."""
        return len(self.ends) == len(self.expected)

    @property
    def missing(self) -> str:
        """The ranks that have not come, and what they would do there."""
        if self.kind == "message":
            (rank, event) = next(iter(self.ends.values()))
            if event["event"] == "send":
                return f"rank {rank} sends to rank {event['peer']}, which does not receive it"
            return f"rank {rank} receives from rank {event['peer']}, which does not send it"
        absent = ", ".join(str(rank) for rank in self.expected if rank not in self.ends)
        present = ", ".join(map(str, self.ends))
        return f"rank {present} takes part in {self.kind} number {self.number}, rank {absent} does not"


Matches = dict[tuple[int, int], Rendezvous]


def match(events: Sequence[Sequence[Event]]) -> Matches:
    """Return the rendezvous of each message, by rank and number.

    Messages between two ranks with one tag arrive in the order in which they are sent; collectives of a group are in
    one order on all its ranks. A wait ends when all have come.

    Raises:
        ImportFailure: somebody waits forever, or never comes.
    """
    found: Matches = {}
    known: dict[tuple[Any, ...], Rendezvous] = {}
    came: Counter[tuple[Any, ...]] = Counter()
    at = [0] * len(events)
    moved = True
    while moved:
        moved = False
        for rank, own in enumerate(events):
            while at[rank] < len(own):
                event = own[at[rank]]
                if event["event"] != "wait":
                    found[rank, event["message"]] = _come(rank, event, known, came)
                elif not found[rank, event["message"]].complete:
                    break
                at[rank] += 1
                moved = True
    faults = [
        f"rank {rank} waits forever: {found[rank, own[at[rank]]['message']].missing}"
        for rank, own in enumerate(events)
        if at[rank] < len(own)
    ] or [m.missing for m in known.values() if not m.complete]
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise ImportFailure(f"the ranks do not meet: {'; '.join(faults[:SHOWN])}{more}")
    return found


def _come(
    rank: int, event: Event, known: dict[tuple[Any, ...], Rendezvous], came: Counter[tuple[Any, ...]]
) -> Rendezvous:
    """Let a rank take part in its next rendezvous of this kind."""
    kind, group = event["event"], tuple(event["group"])
    if kind in ("send", "receive"):
        ends = (rank, event["peer"]) if kind == "send" else (event["peer"], rank)
        place: tuple[Any, ...] = ("message", group, event["tag"], *ends)
        end: Any = kind
        expected: tuple[Any, ...] = ("send", "receive")
    else:
        place, end, expected = ("collective", group), rank, group
    number = came[*place, end]
    came[*place, end] += 1
    label = "message" if place[0] == "message" else kind
    rendezvous = known.setdefault((*place, number), Rendezvous(label, expected, number))
    if rendezvous.kind != label or any(_facts(e) != _facts(event) for _, e in rendezvous.ends.values()):
        (other, first) = next(iter(rendezvous.ends.values()))
        raise ImportFailure(
            f"the ranks do not meet: rank {other} calls {_called(first)} where rank {rank} calls {_called(event)}"
        )
    rendezvous.ends[end] = rank, event
    return rendezvous


def _facts(event: Event) -> tuple[Any, ...]:
    """Return what all members of a collective must state alike."""
    return event.get("op"), event.get("root")


def _called(event: Event) -> str:
    return " ".join(str(x) for x in (event["event"], *_facts(event)) if x is not None)
