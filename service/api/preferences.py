"""Preferences of a request (RFC 7240): whether its sender waits for the result of work that takes long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Header

RESPOND_ASYNC, WAIT = "respond-async", "wait"
MOST_DIGITS = 9

Prefer = Annotated[
    list[str] | None,
    Header(
        alias="Prefer",
        description="`respond-async`: answer at once and do it as a job; `wait=SECONDS`: do it as a job where it "
        "takes longer, or longer than is ever waited for: the usual 5 s (RFC 7240)",
    ),
]


@dataclass(frozen=True)
class Preferences:
    """The preferences of a request that are known here: to be answered at once, and how long its sender waits."""

    responds_async: bool = False
    wait_s: float | None = None

    def applied(self, longest_wait_s: float) -> dict[str, str]:
        """Return the header that names the preferences which an answer follows: not a wait that is longer."""
        names = [RESPOND_ASYNC] if self.responds_async else []
        if self.wait_s is not None and self.wait_s <= longest_wait_s:
            names.append(f"{WAIT}={self.wait_s:.0f}")
        return {"Preference-Applied": ", ".join(names)} if names else {}


def preferences_of(headers: list[str] | None) -> Preferences:
    """Read the preferences of a request; those that are unknown or damaged are left out, as RFC 7240 says."""
    found: dict[str, str] = {}
    for part in (part for header in headers or () for part in header.split(",")):
        name, _, value = part.partition(";")[0].partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    wait = found.get(WAIT, "")
    is_number = wait.isascii() and wait.isdigit() and len(wait) <= MOST_DIGITS
    return Preferences(RESPOND_ASYNC in found, float(wait) if is_number else None)
