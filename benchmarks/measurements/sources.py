"""The sources of rows: those who published them, by repository where the text of a row's source begins with one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.measurements.rows import Measurement

REPOSITORY = re.compile(r"(?:github )?([\w.-]+/[\w.-]+)")


def source_of(row: Measurement) -> str:
    """Return the repository, `owner/name`, that the text of a row's source begins with; else the text, or its group."""
    found = REPOSITORY.match(row.source)
    return found[1] if found else row.source or row.group


def by_source(rows: Sequence[Measurement]) -> dict[str, list[Measurement]]:
    """Return the rows of each source, in the order of their first rows."""
    found: dict[str, list[Measurement]] = {}
    for row in rows:
        found.setdefault(source_of(row), []).append(row)
    return found
