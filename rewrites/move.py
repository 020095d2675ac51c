"""Moves: the steps of a search as values that can be printed, stored and replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tapestry.teg.brief import shown

MEMBERS = ("rule", "place", "choice")
SEVERAL = "&"


@dataclass(frozen=True)
class Move:
    """A rule applied at a place, or at several tied places, with a choice.

    A place is the site of the block that the left side's root matches; of a rule with several roots, their
    sites joined by `&`. `choice` distinguishes the alternatives there: the rule's own text, then `@n` for the
    n-th way to match with it.
    """

    rule: str
    place: str | tuple[str, ...]
    choice: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """All places, one after the other."""
        return (self.place,) if isinstance(self.place, str) else self.place

    def single(self) -> Iterator[Move]:
        """Yield the moves at single places, one after the other."""
        return (Move(self.rule, place, self.choice) for place in self.places)

    def __repr__(self) -> str:
        return shown("Move", (str(self),))

    def __str__(self) -> str:
        first, *others = self.places
        where = f"{first} and {len(others)} more" if others else first
        return f"{self.rule} at {where}" + (f" [{self.choice}]" if self.choice else "")

    def to_json(self) -> dict[str, Any]:
        """Convert to `{"rule", "place", "choice"}`; several places are a list."""
        place = self.place if isinstance(self.place, str) else list(self.place)
        return {"rule": self.rule, "place": place, "choice": self.choice}

    @staticmethod
    def from_json(document: Any) -> Move:
        """Parse the move that `to_json` wrote.

        Raises:
            ValueError: a member is missing, unknown or of another kind.
        """
        if not isinstance(document, Mapping) or not {"rule", "place"} <= set(document) <= set(MEMBERS):
            raise ValueError(
                f"a move is an object with {', '.join(MEMBERS)} (choice optional), not {document!r}"
            )
        rule, place, choice = document["rule"], document["place"], document.get("choice", "")
        places = place if isinstance(place, list) else [place]
        if not places or not all(isinstance(text, str) for text in (rule, choice, *places)):
            raise ValueError(
                f"rule and choice are texts, place is a text or a list of texts, not {document!r}"
            )
        return Move(rule, tuple(place) if isinstance(place, list) else place, choice)


class StaleMove(ValueError):
    """Error raised when a move does not fit the program (any more): `move`, and the reason."""

    def __init__(self, move: Move, reason: str) -> None:
        super().__init__(f"{move}: {reason}")
        self.move = move
