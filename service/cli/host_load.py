"""The load of the machine before it is measured, and a warning where other programs take processors away."""

from __future__ import annotations

import os
import sys

from tapestry.service.cli.errors import CommandError

IDLE = 0.5  # programs in the mean of a minute that count as none


def check_threads(threads: int) -> None:
    """Refuse more threads than there are processors for: they would take turns, and no time would mean anything.

    Raises:
        CommandError: there are more.
    """
    processors = len(os.sched_getaffinity(0))
    if threads > processors:
        raise CommandError(
            f"--threads {threads}: this program may use {processors} processors; take --threads {processors} at most"
        )


def load_before(threads: int) -> float:
    """Return how many programs ran in the mean of the last minute; warn if they leave too few processors."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load > IDLE and load + threads > processors:
        print(
            f"tapestry: {load:.1f} other programs run here, on {processors} processors, beside {threads} to be timed: "
            "times will be too long; measure a machine that does nothing else",
            file=sys.stderr,
        )
    return round(load, 2)
