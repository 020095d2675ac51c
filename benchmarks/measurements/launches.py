"""Launches of measured kernels: as a row states it, else as is known of its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

CAPTURED, EAGER = "captured", "eager"
SOURCES = Path(__file__).with_name("launches.toml")


class SourceLaunch(NamedTuple):
    """The launch of kernels in the measurements of one source, a part of whose name is `part`, and the reason."""

    part: str
    launch: str
    reason: str


@cache
def known_sources() -> tuple[SourceLaunch, ...]:
    """Read the table of sources whose rows do not state how kernels were launched."""
    content = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    return tuple(SourceLaunch(**each) for each in content["sources"])


def launch_of(entry: Mapping[str, Any], sources: Sequence[SourceLaunch]) -> str:
    """Return how kernels of a row were launched: its `launch` or that of its inputs, else `trace`, else by source."""
    inputs = entry["inputs"]
    stated = entry.get("launch") or inputs.get("launch")
    if stated:
        return str(stated)
    if isinstance(trace := inputs.get("trace"), bool):  # the word of Tenstorrent for a captured launch
        return CAPTURED if trace else EAGER
    source = str(entry.get("source")).lower()
    return next((each.launch for each in sources if each.part.lower() in source), CAPTURED)
