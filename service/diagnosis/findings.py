"""Findings of checks: whether all is well, and what to do if it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """The result of one check; `hint` says what to do, and is empty where all is well.

    `warn` is for what works now but is likely to cause trouble, `fail` for what keeps a service from working.
    """

    check: str
    verdict: Verdict
    message: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {"check": self.check, "verdict": self.verdict, "message": self.message, "hint": self.hint}


def fine(check: str, message: str) -> Finding:
    """Build the finding that all is well."""
    return Finding(check, "ok", message)


def doubtful(check: str, message: str, hint: str) -> Finding:
    """Build the finding that something is likely to cause trouble."""
    return Finding(check, "warn", message, hint)


def broken(check: str, message: str, hint: str) -> Finding:
    """Build the finding that something keeps a service from working."""
    return Finding(check, "fail", message, hint)
