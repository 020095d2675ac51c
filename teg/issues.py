"""Reports of errors in a document that say how to repair them: the place, what came, and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapestry.teg.faults import joined

LONGEST_KEY = 300


@dataclass(frozen=True)
class Issue:
    """An error found in a document.

    `path` is a JSON path into the document of the graph (`$.blocks[12].inputs[0]`), `message` says what came,
    `expected` what would be right or how to get there.
    """

    kind: str
    path: str
    message: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}: {joined((self.message, self.expected))}"


def listing(heading: str, issues: Sequence[Issue], limit: int = 10) -> str:
    """Format the first `limit` issues as text, one per line under a heading with their number."""
    count = f"{len(issues)} issue{'s' if len(issues) != 1 else ''}"
    lines = [f"{heading} ({count}):", *(f"  {issue}" for issue in issues[:limit])]
    if len(issues) > limit:
        lines.append(f"  ... and {len(issues) - limit} more")
    return "\n".join(lines)


def clipped(value: object, limit: int = 80) -> str:
    """Return the `repr` of a value from outside, cut to `limit` characters."""
    text = repr(value[:limit] if isinstance(value, str) else value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def key_path(path: str, key: str) -> str:
    """Return the JSON path of the member `key` of the object at `path`; very long keys are cut."""
    key = key if len(key) <= LONGEST_KEY else key[: LONGEST_KEY - 3] + "..."
    if key.isidentifier():
        return f"{path}.{key}"
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{quoted}']"
