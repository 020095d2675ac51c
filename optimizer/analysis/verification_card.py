"""The card of a verification in notebooks: what was proven, counted and executed, as chips and in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from tapestry.teg.brief import brief
from tapestry.teg.html_card import Html, card, chip, paragraph, table
from tapestry.teg.readable_html import quantity

MOST_ERRORS = 12


class Count(Protocol):
    """A prediction beside what the simulator counted."""

    @property
    def predicted(self) -> int: ...
    @property
    def counted(self) -> int: ...
    @property
    def ok(self) -> bool: ...


class VerificationView(Protocol):
    """A verification as its card shows it."""

    @property
    def ok(self) -> bool: ...
    @property
    def issues(self) -> Sequence[str]: ...
    @property
    def memory(self) -> Count: ...
    @property
    def traffic(self) -> Count: ...
    @property
    def executed(self) -> bool: ...
    @property
    def max_error(self) -> Mapping[str, float]: ...
    @property
    def failures(self) -> Sequence[str]: ...


def verification_card(found: VerificationView, tolerance: float) -> str:
    """Return the card of a verification as HTML; errors of values up to `tolerance` pass."""
    counts = (("peak memory", found.memory), ("traffic", found.traffic))
    rows = [
        (name, quantity(each.predicted, "B"), quantity(each.counted, "B"), "equal" if each.ok else "differs")
        for name, each in counts
    ]
    worst = sorted(found.max_error.items(), key=lambda pair: -pair[1])[:MOST_ERRORS]
    errors = [
        (brief(site), f"{error:.3g}", "passes" if error <= tolerance else "differs") for site, error in worst
    ]
    values = (
        table("Largest errors of values, relative", ("output", "error", ""), errors, (1,))
        if errors
        else Html("")
    )
    return card(
        "Verification",
        "all checks passed" if found.ok else "a check failed",
        (
            *map(paragraph, found.failures),
            table("Predicted and counted", ("", "predicted", "counted", ""), rows, (1, 2)),
            values,
        ),
        _chips(found, tolerance),
    )


def _chips(found: VerificationView, tolerance: float) -> Iterator[Html]:
    """Yield what was checked, in the words of the dashboard."""
    proof = "the sharding is proven to compute the same program"
    yield chip("proven", not found.issues, "; ".join(found.issues) or proof)
    counted = "the simulator counted the memory and traffic that were predicted, to the byte"
    is_counted = found.memory.ok and found.traffic.ok
    yield chip("counted", is_counted, counted if is_counted else "the simulator counted other bytes")
    if found.executed:
        is_equal = all(error <= tolerance for error in found.max_error.values())
        equal = "run with numbers, its outputs equal those of the unsharded program"
        yield chip(
            "executed" if is_equal else "other values", is_equal, equal if is_equal else "its outputs differ"
        )
