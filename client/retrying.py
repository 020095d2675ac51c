"""Retries: which refusals pass, and the pauses before a request is sent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Too many wait, a gateway has no answer, the database does not answer.
PASSING = (429, 502, 503, 504)
# The same work would take as long again.
HOPELESS = ("too_slow",)


@dataclass(frozen=True)
class Retries:
    """The number of attempts at a request, and the pauses between them: `first_s`, doubled each time, up to `most_s`.

    The service's Retry-After is the least pause, up to `longest_wait_s`.
    """

    attempts: int = 6
    first_s: float = 0.5
    most_s: float = 8.0
    longest_wait_s: float = 60.0

    def pause_s(self, attempt: int, headers: Mapping[str, str] | None = None) -> float | None:
        """Return the pause before the next attempt, after `attempt` of them; None if there is none."""
        if attempt >= self.attempts:
            return None
        wait = (headers or {}).get("retry-after", "")
        least = min(float(wait), self.longest_wait_s) if wait.isdigit() else 0.0
        return max(least, min(self.first_s * 2.0 ** (attempt - 1), self.most_s))
