"""Figures of all processes of a server together, where there are several: each writes its own into a common folder."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set before the library is loaded, it keeps figures in files there


def figures_text(own: CollectorRegistry, read_now: Any) -> bytes:
    """Return the figures in Prometheus' text format: those of `own`, or of all processes if they share a folder.

    The collector `read_now`, which is among `own`, reads what is the same for all of them.
    """
    if FOLDER not in os.environ:
        return generate_latest(own)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    together.register(read_now)
    return generate_latest(together)
